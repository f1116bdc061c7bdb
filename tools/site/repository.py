# SPDX-License-Identifier: Apache-2.0
"""Pages of Markdown of the repository, and the sources to which they link."""

import posixpath
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from markup import QUESTION, Heading, Markup
from reference import Page, page_of
from symbols import Symbols

START = "docs/start.md"
INDEX = "docs/README.md"
# The namespaces in which names of a page are looked up first, where its own name does not tell.
SCOPES = {
    "connections": "gyre::net",
    "durable-jobs": "gyre::work",
    "http-client": "gyre::http",
    "layers": "gyre::net",
    "network": "gyre::net",
    "server-options": "gyre::http",
    "websocket": "gyre::http",
    "work": "gyre::work",
}
GROUPS = {
    "docs": "Answers",
    "docs/guide": "Guides",
    "docs/operate": "Operation",
    "docs/design": "Design",
    "docs/lab": "Laboratory",
    "": "Project",
}
LANGUAGES = {
    ".cpp": "cpp", ".hpp": "cpp", ".py": "python", ".toml": "toml", ".txt": "cmake",
    ".cmake": "cmake", ".sh": "bash", ".json": "json",
}  # fmt: skip
LARGEST_SOURCE = 300_000
OPENING = "```cpp"


def url_of(page: str) -> str:
    """The page docs/guide/pools.md is guide/pools.html; docs/start.md is the first page."""
    if page == START:
        return "index.html"
    if page == INDEX:
        return "pages.html"
    if page == "README.md":
        return "about.html"
    return page.removeprefix("docs/").removesuffix(".md").lower() + ".html"


def group_of(page: str) -> str:
    folder = posixpath.dirname(page)
    return GROUPS.get(folder, folder.rpartition("/")[2].capitalize())


@dataclass
class MarkdownPage:
    page: Page
    headings: list[Heading]


