# SPDX-License-Identifier: Apache-2.0
"""Tests of the rules of tools/check_layout and tools/check_spelling."""

import sys
import tempfile
import types
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name: str) -> types.ModuleType:
    """The program tools/NAME, which has no suffix, as a module."""
    path = TOOLS / name
    module = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(path.read_text(), path, "exec"), module.__dict__)
    return module


LAYOUT = tool("check_layout")
SPELLING = tool("check_spelling")
CODESPELL = SPELLING.ENVIRONMENT / "bin/codespell"

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


class Includes(unittest.TestCase):
    def test_details_of_other_rooms_are_found_but_for_shared_ones(self) -> None:
        lines = [
            "#include <gyre/base/detail/futex.hpp>",
            "#include <gyre/task/detail/cancelled.hpp>",
            "#include <gyre/net/detail/own.hpp>",
            "#include <gyre/io/detail/uring.hpp>",
        ]
        found = LAYOUT.foreign_details("gyre/net/thing.cpp", lines)
        self.assertEqual([problem.split()[1] for problem in found], ["gyre/io/detail/uring.hpp"])
        self.assertEqual(LAYOUT.foreign_details("gyre/net/thing_test.cpp", lines), [])

    def test_groups_stand_in_their_order(self) -> None:
        good = """\
#include <gyre/net/thing.hpp>

#include <gyre/base/error.hpp>

#include <boost/asio.hpp>
#include <liburing.h>

#include <sys/socket.h>

#include <vector>
""".splitlines()
        self.assertEqual(LAYOUT.include_order("gyre/net/thing.cpp", good), [])
        for earlier, later in ((4, 2), (7, 4), (9, 7)):
            bad = good.copy()
            bad[earlier], bad[later] = bad[later], bad[earlier]
            self.assertNotEqual(LAYOUT.include_order("gyre/net/thing.cpp", bad), [])


