# SPDX-License-Identifier: Apache-2.0
"""Builds and runs examples with the package that `conan create` has made."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class GyreTestConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self, src_folder="../../hello")

    def _has(self, room):
        return bool(self.dependencies["gyre"].options.get_safe(room))

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["HELLO_LOOP"] = self._has("io")
        toolchain.cache_variables["HELLO_HTTP"] = self._has("http")
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        folder = Path(self.build_folder, self.cpp.build.bindir)
        programs = [folder / "hello_coroutine"]
        if self._has("io"):
            programs.append(folder / "hello_task")
        for program in programs:
            self.run(str(program), env="conanrun")
            self.output.info(f"ran {program.name}")
        if self._has("http"):
            talk = Path(self.recipe_folder, "../../../examples/tests/talk.py")
            self.run(f"python3 {talk} hello_http {folder / 'hello_http'}", env="conanrun")
            self.output.info("ran hello_http")
