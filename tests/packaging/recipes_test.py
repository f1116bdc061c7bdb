# SPDX-License-Identifier: Apache-2.0
"""Checks that the recipes in packaging/ and conanfile.py say the same as gyre's CMake files.

    python3 recipes_test.py

The recipes repeat some facts, as their tools read nothing else.
"""

import ast
import json
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging/vcpkg"))

import check_manifest  # noqa: E402

ALWAYS = {"base", "trace", "task", "sync", "metrics", "exec", "pool"}
MANIFEST = "packaging/vcpkg/ports/gyre/vcpkg.json"
CONAN_PACKAGES = {
    "liburing": ["liburing::liburing"],
    "libcares": ["c-ares::c-ares"],
    "openssl": ["openssl::openssl"],
    "zlib": ["zlib::zlib"],
    "brotli": ["brotli::brotli"],
    "zstd": ["zstd::zstd"],
    "nghttp2": ["libnghttp2::libnghttp2"],
}


def read(path: str) -> str:
    return (ROOT / path).read_text()


def version() -> str:
    match = re.search(r'GYRE_VERSION_STRING "(.*)"', read("gyre/base/version.hpp"))
    return match[1]


def soversion() -> str:
    major, minor, _ = version().split(".")
    return f"{major}.{minor}" if major == "0" else major


def closure(direct: dict[str, set[str]], room: str) -> set[str]:
    """The room, and all that it needs."""
    return {room}.union(*(closure(direct, each) for each in direct[room]))


def cmake_rooms() -> dict[str, tuple[set[str], set[str]]]:
    """Each room with the rooms and the packages that gyre_add_room() names."""
    rooms = {}
    for path in (ROOT / "gyre").glob("**/CMakeLists.txt"):
        text = path.read_text()
        optional = dict(re.findall(r"set\((\w+) PkgConfig::(\w+)\)", text))
        for call in re.finditer(r"gyre_add_room\((\w+)([^)]*)\)", text):
            depends = re.search(r"DEPENDS([\sa-z]*)", call[2])
            packages = set(re.findall(r"PkgConfig::(\w+)", call[2]))
            packages |= {package for name, package in optional.items() if f"${{{name}}}" in call[2]}
            rooms[call[1]] = (set(depends[1].split()) if depends else set(), packages)
    return rooms


def cmake_options() -> dict[str, str]:
    """Each room that can be left out, with the room that it needs."""
    calls = re.findall(
        r"^gyre_room_option\((\w+)(?: NEEDS (\w+))?\)", read("cmake/gyre_rooms.cmake"), re.M
    )
    return dict(calls)


def constant(name: str) -> object:
    """A constant of the recipe for Conan, which is not imported, as it needs Conan."""
    for node in ast.parse(read("conanfile.py")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise KeyError(name)


class Versions(unittest.TestCase):
    def test_vcpkg(self):
        self.assertEqual(json.loads(read(MANIFEST))["version-semver"], version())

    def test_debian(self):
        self.assertRegex(read("packaging/debian/changelog"), rf"\Agyre \({re.escape(version())}-\d")
        package = f"libgyre{soversion()}"
        self.assertIn(f"\nPackage: {package}\n", read("packaging/debian/control"))
        self.assertTrue((ROOT / f"packaging/debian/{package}.install").exists())

    def test_changelog(self):
        self.assertIn(version(), read("CHANGELOG.md"))


class Conan(unittest.TestCase):
    def setUp(self):
        self.rooms = constant("ROOMS")

    def test_needs_the_same_rooms(self):
        cmake = {room: depends for room, (depends, _) in cmake_rooms().items()}
        conan = {room: set(depends) for room, (depends, _) in self.rooms.items()}
        for room in cmake:
            self.assertEqual(closure(conan, room), closure(cmake, room), room)
        self.assertEqual(conan.keys() - cmake.keys(), {"testing_allocations", "testing_faults"})

    def test_needs_the_same_packages(self):
        cmake = cmake_rooms()
        direct = {room: depends for room, (depends, _) in cmake.items()}
        conan = {room: set(depends) for room, (depends, _) in self.rooms.items()}
        for room in cmake:
            wanted = {
                package
                for each in closure(direct, room)
                for name in cmake[each][1]
                for package in CONAN_PACKAGES[name]
            }
            found = {name for each in closure(conan, room) for name in self.rooms[each][1]}
            self.assertEqual(found, wanted, room)

    def test_knows_the_libraries_of_each_package(self):
        used = {name.split("::")[0] for _, packages in self.rooms.values() for name in packages}
        self.assertEqual(constant("SYSTEM_LIBRARIES").keys(), used)

    def test_has_the_same_options(self):
        needs = {room: needed or "" for room, needed in constant("NEEDS").items()}
        self.assertEqual(needs, cmake_options())


class Vcpkg(unittest.TestCase):
    def setUp(self):
        self.manifest = json.loads(read(MANIFEST))

    def test_manifest_is_valid(self):
        self.assertEqual(check_manifest.check(self.manifest), [])

    def test_features_are_the_options(self):
        self.assertEqual(self.manifest["features"].keys(), cmake_options().keys())
        port = re.findall(
            r"^    (\w+) GYRE_WITH_(\w+)", read(f"{Path(MANIFEST).parent}/portfile.cmake"), re.M
        )
        self.assertEqual(dict(port), {room: room.upper() for room in cmake_options()})
        for room, needed in cmake_options().items():
            used = check_manifest.used_features(self.manifest, room)
            self.assertEqual(used, [needed] if needed else [], room)

    def test_mistakes_are_found(self):
        mistakes = {
            "name": "Gyre",
            "version": "0.1.0",  # beside version-semver
            "version-semver": "0.1",
            "dependencies": ["zlib", "brotli"],
            "features": {"http": {"description": ""}},
            "default-features": ["https"],
            "feature": {},
        }
        for field, value in mistakes.items():
            with self.subTest(field):
                self.assertNotEqual(check_manifest.check(self.manifest | {field: value}), [])

    def test_circles_are_found(self):
        def needs(feature: str) -> dict:
            return {
                "description": "d",
                "dependencies": [{"name": "gyre", "features": [feature]}],
            }

        circle = {"a": needs("b"), "b": needs("a")}
        manifest = self.manifest | {"features": circle, "default-features": ["a"]}
        self.assertIn("feature 'a' needs itself", check_manifest.check(manifest))


class Image(unittest.TestCase):
    def test_its_files_are_not_ignored(self):
        kept = [line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")]
        copied = [
            source
            for line in read("Dockerfile").splitlines()
            if line.startswith("COPY ") and "--from=" not in line
            for source in line.split()[1:-1]
        ]
        self.assertIn("gyre", copied)
        self.assertEqual([each for each in copied if each not in kept], [])


if __name__ == "__main__":
    unittest.main()
