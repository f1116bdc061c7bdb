# SPDX-License-Identifier: Apache-2.0
"""Tests of a rule of tools/check_layout: every example in a public header's comments is run."""

import sys
import types
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/check_layout"


def tool() -> types.ModuleType:
    """tools/check_layout as a module; it is a program without a suffix."""
    module = types.ModuleType("check_layout")
    module.__file__ = str(TOOL)
    exec(compile(TOOL.read_text(), TOOL, "exec"), module.__dict__)
    return module


LAYOUT = tool()

HEADER = """\
// A thing.
//
//     gyre::thing one(…);
//     if (one.ready()) {
//       one.run();   // at once
//     }
//
//     one.stop();
#pragma once
/// Cost          nothing
///               but time
///
///   list        of two columns
""".splitlines()

PROGRAM = """\
TEST(Thing, Runs) {
  gyre::thing one(1, 2);
  if (one.ready()) {
    one.run();  // at once
  }
  EXPECT_TRUE(one.ran());
  one.stop();
}
"""


class ExamplesRun(unittest.TestCase):
    def problems(self, program: str) -> list[str]:
        programs = [LAYOUT.squeezed(program.splitlines())]
        return LAYOUT.examples_run("gyre/base/thing.hpp", HEADER, programs)

    def test_examples_are_indented_and_ended_by_an_empty_line(self) -> None:
        found = LAYOUT.examples(HEADER)
        self.assertEqual([(number, len(lines)) for number, lines in found], [(3, 4), (8, 1)])

    def test_an_example_that_a_program_holds_is_no_problem(self) -> None:
        self.assertEqual(self.problems(PROGRAM), [])

    def test_a_missing_example_is_told_with_header_and_line(self) -> None:
        problems = self.problems(PROGRAM.replace("  one.stop();\n", ""))
        self.assertEqual(len(problems), 1)
        self.assertRegex(problems[0], r"^gyre/base/thing.hpp:8: .*'one.stop\(\);'.*header_examples")

    def test_lines_must_follow_each_other(self) -> None:
        problems = self.problems(PROGRAM.replace("one(1, 2);\n", "one(1, 2);\n  one.start();\n"))
        self.assertEqual(len(problems), 1)

    def test_whole_lines_are_compared(self) -> None:
        for other in ("  // one.stop();", "  one.stop();  // too late", "  if (one) one.stop();"):
            self.assertEqual(len(self.problems(PROGRAM.replace("  one.stop();", other))), 1)

    def test_an_ellipsis_stays_within_its_line(self) -> None:
        self.assertEqual(len(self.problems(PROGRAM.replace("one(1, 2);", "one(1,\n  2);"))), 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
