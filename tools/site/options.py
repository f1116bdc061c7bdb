# SPDX-License-Identifier: Apache-2.0
"""Tables of options and their defaults, made from the headers, so that they are always true.

A page of Markdown asks for a table by a comment on a line of its own:

    <!-- options: all -->                       every structure of options
    <!-- options: gyre::http::server_options -->  one structure, with the structures in it
    <!-- constants -->                          limits that are constants
    <!-- arguments -->                          default arguments that are lengths of time or numbers
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from defaults import designated, spoken
from headers import markdown_of
from markup import Markup
from model import Declaration, Model
from reference import OPTIONS, covering, has_documented_type, page_of
from symbols import Symbols

DIRECTIVE = re.compile(r"<!-- (options|constants|arguments)(?:: ([\w:, ]+))? -->")
COUNTED = re.compile(r"\b(duration|std::size_t|unsigned|int|u?int\d+_t|std::uint\d+_t|double)\b")


@dataclass
class Row:
    path: str  # as in a designated initialiser, such as .tcp.connections.idle_timeout
    default: str
    meaning: str
    option: Declaration
    plain_default: str


def code_of(initializer: str) -> str:
    return initializer.strip().removeprefix("=").strip()


def default_cell(text: str | None, initializer: str) -> str:
    """The HTML of a default: its text, or the code where no text says it."""
    if text is not None:
        return escape(text)
    return f"<code>{escape(code_of(initializer), quote=False)}</code>"


class Options:
    def __init__(self, model: Model, markup: Markup) -> None:
        self.markup = markup
        self.symbols: Symbols = markup.symbols
        self.classes = model.classes()
        self.everything = list(model.everything())

    def structures(self) -> list[Declaration]:
        return [each for each in self.everything if each.is_class and self.is_options(each)]

    def is_options(self, declaration: Declaration) -> bool:
        return bool(OPTIONS.fullmatch(declaration.name)) and any(self.fields(declaration))

    def fields(self, declaration: Declaration) -> Iterator[Declaration]:
        for member in declaration.members:
            if member.kind == "variable" and "static" not in member.prefix + member.type:
                yield member

    def structure_of(self, type_: str, scope: str) -> Declaration | None:
        type_ = re.sub(r"\bconst\b|&|^std::optional<|>$", "", type_).strip()
        found = self.symbols.by_name.get(type_) or self.symbols.find(type_, scope)
        declaration = self.classes.get(found.qualified) if found else None
        return declaration if declaration and self.is_options(declaration) else None

    def rows(
        self,
        structure: Declaration,
        root: str,
        path: str = "",
        overrides: dict[str, str] | None = None,
        expands: bool = False,
    ) -> Iterator[Row]:
        for option in self.fields(structure):
            initializer = (overrides or {}).get(option.name, option.initializer)
            inner = self.structure_of(option.type, structure.qualified)
            shown = f"{path}.{option.name}"
            if inner and expands:
                yield from self.rows(inner, root, shown, designated(initializer), True)
                continue
            comment = option.comment
            if not comment and (above := covering(option, structure.members)):
                comment = f"See `{above.name}`: {above.comment}"
            if not comment and has_documented_type(option, self.symbols):
                type_ = re.sub(r"^std::optional<(.*)>$", r"\1", option.type)
                found = self.symbols.by_name.get(type_) or self.symbols.find(type_, option.scope)
                comment = found.brief if found else ""
            meaning = self.markup.comment(markdown_of(comment), structure.qualified, root)
            if inner:
                default = self.markup.inline_code(inner.name, structure.qualified, root)
                yield Row(shown, f"see {default}", meaning, option, f"see {inner.name}")
                continue
            text = self.spoken(initializer, option, structure)
            plain = text if text is not None else code_of(initializer)
            yield Row(shown, default_cell(text, initializer), meaning, option, plain)

    def spoken(self, initializer: str, option: Declaration, structure: Declaration) -> str | None:
        meaning = option.comment + " " + (structure.comment if "rate" not in option.name else "")
        text = spoken(initializer, option.type, meaning)
        if text is not None:
            return text
        value = initializer.strip().removeprefix("=").strip()
        if value in ("true", "false"):
            return value
        if re.fullmatch(r'"[^"]*"', value):
            return value
        symbol = self.symbols.find(value, structure.qualified) if value else None
        if symbol and symbol.kind == "value":
            return symbol.qualified.rsplit("::", 1)[-1]
        if symbol and symbol.kind == "variable":
            constant = next(each for each in self.everything if each.qualified == symbol.qualified)
            return spoken(constant.initializer, constant.type, meaning)
        return None

    def table(self, structure: Declaration, root: str, expands: bool) -> str:
        """The rows of a structure, below a line with its name and first sentence."""
        target = f"{root}{page_of(structure.header)}"
        name = structure.qualified.removeprefix("gyre::")
        outer = self.symbols.by_name[structure.qualified].url
        html = [
            f'<tbody id="{escape(name)}"><tr class="structure"><th colspan="3">'
            f'<a href="{root}{outer}"><code>{escape(name)}</code></a></th></tr>'
        ]
        for row in self.rows(structure, root, expands=expands):
            symbol = self.symbols.by_name.get(row.option.qualified)
            link = f"{root}{symbol.url}" if symbol else target
            html.append(
                f'<tr><td><a href="{link}"><code>{escape(row.path)}</code></a></td>'
                f'<td class="default">{row.default}</td><td>{row.meaning}</td></tr>'
            )
        return "".join(html) + "</tbody>"

    def constants(self, root: str) -> str:
        rows = []
        for each in self.everything:
            if each.kind != "variable" or "constexpr" not in each.prefix:
                continue
            if not re.match(r"max_|min_|default_|\w+_limit$|longest_|largest_", each.name):
                continue
            value = spoken(each.initializer, each.type, each.comment)
            shown = default_cell(value, each.initializer)
            name = each.qualified.removeprefix("gyre::")
            symbol = self.symbols.by_name[each.qualified]
            meaning = self.markup.comment(markdown_of(each.comment), each.scope, root)
            rows.append(
                f'<tr><td><a href="{root}{symbol.url}"><code>{escape(name)}</code></a></td>'
                f'<td class="default">{shown}</td><td>{meaning}</td></tr>'
            )
        return f"<tbody>{''.join(rows)}</tbody>"

    def arguments(self, root: str) -> str:
        rows = []
        for each in self.everything:
            if each.kind != "function":
                continue
            for parameter in each.parameters:
                if not parameter.default or not COUNTED.search(parameter.type):
                    continue
                value = spoken(parameter.default, parameter.type, each.comment)
                shown = default_cell(value, parameter.default)
                name = f"{each.qualified.removeprefix('gyre::')}()"
                url = self.symbols.by_name[each.qualified].url
                rows.append(
                    f'<tr><td><a href="{root}{url}"><code>{escape(name)}</code></a></td>'
                    f'<td class="default">{shown}</td>'
                    f"<td><p><code>{escape(parameter.name)}</code></p></td></tr>"
                )
        return f"<tbody>{''.join(dict.fromkeys(rows))}</tbody>"

    def replaced(self, text: str, root: str, problems: list[str], page: str) -> str:
        """The HTML of a page with tables in place of its directives."""

        def table(match: re.Match[str]) -> str:
            kind, names = match[1], match[2] or ""
            if kind == "constants":
                body = self.constants(root)
            elif kind == "arguments":
                body = self.arguments(root)
            elif names == "all":
                body = "".join(self.table(each, root, False) for each in self.structures())
            else:
                parts = []
                for name in names.split(","):
                    structure = self.classes.get(name.strip())
                    if structure is None:
                        problems.append(f"{page}: there is no structure {name.strip()}")
                        continue
                    parts.append(self.table(structure, root, True))
                body = "".join(parts)
            head = {"options": "option", "constants": "constant", "arguments": "function"}[kind]
            return (
                '<div class="table"><table class="options"><thead><tr>'
                f"<th>{head}</th><th>default</th><th>meaning</th></tr></thead>{body}</table></div>"
            )

        return DIRECTIVE.sub(table, text)
