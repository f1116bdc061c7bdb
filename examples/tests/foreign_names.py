# SPDX-License-Identifier: Apache-2.0
"""Writes C++ that compiles only if all of gyre's names in a page of other libraries' names exist.

    python3 foreign_names.py PAGE HEADERS OUTPUT FEWEST

Every `name` in the last column of the tables of PAGE becomes a declaration in OUTPUT that uses it.
So does every name in the text that is spelt as gyre's are, unless a table has it already.
HEADERS is the folder with the public headers, which tell classes from enumerations. Fails where a
row says nothing in that column, or something in code font that is no name; and where there are
fewer than FEWEST names, so that a page that is read wrongly does not pass.
"""

import re
import sys
from pathlib import Path

NAME = re.compile(r"(?:[a-z_][a-z0-9_]*::)*(?:[a-z_][a-z0-9_]*|operator\[\])")
OTHERS = {"double", "shared_ptr", "std::chrono"}  # in the text, but not gyre's
LITERAL = re.compile(r"[0-9]+[a-z]+|[A-Z_]+")  # 1ms, TCP_INFO

page, headers, output = (Path(each) for each in sys.argv[1:4])
fewest = int(sys.argv[4])

names: dict[str, int] = {}
in_text: dict[str, int] = {}
columns = 0
is_code = False
for number, line in enumerate(page.read_text().splitlines(), 1):
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line[:1] == "|" else []
    if line.startswith("```"):
        is_code = not is_code
    if not cells:
        columns = 0
        for span in [] if is_code else re.findall(r"`([^`]*)`", line):
            name = re.sub(r"^(io|net)::|\(\)$", "", span)
            if NAME.fullmatch(name):
                in_text.setdefault(name, number)
        continue
    if columns == 0:  # the head
        columns = len(cells)
        if cells[-1] != "gyre":
            sys.exit(f"{page}:{number}: the last column is not gyre's")
        continue
    if re.fullmatch(":?---+:?", cells[-1]):
        continue
    if len(cells) != columns:
        sys.exit(f"{page}:{number}: {len(cells)} columns, not {columns}")
    spans = re.findall(r"`([^`]*)`", cells[-1])
    if not spans and not cells[-1].startswith("none"):
        sys.exit(f"{page}:{number}: no name, and no reason for that")
    for span in spans:
        if NAME.fullmatch(span):
            names.setdefault(span, number)
        elif not LITERAL.fullmatch(span):
            sys.exit(f"{page}:{number}: `{span}` is no name")
parts = {part for name in names for part in name.split("::")} | OTHERS
names |= {
    name: number for name, number in in_text.items() if name not in names and name not in parts
}
if len(names) < fewest:
    sys.exit(f"{page}: {len(names)} names only")

enumerations = {
    name
    for header in headers.rglob("*.hpp")
    for name in re.findall(r"\benum class (\w+)", header.read_text())
}

lines = [
    f"// Made from {page.name}; each line uses one of its names.",
    "#include <gyre/gyre.hpp>",
    *(f"#include <{each}>" for each in ("any", "chrono", "optional", "span", "string")),
    "#include <string_view>",
    "#include <system_error>",
    "namespace all {",
    "using namespace gyre;",
    "using namespace gyre::net;",
    "using namespace gyre::io;",
    "}",
    f"namespace {page.stem} {{",
    "namespace {",
]
for index, (name, number) in enumerate(names.items()):
    lines.append(f'#line {number} "{page}"')
    standard = re.fullmatch(r"std::(?:chrono::)?\w+", name)
    full = name if name.startswith("std::") else f"all::{name}"
    scope, _, member = full.rpartition("::")
    if standard or scope in ("all", "all::http"):
        lines.append(f"using {full};")
    elif scope == "all::http":
        lines.append(f"namespace http_names {{ using {full}; }}")
    elif scope.removeprefix("all::") in enumerations:
        lines.append(f"[[maybe_unused]] constexpr auto value_{index} = {full};")
    else:
        lines.append(f"struct uses_{index} : {scope} {{ using {full}; }};")
lines += ["}  // namespace", f"}}  // namespace {page.stem}"]
output.write_text("\n".join(lines) + "\n")
