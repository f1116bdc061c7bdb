# SPDX-License-Identifier: Apache-2.0
"""HTML of Markdown and of C++, with links to the pages of gyre's names."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import lex
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, _TokenType
from pygments.util import ClassNotFound
from symbols import Symbols

CLASSES = [
    (Comment, "c"),
    (Keyword, "k"),
    (String, "s"),
    (Number, "m"),
    (Name.Builtin, "k"),
]
WORDY = re.compile(
    r"(?<![\w:.])(?:[a-z_]\w*::)+~?[A-Za-z_]\w*(?:\(\))?"  # io::errc::idle_timeout, server::stop()
    r"|(?<![\w:.])[a-z_]\w*\(\)"  # stop()
    r"|(?<![\w:.])[a-z]+_[a-z_0-9]*[a-z0-9]\b(?!\.hpp)"  # tcp_server_options
    r"|(?<![\w/])(?:[\w-]+/)*[\w-]+\.(?:md|hpp)\b"  # docs/design/http.md, base/slab.hpp
)
LANGUAGES = {"c++": "cpp", "sh": "shell-session", "text": "text", "": "text"}


def slug(title: str, taken: dict[str, int]) -> str:
    """The anchor of a heading, as GitHub makes it."""
    base = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
    count = taken.get(base, 0)
    taken[base] = count + 1
    return f"{base}-{count}" if count else base


QUESTION = 7


@dataclass
class Heading:
    level: int  # a question, which is a paragraph that begins with it in bold, has QUESTION
    title: str
    anchor: str
    text: str = ""  # the plain text up to the next heading


@dataclass
class Rendered:
    html: str
    headings: list[Heading] = field(default_factory=list)
    title: str = ""


class Markup:
    """Renders texts; `link` translates the target of a link on a page of the repository."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.documents: dict[str, str] = {}  # pages of files, by the names that comments use
        self.parser = MarkdownIt("commonmark", {"html": True}).enable("table")
        # Comments have brackets of C++ where pages have links and tags.
        self.comments = MarkdownIt("commonmark").enable("table")
        self.comments.disable(["link", "image", "autolink", "reference", "html_inline"])
        self.comments.disable(["html_block", "entity"])

    def code(
        self, text: str, language: str, scope: str, root: str, is_signature: bool = False
    ) -> str:
        """Code with colours; names of gyre are links. `root` leads to the site's root.

        A name without `::` is a link in signatures alone: in examples it is often a variable.
        """
        try:
            lexer = get_lexer_by_name(LANGUAGES.get(language, language), stripnl=False)
        except ClassNotFound:
            lexer = get_lexer_by_name("text")
        is_cpp = language in ("cpp", "c++")
        pieces = []
        for kind, value in _chains(lex(text, lexer)) if is_cpp else lex(text, lexer):
            shown = escape(value, quote=False)
            symbol = None
            if is_cpp and kind in Name and ("::" in value or is_signature):
                symbol = self._in_code(value, scope)
            css = next((name for parent, name in CLASSES if kind in parent), "")
            if symbol:
                shown = f'<a href="{root}{symbol}">{shown}</a>'
            pieces.append(f'<span class="{css}">{shown}</span>' if css else shown)
        return "".join(pieces).rstrip("\n")

    def _in_code(self, value: str, scope: str) -> str | None:
        if value.startswith("std::"):
            return None
        found = self.symbols.find(value, scope) if "::" in value else None
        if found is None and "::" not in value:
            found = self.symbols.by_name.get(f"gyre::{value}")
        return found.url if found else None

    def inline_code(self, text: str, scope: str, root: str) -> str:
        shown = f"<code>{escape(text, quote=False)}</code>"
        found = self.documents.get(text)
        if found is None and (symbol := self.symbols.find(text, scope)):
            found = symbol.url
        return f'<a href="{root}{found}">{shown}</a>' if found else shown

    def names_in(self, text: str, scope: str, root: str) -> str:
        """Prose of a comment: names that it has without marks become links."""
        pieces = []
        position = 0
        for match in WORDY.finditer(text):
            found = self.documents.get(match[0])
            if found is None and (symbol := self.symbols.find(match[0], scope)):
                found = symbol.url
            pieces.append(escape(text[position : match.start()], quote=False))
            shown = f"<code>{escape(match[0], quote=False)}</code>"
            pieces.append(f'<a href="{root}{found}">{shown}</a>' if found else shown)
            position = match.end()
        pieces.append(escape(text[position:], quote=False))
        return "".join(pieces)

    def comment(self, markdown: str, scope: str, root: str) -> str:
        """The HTML of a header's comment."""
        tokens = self.comments.parse(markdown)
        return self._render(tokens, scope, root, lambda target: target, is_comment=True).html

    def page(self, markdown: str, scope: str, root: str, link: Callable[[str], str]) -> Rendered:
        """The HTML of a page of Markdown."""
        return self._render(self.parser.parse(markdown), scope, root, link, is_comment=False)

    def _render(
        self,
        tokens: list[Token],
        scope: str,
        root: str,
        link: Callable[[str], str],
        is_comment: bool,
    ) -> Rendered:
        taken: dict[str, int] = {}
        result = Rendered("")
        out: list[str] = []
        for index, token in enumerate(tokens):
            if token.type == "paragraph_open" and (asked := _question(tokens[index + 1])):
                heading = Heading(QUESTION, asked, slug(asked, taken))
                result.headings.append(heading)
                out.append(f'<p id="{heading.anchor}">')
            elif token.type == "inline":
                html, text = self._inline(token.children or [], scope, root, link, is_comment)
                out.append(html)
                if result.headings and tokens[index - 1].type != "heading_open":
                    result.headings[-1].text += text + " "
            elif token.type == "heading_open":
                title = _plain_text(tokens[index + 1].children or [])
                heading = Heading(int(token.tag[1]), title, slug(title, taken))
                result.headings.append(heading)
                result.title = result.title or title
                out.append(f'<{token.tag} id="{heading.anchor}">')
            elif token.type == "heading_close":
                anchor = result.headings[-1].anchor
                out.append(
                    f'<a class="here" href="#{anchor}" aria-label="link to this section">#</a>'
                    f"</{token.tag}>\n"
                )
            elif token.type in ("fence", "code_block"):
                language = token.info.strip() if token.type == "fence" else "cpp"
                if token.type == "code_block" and not is_comment:
                    language = "text"
                code = self.code(token.content, language, scope, root)
                out.append(f"<pre><code>{code}</code></pre>\n")
                if result.headings:
                    result.headings[-1].text += " ".join(token.content.split()) + " "
            elif token.type == "html_block":
                out.append(token.content)
            elif token.type == "table_open":
                out.append('<div class="table"><table>\n')
            elif token.type == "table_close":
                out.append("</table></div>\n")
            elif token.type in ("paragraph_open", "paragraph_close") and token.hidden:
                continue
            elif token.nesting >= 0:
                start = token.attrGet("start")
                out.append(f'<{token.tag} start="{start}">' if start else f"<{token.tag}>")
                if token.nesting == 0 and token.tag == "hr":
                    out.append("\n")
            else:
                out.append(f"</{token.tag}>\n")
        result.html = "".join(out)
        return result

    def _inline(
        self,
        tokens: list[Token],
        scope: str,
        root: str,
        link: Callable[[str], str],
        is_comment: bool,
    ) -> tuple[str, str]:
        out: list[str] = []
        text: list[str] = []
        links = 0
        for token in tokens:
            text.append(" " if token.type in ("softbreak", "hardbreak") else token.content)
            if token.type == "text":
                if is_comment and not links:
                    out.append(self.names_in(token.content, scope, root))
                else:
                    out.append(escape(token.content, quote=False))
            elif token.type == "code_inline":
                if links:
                    out.append(f"<code>{escape(token.content, quote=False)}</code>")
                else:
                    out.append(self.inline_code(token.content, scope, root))
            elif token.type == "link_open":
                links += 1
                out.append(f'<a href="{escape(link(str(token.attrGet("href"))))}">')
            elif token.type == "link_close":
                links -= 1
                out.append("</a>")
            elif token.type == "softbreak":
                out.append("\n")
            elif token.type == "hardbreak":
                out.append("<br>\n")
            elif token.type == "html_inline":
                out.append(escape(token.content, quote=False))
            elif token.type == "image":
                source = escape(link(str(token.attrGet("src"))))
                out.append(f'<img src="{source}" alt="{escape(token.content)}">')
            elif token.nesting == 1:
                out.append(f"<{token.tag}>")
            elif token.nesting == -1:
                out.append(f"</{token.tag}>")
        return "".join(out), "".join(text)