class Repository:
    def __init__(self, root: Path, public: set[str]) -> None:
        self.root = root
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        self.files = [path for path in listed if (root / path).is_file()]
        self.public = public
        self.pages = self.markdown()
        self.sources: list[str] = []  # files and folders to which a page links
        self.problems: list[str] = []

    def markdown(self) -> list[str]:
        """The pages of the site, in the order of the index; those that it does not list come last."""
        pages = [
            path
            for path in self.files
            if path.endswith(".md") and (path.startswith("docs/") or "/" not in path)
        ]
        index = (self.root / INDEX).read_text()
        order = {
            posixpath.normpath(posixpath.join("docs", target)): number
            for number, target in enumerate(re.findall(r"\]\(([^)#]+\.md)", index))
        }
        return sorted(pages, key=lambda path: (order.get(path, len(order)), path))

    def resolve(self, page: str, url: str) -> Callable[[str], str]:
        """Translates the targets of links of a page; an unknown one is a problem."""
        root = "../" * url.count("/")

        def link(target: str) -> str:
            if re.match(r"[a-z]+:", target):
                return target
            path, _, anchor = target.partition("#")
            suffix = f"#{anchor}" if anchor else ""
            if not path:
                return suffix
            file = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
            if file in self.pages:
                return f"{root}{url_of(file)}{suffix}"
            if file in self.public:
                return f"{root}{page_of(file)}{suffix}"
            if file in self.files or any(each.startswith(f"{file}/") for each in self.files):
                if file not in self.sources:
                    self.sources.append(file)
                return f"{root}{source_url(file)}{suffix}"
            self.problems.append(f"{page}: the link to {target} leads nowhere")
            return target

        return link

    def page(self, path: str, markup: Markup) -> MarkdownPage:
        url = url_of(path)
        root = "../" * url.count("/")
        text = (self.root / path).read_text()
        stem = Path(path).stem
        scope = SCOPES.get(stem, f"gyre::{stem.replace('-', '_')}")
        rendered = markup.page(text, scope, root, self.resolve(path, url))
        contents = tuple(
            (each.level, each.title, each.anchor)
            for each in rendered.headings
            if 1 < each.level < QUESTION
        )
        page = Page(url, rendered.title or stem, rendered.html, path, group_of(path), "", contents)
        return MarkdownPage(page, rendered.headings)

    def source_pages(self, markup: Markup) -> list[Page]:
        """A page for each file and folder that pages link to, and for the files of such folders."""
        pages = []
        position = 0
        while position < len(self.sources):
            path = self.sources[position]
            position += 1
            if path in self.files:
                pages.append(self.source_page(path, markup))
            else:
                pages.append(self.folder_page(path))
        return pages

    def source_page(self, path: str, markup: Markup) -> Page:
        url = source_url(path)
        root = "../" * url.count("/")
        try:
            text = (self.root / path).read_text()
        except UnicodeDecodeError:
            text = "(binary)"
        if path.endswith(".md"):
            html = markup.page(text, "gyre", root, self.resolve(path, url)).html
            return Page(url, path, html, path, "Sources")
        language = LANGUAGES.get(Path(path).suffix, "text")
        if len(text) > LARGEST_SOURCE:
            text = "(too long to show)"
        code = markup.code(text, language, "gyre", root)
        html = f"<h1>{escape(path)}</h1><pre><code>{code}</code></pre>"
        return Page(url, path, html, path, "Sources")

    def folder_page(self, path: str) -> Page:
        url = source_url(path)
        root = "../" * url.count("/")
        entries = sorted(each for each in self.files if each.startswith(f"{path}/"))
        rows = []
        for each in entries:
            if each not in self.sources:
                self.sources.append(each)
            name = escape(each.removeprefix(f"{path}/"))
            rows.append(f'<li><a href="{root}{source_url(each)}">{name}</a></li>')
        html = f"<h1>{escape(path)}/</h1><ul>{''.join(rows)}</ul>"
        return Page(url, f"{path}/", html, path, "Sources")

    def unknown_names(self, symbols: Symbols) -> list[str]:
        """A line for each name in gyre's column of a table of names that the headers lack."""
        return [
            f"{page}:{line}: gyre has no public name {name}"
            for page in self.pages
            for line, name in foreign_names((self.root / page).read_text())
            if not is_known(name, symbols)
        ]

    def snippets(self) -> list[str]:
        """A line for each ```cpp block of a page that no compiled program contains."""
        programs = "\n" + "\n".join(
            (self.root / path).read_text()
            for path in self.files
            if path.endswith(".cpp") and path.startswith(("examples/", "tests/header_examples/"))
        )
        return [
            f"{page}:{line}: no program under examples or tests/header_examples contains this "
            f"code: {block.strip().splitlines()[0]}"
            for page in self.pages
            for line, block in blocks((self.root / page).read_text())
            if not is_in(block, programs)
        ]


def foreign_names(text: str) -> list[tuple[int, str]]:
    """The names in the last column of tables that end with gyre's, with the numbers of lines."""
    found = []
    is_table = False
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            is_table = False
        elif cells[-1] == "gyre":
            is_table = True
        elif is_table:
            found += [(number, name) for name in re.findall(r"`([^`]*)`", cells[-1])]
    return found


def source_url(path: str) -> str:
    return f"source/{path}.html"


def blocks(text: str) -> list[tuple[int, str]]:
    """The ```cpp blocks of a page with the numbers of their first lines."""
    found = []
    lines = text.splitlines()
    begin = None
    for number, line in enumerate(lines):
        if begin is None and line == OPENING:
            begin = number
        elif begin is not None and line == "```":
            found.append((begin + 2, "\n".join(lines[begin + 1 : number]) + "\n"))
            begin = None
    return found


def is_known(name: str, symbols: Symbols) -> bool:
    """Whether a name exists, or needs not to: of the standard library, a literal, a macro."""
    if name.startswith("std::") or re.fullmatch(r"[0-9]+[a-z]+|[A-Z_]+", name):
        return True
    return any(symbols.find(name, scope) for scope in ("gyre", "gyre::net", "gyre::io"))


def is_in(block: str, programs: str) -> bool:
    """Whether the programs contain the block, indented by up to three levels."""
    for _ in range(4):
        if f"\n{block}" in programs:
            return True
        block = re.sub(r"(?m)^(?=.)", "  ", block)
    return False
