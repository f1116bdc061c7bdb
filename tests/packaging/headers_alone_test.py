#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of headers_alone.py with headers of its own.

python3 headers_alone_test.py COMPILER
"""

import contextlib
import io
import itertools
import json
import sys
import tempfile
import unittest
from pathlib import Path

import headers_alone

COMPILER = sys.argv.pop() if len(sys.argv) > 1 else "c++"


class HeadersAlone(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, **headers: str) -> None:
        for name, text in headers.items():
            (self.root / f"{name}.hpp").write_text(f"#pragma once\n{text}\n")

    def check(self) -> tuple[int, str]:
        source = self.root / "headers_alone/all.cpp"
        source.parent.mkdir(exist_ok=True)
        names = sorted(header.name for header in self.root.glob("*.hpp"))
        source.write_text("".join(f"#include <{name}>\n" for name in names))
        command = f"{COMPILER} -I{self.root} -o all.o -c {source}"
        entry = {"directory": str(self.root), "file": str(source), "command": command}
        (self.root / "compile_commands.json").write_text(json.dumps([entry]))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = headers_alone.main(self.root, self.root)
        return status, output.getvalue()

    def chains(self) -> list[list[str]]:
        names = [header.name for header in self.root.glob("*.hpp")]
        return headers_alone.chains(headers_alone.closures(names, self.root))

    def test_compiles_headers_that_include_each_other_together(self) -> None:
        self.write(a="int a();", b="#include <a.hpp>\nint b();", c="#include <b.hpp>\nint c();")
        self.assertEqual(self.check(), (0, "3 headers in 1 translation units, 0 failed\n"))

    def test_has_each_header_once_and_after_included_ones_only(self) -> None:
        self.write(
            a="",
            b="",
            c="#include <a.hpp>",
            d="#include <a.hpp>\n#include <b.hpp>",
            e="#include <c.hpp>\n#include <vector>",
        )
        included = headers_alone.closures([f"{name}.hpp" for name in "abcde"], self.root)
        found = self.chains()
        self.assertEqual(
            sorted(itertools.chain.from_iterable(found)), [f"{name}.hpp" for name in "abcde"]
        )
        self.assertEqual(len(found), 2)
        for chain in found:
            for before, after in itertools.pairwise(chain):
                self.assertIn(before, included[after])

    def test_finds_what_only_the_including_header_has(self) -> None:
        self.write(
            a="int size(const std::string&);",
            b="#include <string>\n#include <a.hpp>",
            c="#include <b.hpp>",
        )
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("1 failed", output)
        self.assertIn("FAILED: a.hpp", output)

    def test_finds_what_only_another_header_of_the_includer_has(self) -> None:
        self.write(
            a="struct thing {};",
            b="thing make();",
            c="#include <a.hpp>\n#include <b.hpp>",
        )
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertRegex(output, "FAILED: b.hpp")

    def test_trusts_no_include_below_a_condition(self) -> None:
        self.write(a="struct thing {};", b="#ifdef WITH_A\n#include <a.hpp>\n#endif\nthing make();")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("2 headers in 2 translation units, 1 failed", output)

    def test_fails_without_headers(self) -> None:
        self.assertEqual(self.check()[0], 1)


if __name__ == "__main__":
    unittest.main()