def _question(inline: Token) -> str | None:
    """The question in bold with which a paragraph begins."""
    tokens = [token for token in inline.children or [] if token.type != "text" or token.content]
    if len(tokens) > 2 and tokens[0].type == "strong_open" and tokens[1].content.endswith("?"):
        return tokens[1].content
    return None


def _plain_text(tokens: list[Token]) -> str:
    return "".join(" " if token.type == "softbreak" else token.content for token in tokens)


def _chains(tokens: Iterator[tuple[_TokenType, str]]) -> Iterator[tuple[_TokenType, str]]:
    """Joins the names and `::` of `gyre::http::server` to one token."""
    chain = ""
    for kind, value in tokens:
        is_name = kind in Name or (kind in Keyword and chain.endswith("::"))
        is_colons = value == "::" and (kind in Operator or kind in Punctuation)
        if (is_name and (not chain or chain.endswith("::"))) or (
            is_colons and chain and not chain.endswith("::")
        ):
            chain += value
            continue
        # Pygments has one token for each colon.
        if value == ":" and chain and not chain.endswith("::"):
            chain += value
            continue
        if chain:
            yield from _ended(chain)
            chain = ""
        if is_name:
            chain = value
        else:
            yield kind, value
    if chain:
        yield from _ended(chain)


def _ended(chain: str) -> Iterator[tuple[_TokenType, str]]:
    name = chain.rstrip(":")
    yield Name, name
    if len(name) < len(chain):
        yield Operator, chain[len(name) :]


def first_sentence(text: str) -> str:
    """The first sentence of a comment, in plain text without marks."""
    paragraph = re.split(r"\n\s*\n|\n(?=- )|\n    ", text.strip(), maxsplit=1)[0]
    paragraph = " ".join(paragraph.split()).replace("`", "")
    paragraph = re.sub(r"\*\*([^*]+)\*\*", r"\1", paragraph)
    match = re.match(r"(.+?[.:;])(?= [A-Z(\"]|$)", paragraph)
    return match[1] if match else paragraph
