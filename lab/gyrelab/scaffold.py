# SPDX-License-Identifier: Apache-2.0
"""Scaffolding of new experiments and contenders: the files that each needs, ready to build and run.

`python -m gyrelab.scaffold experiment NAME`, `… contender EXPERIMENT NAME [--needs LIBRARY]`; the
commands are tools/new_experiment and tools/new_contender.
"""

import argparse
import re
import sys
from pathlib import Path

from gyrelab import experiments, paths
from gyrelab.errors import LabError, UsageProblem, pick

TEMPLATES = Path(__file__).resolve().parent / "templates" / "experiment"
NAME = re.compile(r"[a-z][a-z0-9_]*")
CONCEPT = re.compile(r"^template <class \w+>\nconcept \w+ =.*?\};$", re.MULTILINE | re.DOTALL)
PLACEHOLDER = "EXPERIMENT"


def checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageProblem(
            f"'{name}' is not a valid name: use lower-case letters, digits and '_', a letter first"
        )
    return name


def new_experiment(name: str) -> list[Path]:
    """Makes lab/experiments/NAME with a workload and one contender; returns its files."""
    folder = paths.experiments() / checked(name)
    if folder.exists():
        raise UsageProblem(f"{paths.shown(folder)} already exists; choose another name")
    folder.mkdir(parents=True)
    made = []
    for template in sorted(TEMPLATES.iterdir()):
        file = folder / template.name
        file.write_text(template.read_text().replace(PLACEHOLDER, name))
        made.append(file)
    return made


def concept_of(workload: Path) -> str:
    """The concept that contenders of the workload satisfy."""
    found = CONCEPT.search(workload.read_text()) if workload.is_file() else None
    if found is None:
        raise LabError(
            f"{paths.shown(workload)} declares no concept for its contenders: add one; "
            "the workload.hpp of lab/experiments/pool has an example"
        )
    return found[0]


def new_contender(experiment: str, name: str, needs: str | None) -> list[Path]:
    """Adds a contender to an experiment; returns the new and changed files."""
    known = sorted(path.parent.name for path in paths.experiments().glob("*/experiment.toml"))
    folder = paths.experiments() / pick(experiment, known, "experiment")
    description = folder / "experiment.toml"
    if checked(name) in {each.name for each in experiments.load(description).contenders}:
        raise UsageProblem(f"{experiment} already has a contender '{name}'")
    concept = concept_of(folder / "workload.hpp")
    source = folder / f"{name}.cpp"
    comment = "\n".join(f"// {line}".rstrip() for line in concept.splitlines())
    source.write_text(
        "// SPDX-License-Identifier: Apache-2.0\n"
        f"// {name}: name the interface of the library, and why it is the fastest one.\n"
        f"#include <lab/experiments/{experiment}/workload.hpp>\n\n"
        "namespace {\n\n"
        f"// The contender must satisfy:\n{comment}\n"
        f"class {name}_contender {{}};\n\n"
        "}  // namespace\n\n"
        "int main(int argc, char** argv) {\n"
        f"  return lab::{experiment}::contender_main<{name}_contender>(argc, argv);\n"
        "}\n"
    )
    library = f" LIBS gyre_deps::{needs}" if needs else ""
    build = folder / "CMakeLists.txt"
    build.write_text(
        build.read_text() + f"gyre_add_experiment({experiment} {name} {name}.cpp{library})\n"
    )
    entry = f'[[contenders]]\nname = "{name}"\nlabel = "{name}"\nabout = "the interface used"\n'
    entry += 'kind = "peer"\n' + (f'needs = ["{needs}"]\n' if needs else "")
    text = description.read_text()
    last = text.rindex("[[contenders]]")
    end = text.find("\n\n", last)
    end = len(text) if end < 0 else end + 1
    description.write_text(text[:end] + "\n" + entry + text[end:])
    experiments.load(description)
    return [source, build, description]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/new_", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("experiment", prog="tools/new_experiment")
    one.add_argument("name")
    other = commands.add_parser("contender", prog="tools/new_contender")
    other.add_argument("experiment")
    other.add_argument("name")
    other.add_argument("--needs", metavar="LIBRARY", help="the optional library gyre_deps::LIBRARY")
    options = parser.parse_args(arguments)
    try:
        if options.command == "experiment":
            files = new_experiment(options.name)
            experiment = options.name
        else:
            files = new_contender(options.experiment, options.name, options.needs)
            experiment = options.experiment
    except LabError as problem:
        print(f"tools/new_{options.command}: {problem}", file=sys.stderr)
        return problem.exit_status
    for file in files:
        print(paths.shown(file))
    print(f"Edit these files, then run: tools/lab run {experiment} --grid smoke")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
