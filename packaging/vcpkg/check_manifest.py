# SPDX-License-Identifier: Apache-2.0
"""Checks a manifest of vcpkg against the rules of its schema, where vcpkg itself is missing.

    check_manifest.py vcpkg.json

The rules are those of vcpkg's documentation of manifests for the fields that a port uses: names,
versions, dependencies, features. A feature names only features that exist, and no circle.
"""

import json
import re
import sys
from pathlib import Path

IDENTIFIER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
RESERVED = re.compile(r"prn|aux|nul|con|lpt[1-9]|com[1-9]|core|default")
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([-+][0-9A-Za-z.+-]+)?")
VERSIONS = {"version", "version-semver", "version-date", "version-string"}
FIELDS = VERSIONS | {
    "name",
    "port-version",
    "description",
    "homepage",
    "documentation",
    "license",
    "maintainers",
    "supports",
    "dependencies",
    "default-features",
    "features",
}
DEPENDENCY_FIELDS = {"name", "default-features", "features", "host", "platform", "version>="}
FEATURE_FIELDS = {"description", "dependencies", "supports", "license"}


def name_problems(name: object, place: str) -> list[str]:
    if isinstance(name, str) and IDENTIFIER.fullmatch(name) and not RESERVED.fullmatch(name):
        return []
    return [f"{place}: {name!r} is no name"]


def field_problems(value: dict, allowed: set[str], place: str) -> list[str]:
    unknown = [key for key in value if key not in allowed and not key.startswith("$")]
    return [f"{place}: there is no field {key!r}" for key in unknown]


def dependency_problems(dependencies: object, place: str) -> list[str]:
    if not isinstance(dependencies, list):
        return [f"{place}: dependencies are a list"]
    problems = []
    names = []
    for each in dependencies:
        value = {"name": each} if isinstance(each, str) else each
        problems += name_problems(value.get("name"), place)
        problems += field_problems(value, DEPENDENCY_FIELDS, place)
        names.append(str(value.get("name")))
        for flag in ("default-features", "host"):
            if not isinstance(value.get(flag, True), bool):
                problems.append(f"{place}: {flag!r} is true or false")
        for feature in value.get("features", []):
            problems += name_problems(feature, place)
    if names != sorted(names):
        problems.append(f"{place}: `vcpkg format-manifest` would sort the dependencies")
    return problems


def used_features(manifest: dict, feature: str) -> list[str]:
    return [
        used
        for each in manifest["features"][feature].get("dependencies", [])
        if isinstance(each, dict) and each.get("name") == manifest["name"]
        for used in each.get("features", [])
    ]


def circle_problems(manifest: dict) -> list[str]:
    features = manifest["features"]
    problems = []
    for feature in features:
        reached: set[str] = set()
        pending = [feature]
        while pending:
            for used in used_features(manifest, pending.pop()):
                if used not in features:
                    problems.append(f"feature {feature!r} needs {used!r}, which does not exist")
                elif used == feature:
                    problems.append(f"feature {feature!r} needs itself")
                elif used not in reached:
                    reached.add(used)
                    pending.append(used)
    return problems


def check(manifest: dict) -> list[str]:
    problems = name_problems(manifest.get("name"), "name")
    problems += field_problems(manifest, FIELDS, "manifest")
    versions = VERSIONS & manifest.keys()
    if len(versions) != 1:
        problems.append(f"a manifest has one version, this has {sorted(versions)}")
    if not SEMANTIC.fullmatch(manifest.get("version-semver", "0.0.0")):
        problems.append("version-semver is no semantic version")
    problems += dependency_problems(manifest.get("dependencies", []), "dependencies")
    features = manifest.get("features", {})
    if list(features) != sorted(features):
        problems.append("`vcpkg format-manifest` would sort the features")
    for name, feature in features.items():
        problems += name_problems(name, "features")
        problems += field_problems(feature, FEATURE_FIELDS, f"feature {name!r}")
        if not feature.get("description"):
            problems.append(f"feature {name!r} has no description")
        problems += dependency_problems(feature.get("dependencies", []), f"feature {name!r}")
    for name in manifest.get("default-features", []):
        if name not in features:
            problems.append(f"the default feature {name!r} does not exist")
    return problems + circle_problems(manifest | {"features": features})


def main() -> int:
    problems = check(json.loads(Path(sys.argv[1]).read_text()))
    print("\n".join(f"{sys.argv[1]}: {problem}" for problem in problems) or "manifest: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
