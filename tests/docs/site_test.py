# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/site, the program that makes the reference site."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/site"))

import assembly
import defaults
import headers
import markup
import model
import options
import reference
import repository
from symbols import Symbol, Symbols

DOXYGEN = ROOT / ".venv/bin/doxygen"

THING = """\
// SPDX-License-Identifier: Apache-2.0
// thing: a class for tests.
//
//     gyre::thing one(8);
#pragma once

namespace gyre {

namespace detail {
/// The members that all things have.
template <class T>
class things {
 public:
  /// Waits for a std::optional<T>, and \\returns #nothing.
  void wait();
};
}  // namespace detail

/// Whether a T is small.
template <class T>
concept small = sizeof(T) <= 8;

/// The kinds of things.
enum class kind { red, blue };

/// Limits of a thing.
struct thing_limits {
  std::size_t bytes = std::size_t{4} << 10;  ///< the bytes, at most
  /// The time limit, as `patience` says.
  duration wait = std::chrono::seconds{30};
  duration patience = duration::max();
  kind colour = kind::red;
  std::size_t forgotten = 7;
};

/// Options of a thing.
struct thing_options {
  thing_limits limits = {.bytes = 1};
  /// The name.
  std::string name = "thing";
};

/// A thing. close() ends it.
///
/// Errors: none.
class thing : public detail::things<int> {
 public:
  explicit thing(std::size_t count);
  /// Adds a value.
  template <small T>
    requires(sizeof(T) > 1)
  void add(T value, duration limit = std::chrono::seconds{5});
  void add(char value);
  void drop(int value);
  void close();
  std::size_t size() const;
  bool is_open() const;
  // Explains wrong arguments.
  void add(detail::misused explained) {
    int unused;
  }

 private:
  friend detail::core;
  int secret_;
};

void undocumented_function();

}  // namespace gyre
"""