class Words(unittest.TestCase):
    def test_a_comment_begins_with_its_subject(self) -> None:
        bad = [LAYOUT.LICENCE, "// What it is.", "int a;  // What it is.", "/// Whoever needs it."]
        bad.append("// Of the loop.")
        self.assertEqual(len(LAYOUT.subjects("gyre/base/thing.hpp", bad)), 4)
        good = ["// A long sentence about the loop and", "// what it runs.", "// Offers it."]
        self.assertEqual(LAYOUT.subjects("gyre/base/thing.hpp", good), [])

    def test_the_name_of_a_test_begins_with_its_subject(self) -> None:
        bad = """\
TEST(Thing, OfZeroRuns) {
  TYPED_TEST(Thing, WhatWaits) {}
TEST_P(AThingWithALongName,
       WhoeverWaits) {
TEST_F(Thing, OfVersion2) {}
""".splitlines()
        found = LAYOUT.test_names("gyre/base/thing_test.cpp", bad)
        words = [(problem.split(":")[1], problem.split()[3]) for problem in found]
        self.assertEqual(
            words,
            [("1", "OfZeroRuns"), ("2", "WhatWaits"), ("4", "WhoeverWaits"), ("5", "OfVersion2")],
        )
        good = ["TEST(Thing, OffersIt) {", "TEST(Thing, WholeLines) {", "TEST(Of, ItRuns) {"]
        self.assertEqual(LAYOUT.test_names("gyre/base/thing_test.cpp", good), [])

    def test_a_comment_of_a_script_begins_with_its_subject(self) -> None:
        bad = ["# SPDX-License-Identifier: Apache-2.0", "# What it is.", "set(a 1)  # Of the loop."]
        bad += ["", "# A function that", "# what it runs.", "# Those that wait."]
        found = LAYOUT.script_subjects("cmake/thing.cmake", bad)
        self.assertEqual([problem.split(":")[1] for problem in found], ["2", "3", "7"])

    def test_a_docstring_begins_with_its_subject(self) -> None:
        bad = """\
text = "# What it is."
def run():
    \"\"\"Whatever runs. Of it.

    Those that wait for
    what it runs.
    \"\"\"
    return text  # Who waits.
""".splitlines()
        found = LAYOUT.script_subjects("lab/thing.py", bad)
        words = sorted((int(problem.split(":")[1]), problem.split()[-1]) for problem in found)
        self.assertEqual(words, [(3, "'Of'"), (3, "'Whatever'"), (5, "'Those'"), (8, "'Who'")])
        shell = ["#!/usr/bin/env bash", "run  # Who waits."]
        self.assertEqual(len(LAYOUT.script_subjects("tools/thing", shell)), 1)

    def test_a_sentence_of_a_page_begins_with_its_subject(self) -> None:
        bad = """\
What it is.
The loop runs. Whoever needs it
stops it.
Of the loop.

- Those that wait.

1. *Whose* end.
""".splitlines()
        found = LAYOUT.page_subjects("docs/thing.md", bad)
        self.assertEqual(
            [(problem.split(":")[1], problem.split()[-1]) for problem in found],
            [
                ("1", "'What'"),
                ("2", "'Whoever'"),
                ("4", "'Of'"),
                ("6", "'Those'"),
                ("8", "'Whose'"),
            ],
        )
        good = """\
## What it is
| What |
The time of
What Cheer is late: what it tells is wrong. Whatsoever.
```
Who runs. Of it.
```
""".splitlines()
        self.assertEqual(LAYOUT.page_subjects("docs/thing.md", good), [])

    def test_american_forms_are_led_to_british_ones(self) -> None:
        british_to_american = ["mould->mold", "programme->program, prog, "]  # codespell:ignore
        american_to_british = [
            "mold->mould",  # codespell:ignore
            "prog->programme",
            "program->programme",
        ]
        self.assertEqual(SPELLING.british_forms(british_to_american), american_to_british)

    @unittest.skipUnless(CODESPELL.exists(), "codespell is not installed: run tools/setup")
    def test_typing_errors_and_american_forms_are_found_but_for_accepted_words(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "thing.hpp"
            errors = "// Recieves the behavior."  # codespell:ignore
            text.write_text(errors + "\n// A program receives the behaviour.\n")
            found = SPELLING.spelling(CODESPELL, [str(text)])
        self.assertEqual([problem.split(":")[1] for problem in found], ["1", "1"])

    def test_comments_and_pages_have_100_columns_but_for_tables_and_examples(self) -> None:
        word = "x" * 99
        wide = [f"// {word}", f"///     {word}", f"/// | {word}", f'auto text = "// {word}";']
        self.assertEqual(len(LAYOUT.comment_width("gyre/base/thing.hpp", wide)), 1)
        page = [f"a {word}", f"| {word}", "```", f"code {word}", "```", f"[{word}]"]
        self.assertEqual(len(LAYOUT.page_width("docs/thing.md", page)), 1)

    def test_parameters_and_options_are_no_bare_durations(self) -> None:
        header = """\
using std::chrono::nanoseconds;
void wait(std::chrono::nanoseconds limit);
void wait(const std::chrono::duration<double>& limit, int times);
void wait(std::optional<std::chrono::seconds> limit = {});
void wait(int times,
          milliseconds limit);
struct options {
  std::chrono::nanoseconds limit = std::chrono::seconds{1};
  std::optional<std::chrono::hours> longest{};
  std::chrono::milliseconds shortest;
};
std::chrono::nanoseconds age() noexcept;  // not std::chrono::nanoseconds limit;
std::optional<std::chrono::nanoseconds> last_age();
void wait(duration limit = std::chrono::seconds{5}, bool is_last = true);
struct timer {
  std::chrono::nanoseconds limit_{0};
  std::optional<std::chrono::nanoseconds> longest_;
  static constexpr std::chrono::nanoseconds tick{1024};
};
bool is_ready() { return future.wait_for(std::chrono::seconds(0)) == ready; }
auto whole = std::chrono::floor<std::chrono::seconds>(age());
""".splitlines()
        found = LAYOUT.bare_durations("gyre/base/thing.hpp", header)
        self.assertEqual([problem.split(":")[1] for problem in found], [*"23468", "9", "10"])
        self.assertRegex(found[0], "limit is a bare duration: .*gyre::duration")
        result = ["struct held {", "  std::chrono::nanoseconds duration{0};", "};"]
        self.assertEqual(LAYOUT.bare_durations("gyre/exec/executor_watchdog.hpp", result), [])


CLASSES = """\
namespace gyre {
class thing;
namespace detail {
template <class T, bool Large = (sizeof(T) > 8)>
  requires std::same_as<T, int>
class [[nodiscard]] alignas(64) box final : base<decltype(T())> {
 public:
  struct lid { void open(); int size_{0}; };
  box() : a_{1}, b_(2) {}
};
struct thing { bool operator()(int) const; operator bool() const; ~thing(); class part; };
}  // namespace detail
}  // namespace gyre
"""

MEMBERS = {
    "box": "template <class T, bool Large>\nvoid detail::box<T, Large>::run() noexcept(T()) {",
    "lid": "template <class T, bool Large>\nvoid detail::box<T, Large>::lid::open() {",
    "box ": "template <>\nstd::function<void(int)> detail::box<int>::run(int a = {}) {",
    "thing": "bool detail::thing::operator()(int) const {",
    "thing ": "detail::thing::operator bool() const {",
    "thing  ": "detail::thing::~thing() = default; void f() {",
    "thing   ": "detail::thing::thing() : box<int>{}, a_{1}, other::b(2) {",
}

NO_MEMBERS = """\
// void detail::thing::run() {
const char* text = "void detail::thing::run() {";
#define RUN void detail::thing::run() {
void detail::run(thing::part* part = {}) {
  detail::thing::run(); if (part) { thing::stop(); }
}
int detail::thing::count_{0};
auto run = [] { return detail::thing::run(); };
std::vector<detail::thing> run(int digits = 1'000) { return {}; }
bool detail::operator==(const thing& a, const thing& b) { return true; }
void detail::thing::declared();
enum class detail::thing::state : int { open };
"""


class ClassHomes(unittest.TestCase):
    def problems(self, path: str, code: str) -> list[str]:
        code = f"namespace gyre {{\n{code}\n}}\n}}\n" if code.endswith("{") else code
        sources = {"gyre/base/thing.hpp": CLASSES, path: code}
        return LAYOUT.class_homes(sources)

    def test_members_are_defined_in_the_source_of_the_same_name(self) -> None:
        for name, member in MEMBERS.items():
            self.assertEqual(self.problems("gyre/base/thing.cpp", member), [])
            for elsewhere in ("gyre/base/other.cpp", "gyre/base/detail/thing.cpp"):
                found = self.problems(elsewhere, member)
                self.assertEqual(len(found), 1, member)
                self.assertIn(f"members of {name.strip()}, whose class is in gyre/base/", found[0])

    def test_the_line_of_the_first_member_is_told(self) -> None:
        found = self.problems("gyre/base/other.cpp", "\n// Why.\n" + MEMBERS["thing"])
        self.assertRegex(found[0], "^gyre/base/other.cpp:4: ")

    def test_free_functions_variables_and_calls_are_no_members(self) -> None:
        code = f"namespace gyre {{\n{NO_MEMBERS}}}\n"
        self.assertEqual(self.problems("gyre/base/other.cpp", code), [])

    def test_members_of_a_class_in_a_source_are_in_that_source(self) -> None:
        inner = "namespace gyre::detail { class thing::part { void run(); }; }\n"
        member = "namespace gyre { void detail::thing::part::run() {} }\n"
        self.assertEqual(self.problems("gyre/base/a.cpp", inner + member), [])
        sources = {"a.hpp": CLASSES, "a.cpp": inner, "a_more.cpp": member}
        found = LAYOUT.class_homes(sources)
        self.assertEqual([problem.split(":")[0] for problem in found], ["a_more.cpp"])

    def test_a_nameless_namespace_is_part_of_its_file(self) -> None:
        code = "namespace { struct own { void run(); };\nvoid own::run() {} }\n"
        self.assertEqual(self.problems("gyre/base/other.cpp", code), [])


PAGE = """
## The seam

| behind | as |
|---|---|
| `gyre/base` | the interface |
| `gyre/io/poller.cpp` | the poller |

| not yet | uses |
|---|---|
| `gyre/net/old.cpp` | `socket`, `thread` |

## Another section

| `gyre/net/thing.cpp` | `socket` |
"""

USES = {
    "socket": "int fd = ::socket(AF_INET, SOCK_STREAM, 0);",
    "getrandom": "if (!::getrandom(&seed, sizeof seed, 0)) return;",
    "thread": "std::thread other([] {});",
    "jthread": "std::vector<std::jthread> threads;",
    "random_device": "std::random_device device;",
    "steady_clock::now": "return std::chrono::steady_clock::now();",
    "system_clock::now": "return system_clock::now();",
    "ifstream": "std::ifstream file(path);",
}

NO_USES = """
// ::socket(AF_INET, SOCK_STREAM, 0);
const char* text = "::socket(0)";
std::thread::id self = std::this_thread::get_id();
auto made = ::new (place) thing; ::inet_pton(AF_INET, text, &made);
auto own = net::socket(1); auto other = thing<int>::socket(2);
void thing::read(int) {}
std::chrono::steady_clock::time_point now;
"""


class Seam(unittest.TestCase):
    OLD = "::socket(0, 0, 0); std::thread other;"

    def problems(self, **sources: str) -> list[str]:
        paths = {"old": "gyre/net/old.cpp", "base": "gyre/base/clock.hpp"}
        paths |= {"io": "gyre/io/poller.cpp", "thing": "gyre/net/thing.cpp"}
        texts = {"old": self.OLD, "base": "::read(0);", "io": "::read(0);"} | sources
        return LAYOUT.seam(PAGE, {paths[name]: text for name, text in texts.items()})

    def test_uses_of_the_system_are_found(self) -> None:
        for name, text in USES.items():
            self.assertEqual(LAYOUT.system_uses(text), {name})
            found = self.problems(thing=text)
            self.assertEqual(len(found), 1, name)
            self.assertIn(f"gyre/net/thing.cpp:1: uses {name},", found[0])
            self.assertEqual(self.problems(base=text), [])
        self.assertEqual(LAYOUT.system_uses(NO_USES), set())

    def test_a_listed_file_uses_nothing_else(self) -> None:
        self.assertEqual(self.problems(), [])
        self.assertEqual(len(self.problems(old=self.OLD + "::bind(0);")), 1)

    def test_the_list_can_only_shrink(self) -> None:
        found = self.problems(old="std::thread other;")
        self.assertRegex("".join(found), "gyre/net/old.cpp does not use socket any more")
        self.assertEqual(len(self.problems(old="")), 2)
        self.assertRegex(
            "".join(self.problems(io="")), "gyre/io/poller.cpp does not use the system"
        )


if __name__ == "__main__":
    sys.exit(unittest.main())
