# SPDX-License-Identifier: Apache-2.0
"""The recipe of gyre for Conan 2: docs/packages.md says how to use it.

    conan create . --build=missing
    conan create . -o "gyre/*:io=False"     # only coroutines: no other package is needed

The rooms are options; a switched-off room switches off those that need it.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir
from conan.tools.gnu import PkgConfigDeps
from conan.tools.scm import Version

# Each room with the rooms that it links, and with the packages of others.
ROOMS = {
    "base": ([], []),
    "trace": (["base"], []),
    "task": (["trace"], []),
    "sync": (["task"], []),
    "metrics": (["sync"], []),
    "exec": (["metrics"], []),
    "pool": (["exec"], []),
    "io": (["pool"], ["liburing::liburing"]),
    "net": (["io"], ["c-ares::c-ares"]),
    "tls": (["net"], ["openssl::openssl"]),
    "http": (
        ["tls"],
        ["zlib::zlib", "brotli::brotli", "zstd::zstd", "libnghttp2::libnghttp2"],
    ),
    "runtime": (["io"], []),
    "engines": (["tls"], []),
    "redis": (["engines"], ["openssl::openssl"]),
    "nats": (["engines"], []),
    "postgres": (["engines"], ["openssl::openssl"]),
    "work": (["postgres"], []),
    "testing": (["http", "runtime"], []),
    "testing_allocations": (["base"], []),
    "testing_faults": (["base"], ["liburing::liburing"]),
}
# The libraries of those packages, for profiles that take them from the system.
SYSTEM_LIBRARIES = {
    "liburing": ["uring"],
    "c-ares": ["cares"],
    "openssl": ["ssl", "crypto"],
    "zlib": ["z"],
    "brotli": ["brotlienc", "brotlidec"],
    "zstd": ["zstd"],
    "libnghttp2": ["nghttp2"],
}
# The rooms that each package has.
ALWAYS = ("base", "trace", "task", "sync", "metrics", "exec", "pool")
# The options: rooms that can be left out, each with the room that it needs.
NEEDS = {
    "io": None,
    "net": "io",
    "tls": "net",
    "http": "tls",
    "redis": "tls",
    "nats": "tls",
    "postgres": "tls",
    "work": "postgres",
    "testing": "http",
}


class GyreConan(ConanFile):
    name = "gyre"
    description = "C++23 runtime for Linux: event loops, task queues, pools, sockets, coroutines"
    license = "Apache-2.0"
    topics = ("coroutines", "event-loop", "networking", "http", "io-uring")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]} | {
        room: [True, False] for room in NEEDS
    }
    default_options = {"shared": False, "fPIC": True} | dict.fromkeys(NEEDS, True)
    exports_sources = (
        "CMakeLists.txt",
        "LICENSE",
        "cmake/*",
        "gyre/*",
        "!*_test.cpp",
        "!*_suite.hpp",
        "!*_test_support.hpp",
    )
    test_package_folder = "packaging/conan/test_package"

    def set_version(self):
        header = Path(self.recipe_folder, "gyre/base/version.hpp").read_text()
        self.version = re.search(r'GYRE_VERSION_STRING "(.*)"', header)[1]

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")
        for room, needed in NEEDS.items():
            if needed and not self.options.get_safe(needed):
                self.options.rm_safe(room)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        if self.options.io:
            self.requires("liburing/[>=2.3 <3]")
        if self.options.get_safe("net"):
            self.requires("c-ares/[>=1.18 <2]")
        if self.options.get_safe("tls"):
            self.requires("openssl/[>=3.0 <4]")
        if self.options.get_safe("http"):
            self.requires("zlib/[>=1.2.11 <2]")
            self.requires("brotli/[>=1.0.9 <2]")
            self.requires("zstd/[>=1.4.8 <2]")
            self.requires("libnghttp2/[>=1.52 <2]")
        if self.options.get_safe("nats"):
            self.requires("nlohmann_json/[>=3.11 <4]", visible=False)

    def build_requirements(self):
        if self.options.io and not self.conf.get("tools.gnu:pkg_config"):
            self.tool_requires("pkgconf/[>=1.8 <3]")

    def validate(self):
        check_min_cppstd(self, 23)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("gyre runs on Linux only")
        oldest = {"gcc": "12", "clang": "19"}.get(str(self.settings.compiler))
        if oldest and Version(self.settings.compiler.version) < oldest:
            raise ConanInvalidConfiguration(f"gyre needs {self.settings.compiler} {oldest}")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        for option in ("TESTS", "LAB", "EXAMPLES"):
            toolchain.cache_variables[f"GYRE_BUILD_{option}"] = False
        toolchain.cache_variables["GYRE_INSTALL"] = True
        for room in NEEDS:
            wanted = bool(self.options.get_safe(room, False))
            toolchain.cache_variables[f"GYRE_WITH_{room.upper()}"] = wanted
        toolchain.generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        # Conan writes these for the packages that it has chosen.
        rmdir(self, Path(self.package_folder, "lib/cmake"))
        rmdir(self, Path(self.package_folder, "lib/pkgconfig"))

    def package_info(self):
        # gyre::gyre is a component of its own, without the engines and the tools for tests.
        self.cpp_info.set_property("cmake_file_name", "gyre")
        self.cpp_info.set_property("cmake_target_name", "gyre::all_rooms")
        self.cpp_info.set_property("pkg_config_name", "gyre-all-rooms")
        rooms = [room for room in ROOMS if self._has(room)]
        # A package of [platform_requires] is no dependency here, and has no components to require.
        conan_packages = {dependency.ref.name for dependency in self.dependencies.host.values()}
        for room in rooms:
            depends, packages = ROOMS[room]
            component = self.cpp_info.components[room]
            component.set_property("cmake_target_name", f"gyre::{room}")
            component.set_property("pkg_config_name", f"gyre-{room}")
            component.libs = [f"gyre_{room}"]
            component.requires = list(depends)
            component.system_libs = ["pthread"]
            for package in packages:
                name = package.split("::")[0]
                if name in conan_packages:
                    component.requires.append(package)
                else:
                    component.system_libs += SYSTEM_LIBRARIES[name]
            component.sharedlinkflags = ["-Wl,-z,nodelete"]
            if room == "testing_faults":
                component.system_libs += ["dl"]
        if self.settings.compiler == "gcc":
            # Symmetric transfer of coroutines is a tail call only with this option.
            self.cpp_info.components["task"].cxxflags = ["-foptimize-sibling-calls"]
            self.cpp_info.components["task"].defines = ["GYRE_HAS_SIBLING_CALLS"]
        everything = self.cpp_info.components["gyre"]
        everything.set_property("cmake_target_name", "gyre::gyre")
        everything.set_property("pkg_config_name", "gyre")
        everything.libs = []
        common = (*ALWAYS, "io", "net", "tls", "http", "runtime")
        everything.requires = [room for room in rooms if room in common]

    def _has(self, room):
        """Whether this package has the room."""
        if room in ALWAYS:
            return True
        if room == "runtime":
            room = "io"
        if room == "engines":
            return any(self.options.get_safe(each) for each in ("redis", "nats", "postgres"))
        return bool(self.options.get_safe(room.split("_")[0]))