def read(text: str) -> tuple[model.Model, headers.Comments]:
    """The model of one header, which Doxygen reads."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "gyre/base").mkdir(parents=True)
        (root / "gyre/base/thing.hpp").write_text(text)
        comments = headers.prepare(root, ["gyre/base/thing.hpp"], root / "copies")
        warnings = model.run_doxygen(DOXYGEN, root / "copies", root / "doxygen")
        reader = model.Reader(root, root / "doxygen/xml", comments, ["gyre/base/thing.hpp"])
        return model.Model(reader.read(), warnings), comments


class Headers(unittest.TestCase):
    def test_the_lines_of_a_copy_are_those_of_the_header(self) -> None:
        lines = THING.splitlines()
        comments = headers.Comments()
        copy = headers.with_tokens(lines, comments)
        self.assertEqual(len(copy), len(lines))
        for line, copied in zip(lines, copy, strict=True):
            if copied and headers.TOKEN not in copied:
                self.assertEqual(copied, line)
        self.assertFalse(any("misused" in line or "friend" in line for line in copy))
        self.assertIn("Waits for a std::optional<T>, and \\returns #nothing.", comments.texts)

    def test_fixed_labels_begin_paragraphs(self) -> None:
        text = headers.markdown_of("A thing.\nErrors: none.\n- one\n\n    Errors: in code")
        self.assertEqual(text, "A thing.\n\n**Errors:** none.\n\n- one\n\n    Errors: in code")


class Declarations(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        if not DOXYGEN.exists():
            raise AssertionError(f"there is no {DOXYGEN}: run tools/setup docs")
        cls.model, cls.comments = read(THING)
        cls.symbols = reference.collect_symbols(cls.model)
        cls.names = {each.qualified: each for each in cls.model.everything()}

    def test_doxygen_has_nothing_to_say(self) -> None:
        self.assertEqual(self.model.warnings, [])

    def test_names_of_detail_and_private_ones_stay_out(self) -> None:
        self.assertFalse([name for name in self.names if "detail" in name or "secret" in name])

    def test_members_of_bases_in_detail_are_those_of_the_class(self) -> None:
        self.assertEqual(
            self.names["gyre::thing::wait"].comment,
            "Waits for a std::optional<T>, and \\returns #nothing.",
        )

    def test_signatures_are_those_of_the_source(self) -> None:
        add = next(each for each in self.names["gyre::thing"].members if each.name == "add")
        self.assertEqual(
            add.signature(),
            "template <small T>\n  requires (sizeof(T) > 1)\n"
            "void add(T value, duration limit = std::chrono::seconds{5})",
        )
        self.assertEqual(
            self.names["gyre::small"].signature(),
            "template <class T>\nconcept small = sizeof(T) <= 8",
        )

    def test_names_without_documentation_are_found(self) -> None:
        found = reference.undocumented(self.model, self.symbols)
        self.assertEqual(
            [problem.split(":")[1] + problem.split(" ")[1] for problem in found],
            [
                "33gyre::thing_limits::forgotten",
                "54gyre::thing::drop",
                "68gyre::undocumented_function",
            ],
        )

    def test_tables_of_options_have_the_defaults_of_the_header(self) -> None:
        tables = options.Options(self.model, markup.Markup(self.symbols))
        limits = tables.classes["gyre::thing_limits"]
        rows = {row.path: row for row in tables.rows(limits, "")}
        self.assertEqual(
            [(path, row.plain_default) for path, row in rows.items()],
            [
                (".bytes", "4 KiB"),
                (".wait", "30 s"),
                (".patience", "unlimited"),
                (".colour", "red"),
                (".forgotten", "7"),
            ],
        )
        self.assertIn("See <a", rows[".patience"].meaning)
        self.assertIn("kinds of things", rows[".colour"].meaning)

    def test_a_default_of_an_outer_structure_replaces_that_of_the_inner_one(self) -> None:
        tables = options.Options(self.model, markup.Markup(self.symbols))
        outer = tables.classes["gyre::thing_options"]
        rows = {row.path: row.plain_default for row in tables.rows(outer, "", expands=True)}
        self.assertEqual(rows[".limits.bytes"], "1")
        self.assertEqual(rows[".limits.wait"], "30 s")
        self.assertEqual(rows[".name"], '"thing"')

    def test_pages_have_all_names(self) -> None:
        pages = reference.Reference(self.model, self.comments, markup.Markup(self.symbols)).pages()
        page = next(page for page in pages if page.url == "api/base/thing.html")
        for anchor in ("thing", "thing.add", "thing_limits.bytes", "kind.blue", "small"):
            self.assertIn(f'id="{anchor}"', page.html)
        self.assertIn("<code>std::optional</code>&lt;T&gt;, and \\returns #nothing", page.html)
        self.assertIn('std::size_t{<span class="m">4</span>} &lt;&lt; ', page.html)
        # The class that the header is named for comes first.
        self.assertLess(page.html.index('id="thing"'), page.html.index('id="thing_limits"'))


class Defaults(unittest.TestCase):
    def test_they_are_said_as_people_say_them(self) -> None:
        cases = {
            ("= std::size_t{8} << 10", "std::size_t", "bytes of a line"): "8 KiB",
            ("= std::size_t{24} << 10", "std::size_t", "waiting tasks"): "24,576",
            ("= std::size_t{16} * 1024 * 1024", "std::size_t", "in bytes"): "16 MiB",
            ("= 10'000", "std::size_t", ""): "10,000",
            ("= std::chrono::milliseconds{250}", "duration", ""): "250 ms",
            ("= duration::max()", "duration", ""): "unlimited",
            ("= duration::zero()", "duration", ""): "0",
            ("= std::numeric_limits<std::size_t>::max()", "std::size_t", ""): "unlimited",
            ("= std::nullopt", "std::optional<int>", ""): "unset",
            ("= {}", "std::string", ""): "empty",
            ("= {}", "move_only_function<void()>", ""): "none",
            ("= nullptr", "std::shared_ptr<int>", ""): "none",
        }
        for (initializer, type_, meaning), expected in cases.items():
            self.assertEqual(defaults.spoken(initializer, type_, meaning), expected, initializer)

    def test_code_that_is_no_number_stays_code(self) -> None:
        self.assertIsNone(defaults.spoken("= compute(3)", "std::size_t"))
        self.assertIsNone(defaults.integer("__import__('os')"))

    def test_designated_initialisers(self) -> None:
        found = defaults.designated('= {.name = "a, b", .limits = {.body = 1, .head = 2}}')
        self.assertEqual(found, {"name": '= "a, b"', "limits": "= {.body = 1, .head = 2}"})


class Names(unittest.TestCase):
    def setUp(self) -> None:
        self.symbols = Symbols()
        for name, kind, member in (
            ("gyre::loop", "typedef", False),
            ("gyre::basic_loop", "class", False),
            ("gyre::posting", "class", False),
            ("gyre::posting::post", "function", True),
            ("gyre::http::server", "class", False),
            ("gyre::http::server::stop", "function", True),
            ("gyre::net::server", "class", False),
        ):
            self.symbols.add(Symbol(name, kind, name, "", member))
        self.symbols.aliases["gyre::loop"] = "basic_loop<inbox::fifo>"
        self.symbols.bases["gyre::basic_loop"] = ["posting<basic_loop<Inbox>>"]

    def found(self, text: str, scope: str = "gyre") -> str | None:
        symbol = self.symbols.find(text, scope)
        return symbol.qualified if symbol else None

    def test_they_are_found_in_their_scope(self) -> None:
        self.assertEqual(self.found("server::stop()", "gyre::http"), "gyre::http::server::stop")
        self.assertEqual(self.found("stop()", "gyre::http::server"), "gyre::http::server::stop")
        self.assertEqual(self.found("gyre::http::server"), "gyre::http::server")

    def test_a_name_of_several_is_none(self) -> None:
        self.assertIsNone(self.found("server"))
        self.assertIsNone(self.found("stop()"))
        self.assertIsNone(self.found("std::server"))

    def test_members_are_found_by_aliases_and_bases(self) -> None:
        self.assertEqual(self.found("loop::post"), "gyre::posting::post")


class Pages(unittest.TestCase):
    def test_anchors_are_those_of_github(self) -> None:
        taken: dict[str, int] = {}
        titles = ["9. Files, and descriptors", "100 % CPU", "Names", "Names"]
        self.assertEqual(
            [markup.slug(title, taken) for title in titles],
            ["9-files-and-descriptors", "100--cpu", "names", "names-1"],
        )

    def test_a_question_in_bold_is_found_by_the_search(self) -> None:
        text = "# Page\n\n**How do I stop?** By stop().\n\n**Not** a question?\n"
        rendered = markup.Markup(Symbols()).page(text, "gyre", "", lambda target: target)
        questions = [each for each in rendered.headings if each.level == markup.QUESTION]
        self.assertEqual([each.title for each in questions], ["How do I stop?"])
        self.assertIn("By stop().", questions[0].text)

    def test_code_of_pages_must_stand_in_a_program(self) -> None:
        page = "Text.\n\n```cpp\nint a;\n  int b;\n```\n\n```c++\nother\n```\n"
        found = repository.blocks(page)
        self.assertEqual(found, [(4, "int a;\n  int b;\n")])
        self.assertTrue(repository.is_in(found[0][1], "\n{\n  int a;\n    int b;\n}\n"))
        self.assertFalse(repository.is_in(found[0][1], "\n{\n  int a;\n  int b;\n}\n"))
        self.assertFalse(repository.is_in(found[0][1], "\nint a;\n\n  int b;\n"))

    def test_names_in_the_last_column_are_checked(self) -> None:
        table = "| asio | gyre |\n|---|---|\n| `a` | `loop`, `x::y` |\n\n| a | b |\n|---|---|\n| `c` | `d` |\n"
        self.assertEqual(repository.foreign_names(table), [(3, "loop"), (3, "x::y")])

    def test_an_anchor_of_two_things_is_found(self) -> None:
        found = assembly.dead_links({"a.html": '<p id="b"><p id="b">'}, {"a.html": "a.md"})
        self.assertEqual(found, ["a.md: two headings or names have the anchor b"])

    def test_dead_links_are_found(self) -> None:
        pages = {
            "index.html": '<h1 id="a">A</h1><a href="#a">1</a><a href="#b">2</a>',
            "guide/x.html": '<a href="../index.html#a">3</a><a href="../y.html">4</a>'
            '<a href="https://example.org">5</a><script src="../site.js"></script>',
        }
        found = assembly.dead_links(pages, {url: url for url in pages})
        self.assertEqual(len(found), 2)
        self.assertIn("guide/x.html: the link to ../y.html leads nowhere", found)
        self.assertIn("index.html: the link to #b: no such heading or name", found)


if __name__ == "__main__":
    sys.exit(unittest.main())
