# SPDX-License-Identifier: Apache-2.0
"""The pages of the API reference: one for each public header, one for each room, and all names."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from headers import Comments, markdown_of
from markup import Markup, first_sentence
from model import Declaration, Model
from symbols import Symbol, Symbols, plain

KINDS = {"typedef": "type", "define": "macro", "value": "value", "variable": "variable"}
# Structures of settings, each field of which needs a comment: the tables of limits show it.
OPTIONS = re.compile(r"\w*(options|limits|timeouts|config|settings)")
# Functions that the language or the standard library calls, and whose meaning these define.
PROTOCOL = re.compile(
    r"~.*|operator\W.*|operator .*|begin|end|cbegin|cend|swap|executor_affine"
    r"|await_ready|await_suspend|await_resume|make_error_code"
    r"|clear|contains|find|push_back|push_front"
)
PROTOCOL_CLASSES = {"promise_type", "iterator"}


def page_of(header: str) -> str:
    """The page of a header: gyre/http/server.hpp is documented in api/http/server.html."""
    return "api/" + header.removeprefix("gyre/").removesuffix(".hpp") + ".html"


def room_of(header: str) -> str:
    """The folder of a header below gyre/, such as http or engines/redis."""
    parts = header.split("/")[1:-1]
    return "/".join(parts[:2] if parts and parts[0] == "engines" else parts[:1])


def anchor_of(declaration: Declaration, outer: str = "") -> str:
    name = re.sub(r"[^\w~]", lambda match: f"-{ord(match[0]):x}", declaration.name)
    return f"{outer}.{name}" if outer else name


def families(declarations: Iterable[Declaration]) -> list[list[Declaration]]:
    """Overloads of one scope, together where the first of them stands."""
    found: dict[tuple[str, str], list[Declaration]] = {}
    for each in declarations:
        kind = "function" if each.kind == "function" else f"{each.kind} {each.line}"
        found.setdefault((kind, f"{each.scope}::{each.name}"), []).append(each)
    return list(found.values())


def explains_itself(declaration: Declaration, owner: Declaration | None) -> bool:
    """Whether a name needs no comment of its own beside that of its class.

    Such are constructors, types of a class, functions without parameters that return a property,
    fields that are not settings, overrides, and functions that the language or the standard library
    defines.
    A name of a namespace always needs a comment, except a specialisation.
    """
    if PROTOCOL.fullmatch(declaration.name) or declaration.name.endswith("_"):
        return True
    if not declaration.scope.startswith("gyre") or "<" in declaration.name:
        return True
    # The concept of inboxes says what their members do.
    if declaration.access == "protected" or declaration.scope.startswith("gyre::inbox::"):
        return True
    if owner is None:
        return False
    if declaration.name in PROTOCOL_CLASSES or declaration.kind == "typedef":
        return True
    if declaration.name == owner.name.split("<")[0]:
        return True
    if re.search(r"=\s*(delete|default)$|\boverride\b", declaration.arguments):
        return True
    if declaration.kind == "variable":
        return not OPTIONS.fullmatch(owner.name) or "constexpr" in declaration.prefix
    returns = declaration.type.removeprefix("static ").strip()
    is_property = declaration.kind == "function" and returns not in ("void", "bool", "auto", "")
    is_predicate = returns == "bool" and " const" in declaration.arguments
    return (is_property or is_predicate) and not declaration.parameters


def covering(declaration: Declaration, siblings: list[Declaration]) -> Declaration | None:
    """The sibling before the declaration whose comment names it, and so describes both."""
    mention = re.compile(rf"`{re.escape(declaration.name)}`|\b{re.escape(declaration.name)}\(")
    found = None
    for each in siblings:
        if each is declaration:
            return found
        if each.comment:
            found = each if mention.search(each.comment) else None
    return found


def is_listed(declaration: Declaration, owner: Declaration) -> bool:
    """Whether the comment of the class names the function before it comes to threads and errors."""
    described = re.split(r"(?m)^(?:Thread-safety|Lifetime|Errors|Complexity)\b", owner.comment)[0]
    return f"{declaration.name}(" in described


def has_documented_type(declaration: Declaration, symbols: Symbols) -> bool:
    """Whether the type of a field is a class or an enumeration of gyre, which says what it is."""
    if declaration.kind != "variable":
        return False
    type_ = re.sub(r"^std::optional<(.*)>$", r"\1", declaration.type)
    found = symbols.by_name.get(type_) or symbols.find(type_, declaration.scope)
    return found is not None and found.kind != "variable" and bool(found.brief)


def undocumented(model: Model, symbols: Symbols) -> list[str]:
    """A line for each public name without a comment, but those that explain themselves."""
    problems = []

    def check(declarations: list[Declaration], owner: Declaration | None) -> None:
        last_constant = -1
        for family in families(declarations):
            first = family[0]
            # One comment covers constants on consecutive lines.
            is_constant = owner is None and first.kind == "variable"
            if is_constant and (first.comment or first.line == last_constant + 1):
                last_constant = first.line
                continue
            if first.kind == "value" or first.access == "private":
                continue
            has_comment = any(each.comment.strip() for each in family)
            is_covered = owner is not None and (
                covering(first, owner.members) is not None
                or is_listed(first, owner)
                or has_documented_type(first, symbols)
            )
            if (
                not has_comment
                and not is_covered
                and not all(explains_itself(each, owner) for each in family)
            ):
                problems.append(
                    f"{first.header}:{first.line}: {first.qualified} has no documentation: "
                    "write a comment with ///"
                )
            for each in family:
                if each.is_class and each.name not in PROTOCOL_CLASSES and "<" not in each.name:
                    check(each.members, each)

    for declarations in model.headers.values():
        check(declarations, None)
    return sorted(set(problems), key=lambda line: (line.split(":")[0], int(line.split(":")[1])))


def collect_symbols(model: Model) -> Symbols:
    symbols = Symbols()

    def add(declarations: Iterable[Declaration], outer: str, page: str, member: bool) -> None:
        for each in declarations:
            anchor = anchor_of(each, outer)
            brief = first_sentence(each.comment)
            symbols.add(Symbol(each.qualified, each.kind, f"{page}#{anchor}", brief, member))
            if each.is_class:
                bases = [re.sub(r"^(public|protected) ", "", base) for base in each.bases]
                symbols.bases.setdefault(each.qualified, []).extend(bases)
            elif each.kind == "typedef":
                symbols.aliases[each.qualified] = each.type
            add(each.members, anchor, page, True)

    for header, declarations in model.headers.items():
        add(declarations, "", page_of(header), False)
    return symbols


@dataclass
class Page:
    url: str
    title: str
    html: str
    source: str  # the file that it is made from
    group: str = ""
    description: str = ""
    contents: tuple[tuple[int, str, str], ...] = ()  # level, title, anchor


class Reference:
    def __init__(self, model: Model, comments: Comments, markup: Markup) -> None:
        self.model = model
        self.comments = comments
        self.markup = markup
        self.classes = model.classes()

    def pages(self) -> list[Page]:
        return [self.header_page(header) for header in self.model.headers] + self.room_pages()

    def header_page(self, header: str) -> Page:
        url = page_of(header)
        root = "../" * url.count("/")
        declarations = self.model.headers[header]
        scope = declarations[0].scope if declarations else "gyre"
        introduction = markdown_of(self.comments.introductions[header])
        short = header.removeprefix("gyre/")
        html = [
            f'<p class="crumbs"><a href="{root}api/index.html">API</a> / '
            f'<a href="{root}api/{room_of(header)}/index.html">{room_of(header)}</a></p>',
            f"<h1>{escape(short)}</h1>",
            self.markup.comment(introduction, scope, root),
            f'<pre class="include"><code><span class="k">#include</span> &lt;{header}&gt;</code></pre>',
        ]
        contents: list[tuple[int, str, str]] = []
        # The class that the header is named for comes first.
        stem = short.rpartition("/")[2].removesuffix(".hpp")
        ordered = sorted(declarations, key=lambda each: each.name != stem)
        for family in families(ordered):
            html.append(self.item(family, root, contents))
        title = short
        return Page(url, title, "\n".join(html), header, "API", self.brief(header), tuple(contents))

    def brief(self, header: str) -> str:
        """The first sentence of the introduction, without the names that it begins with."""
        text = first_sentence(self.comments.introductions[header])
        return re.sub(r"^[\w:, <>]+: (?=\w)", "", text)

    def item(
        self, family: list[Declaration], root: str, contents: list[tuple[int, str, str]]
    ) -> str:
        first = family[0]
        anchor = anchor_of(first)
        kind = KINDS.get(first.kind, first.kind)
        contents.append((2, first.name, anchor))
        html = [
            f'<section class="item" id="{anchor}">',
            f'<h2><span class="kind">{kind}</span> {escape(first.name)}'
            f'<a class="here" href="#{anchor}" aria-label="link to {escape(first.name)}">#</a></h2>',
            self.described(family, first.scope, root),
        ]
        for each in family:
            if each.is_class:
                html.append(self.members(each, anchor, root, contents, 3))
            elif each.kind == "enum":
                html.append(self.values(each, anchor, root))
        html.append("</section>")
        return "\n".join(html)

    def described(self, family: list[Declaration], scope: str, root: str) -> str:
        """Signatures with the comment that covers them: overloads without one follow another."""
        blocks: list[tuple[list[Declaration], str]] = []
        for each in family:
            if each.comment or not blocks:
                if blocks and not blocks[-1][1]:
                    blocks[-1] = ([*blocks[-1][0], each], each.comment)
                else:
                    blocks.append(([each], each.comment))
            else:
                blocks[-1][0].append(each)
        html = []
        for declarations, comment in blocks:
            signatures = "\n".join(self.signature(each, scope, root) for each in declarations)
            html.append(f'<pre class="signature"><code>{signatures}</code></pre>')
            inner = declarations[0].qualified if declarations[0].is_class else scope
            if comment:
                html.append(self.markup.comment(markdown_of(comment), inner, root))
        return "\n".join(html)

    def signature(self, declaration: Declaration, scope: str, root: str) -> str:
        text = declaration.signature()
        if declaration.name.startswith("operator"):
            return escape(text, quote=False)
        return self.markup.code(text, "cpp", scope, root, is_signature=True)

    def values(self, declaration: Declaration, anchor: str, root: str) -> str:
        rows = []
        for value in declaration.members:
            meaning = self.markup.comment(markdown_of(value.comment), declaration.scope, root)
            code = escape(value.name + (f" {value.initializer}" if value.initializer else ""))
            rows.append(
                f'<tr id="{anchor_of(value, anchor)}"><td><code>{code}</code></td>'
                f"<td>{meaning}</td></tr>"
            )
        return (
            '<div class="table"><table class="values"><thead><tr><th>value</th><th>meaning</th></tr>'
            f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
        )

    def members(
        self,
        owner: Declaration,
        outer: str,
        root: str,
        contents: list[tuple[int, str, str]],
        level: int,
    ) -> str:
        html = []
        fields: list[str] = []
        for family in families(owner.members):
            first = family[0]
            anchor = anchor_of(first, outer)
            contents.append((3, first.name, anchor))
            if first.kind == "variable":
                fields.append(self.field(first, owner, anchor, root))
                continue
            html += self.fields(fields)
            fields = []
            html.append(f'<div class="member" id="{anchor}">')
            if first.is_class or first.kind == "enum":
                html.append(
                    f'<h{level}><span class="kind">{first.kind}</span> {escape(first.name)}'
                    f'<a class="here" href="#{anchor}" aria-label="link">#</a></h{level}>'
                )
            html.append(self.described(family, owner.qualified, root))
            for each in family:
                if each.is_class:
                    html.append(self.members(each, anchor, root, contents, level + 1))
                elif each.kind == "enum":
                    html.append(self.values(each, anchor, root))
            html.append("</div>")
        return "\n".join([*html, *self.fields(fields), *self.of_bases(owner, root)])

    def of_bases(self, owner: Declaration, root: str) -> list[str]:
        """A line for each base with pages of its own: the names of its members."""
        lines = []
        for base in owner.bases:
            if not base.startswith("public "):
                continue
            name = plain(base.removeprefix("public ")) or ""
            symbols = self.markup.symbols
            found = symbols.by_name.get(name) or symbols.class_in(owner.scope, name)
            if found is None or found.qualified not in self.classes:
                continue
            links = [
                f'<a href="{root}{symbols.by_name[member.qualified].url}">'
                f"<code>{escape(member.name)}</code></a>"
                for family in families(self.classes[found.qualified].members)
                for member in family[:1]
                if not re.match(r"~|operator", member.name) and member.access == "public"
                if member.name != found.qualified.rpartition("::")[2]
            ]
            shown = self.markup.inline_code(name.removeprefix("gyre::"), owner.scope, root)
            if links:
                lines.append(f'<p class="names">Members of {shown}: {", ".join(links)}</p>')
        return lines

    def field(self, field: Declaration, owner: Declaration, anchor: str, root: str) -> str:
        """A row with the declaration and the meaning of a field."""
        comment = field.comment
        if not comment and (above := covering(field, owner.members)):
            comment = f"See `{above.name}`."
        meaning = self.markup.comment(markdown_of(comment), owner.qualified, root)
        declaration = self.signature(field, owner.qualified, root)
        return f'<tr id="{anchor}"><td><code>{declaration}</code></td><td>{meaning}</td></tr>'

    def fields(self, rows: list[str]) -> list[str]:
        if not rows:
            return []
        return [
            '<div class="table"><table class="fields"><thead><tr><th>field</th><th>meaning</th></tr>'
            f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
        ]

    def room_pages(self) -> list[Page]:
        rooms: dict[str, list[str]] = {}
        for header in self.model.headers:
            rooms.setdefault(room_of(header), []).append(header)
        pages = []
        for room, headers in rooms.items():
            url = f"api/{room}/index.html"
            root = "../" * url.count("/")
            rows = []
            for header in headers:
                names = ", ".join(
                    f'<a href="{root}{page_of(header)}#{anchor_of(family[0])}">'
                    f"<code>{escape(family[0].name)}</code></a>"
                    for family in families(self.model.headers[header])
                )
                short = header.removeprefix(f"gyre/{room}/")
                rows.append(
                    f'<tr><td><a href="{root}{page_of(header)}">{short}</a></td>'
                    f"<td><p>{escape(self.brief(header))}</p>"
                    f'<p class="names">{names}</p></td></tr>'
                )
            html = (
                f'<p class="crumbs"><a href="{root}api/index.html">API</a></p>'
                f"<h1>gyre/{room}/</h1>"
                '<div class="table"><table class="rooms"><thead><tr><th>header</th><th>for</th></tr>'
                f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
            )
            pages.append(Page(url, f"gyre/{room}/", html, f"gyre/{room}", "API", ""))
        pages.append(self.index_page(rooms))
        pages.append(self.names_page())
        return pages

    def index_page(self, rooms: dict[str, list[str]]) -> Page:
        rows = []
        for room, headers in rooms.items():
            links = ", ".join(
                f'<a href="../{page_of(header)}">'
                f"{header.removeprefix(f'gyre/{room}/').removesuffix('.hpp')}</a>"
                for header in headers
            )
            rows.append(
                f'<tr><td><a href="{room}/index.html">gyre/{room}/</a></td><td>{links}</td></tr>'
            )
        html = (
            "<h1>API reference</h1><p>One page for each public header. "
            '<a href="names.html">All names</a> lists classes, functions and types by the '
            "alphabet.</p>"
            '<div class="table"><table class="rooms"><thead><tr><th>room</th><th>headers</th></tr>'
            f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
        )
        return Page("api/index.html", "API reference", html, "gyre", "API", "every public header")

    def names_page(self) -> Page:
        names = sorted(
            (
                (family[0].qualified.removeprefix("gyre::"), family[0])
                for declarations in self.model.headers.values()
                for family in families(declarations)
            ),
            key=lambda pair: (pair[1].name.lower(), pair[0]),
        )
        rows = []
        for name, declaration in names:
            kind = KINDS.get(declaration.kind, declaration.kind)
            target = f"../{page_of(declaration.header)}#{anchor_of(declaration)}"
            brief = escape(first_sentence(declaration.comment))
            rows.append(
                f'<tr><td><a href="{target}"><code>{escape(name)}</code></a> '
                f'<span class="kind">{kind}</span></td><td>{brief}</td></tr>'
            )
        html = (
            "<h1>All names</h1>"
            f"<p>The {len(rows)} names that gyre's headers declare in namespaces, without members "
            "of classes; the search finds these, too.</p>"
            '<div class="table"><table class="rooms"><thead><tr><th>name</th><th>for</th></tr>'
            f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
        )
        return Page("api/names.html", "All names", html, "gyre", "API", "by the alphabet")
