# SPDX-License-Identifier: Apache-2.0
"""Puts the site together, and finds what is wrong with it."""

import posixpath
import re
import shutil
import tempfile
from html import unescape
from pathlib import Path

import headers as header_files
import index
import jinja2
from markup import Markup
from model import Model, Reader, run_doxygen
from options import Options
from reference import Page, Reference, collect_symbols, page_of, undocumented
from repository import MarkdownPage, Repository, url_of

ROOT = Path(__file__).resolve().parent.parent.parent
ASSETS = Path(__file__).resolve().parent / "assets"
NOT_PUBLIC = re.compile(r"/detail/|_test_(suite|support)\.hpp$|^gyre/gyre\.hpp$")
GROUP_ORDER = ["Answers", "Guides", "Operation", "API", "Design", "Laboratory", "Project"]


def public_headers(root: Path) -> tuple[list[str], list[str]]:
    """The public headers and all headers, as paths from the root."""
    every = sorted(path.relative_to(root).as_posix() for path in (root / "gyre").rglob("*.hpp"))
    every = [path for path in every if not path.endswith(("_test_suite.hpp", "_test_support.hpp"))]
    return [path for path in every if not NOT_PUBLIC.search(path)], every


def read_model(root: Path, work: Path, doxygen: Path) -> tuple[Model, header_files.Comments]:
    public, every = public_headers(root)
    comments = header_files.prepare(root, every, work / "headers")
    warnings = run_doxygen(doxygen, work / "headers", work / "doxygen")
    declarations = Reader(root, work / "doxygen/xml", comments, public).read()
    return Model(declarations, warnings), comments


def navigation(pages: list[Page], rooms: list[Page]) -> list[tuple[str, list[Page]]]:
    groups: dict[str, list[Page]] = {}
    for page in pages:
        groups.setdefault(page.group, []).append(page)
    groups["API"] = rooms
    known = [name for name in GROUP_ORDER if name in groups]
    return [(name, groups[name]) for name in [*known, *(set(groups) - set(known))]]


def documents(repository: Repository) -> dict[str, str]:
    """The pages of Markdown files and headers, by the names that comments and pages use."""
    found = {path: url_of(path) for path in repository.pages}
    names: dict[str, list[str]] = {}
    for header in repository.public:
        url = page_of(header)
        found[header] = found[header.removeprefix("gyre/")] = url
        names.setdefault(header.rpartition("/")[2], []).append(url)
    return found | {name: urls[0] for name, urls in names.items() if len(urls) == 1}


class Writer:
    """Puts each page into the shell: header, navigation, contents of the page."""

    def __init__(self, groups: list[tuple[str, list[Page]]]) -> None:
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True
        )
        self.template = environment.get_template("page.html")
        self.groups = groups

    def html(self, page: Page) -> str:
        root = "../" * page.url.count("/")
        return self.template.render(page=page, root=root, groups=self.groups)


def dead_links(pages: dict[str, str], sources: dict[str, str]) -> list[str]:
    """A line for each link to a page or an anchor that does not exist, or exists twice."""
    anchors: dict[str, set[str]] = {}
    problems = set()
    for url, html in pages.items():
        found = [unescape(each) for each in re.findall(r'\bid="([^"]*)"', html)]
        anchors[url] = set(found)
        if len(found) > len(anchors[url]):
            twice = next(each for each in found if found.count(each) > 1)
            problems.add(f"{sources[url]}: two headings or names have the anchor {twice}")
    assets = {path.name for path in ASSETS.iterdir()} | {"search-index.js"}
    for url, html in pages.items():
        for target in set(re.findall(r'\b(?:href|src)="([^"]*)"', html)):
            target = unescape(target)
            if re.match(r"(https?|mailto|data):", target):
                continue
            path, _, anchor = target.partition("#")
            there = (
                posixpath.normpath(posixpath.join(posixpath.dirname(url), path)) if path else url
            )
            if there in assets:
                continue
            if there not in pages:
                problems.add(f"{sources[url]}: the link to {target} leads nowhere")
            elif anchor and anchor not in anchors[there]:
                problems.add(f"{sources[url]}: the link to {target}: no such heading or name")
    return sorted(problems)


def build(out: Path | None, doxygen: Path) -> tuple[list[str], int]:
    """Builds the site, writes it to `out`, and returns problems and the number of pages."""
    with tempfile.TemporaryDirectory() as work:
        model, comments = read_model(ROOT, Path(work), doxygen)
    symbols = collect_symbols(model)
    markup = Markup(symbols)
    repository = Repository(ROOT, set(model.headers))
    markup.documents = documents(repository)
    reference = Reference(model, comments, markup)
    options = Options(model, markup)

    problems = [*model.warnings, *undocumented(model, symbols), *repository.snippets()]
    problems += repository.unknown_names(symbols)
    guides: list[MarkdownPage] = [repository.page(path, markup) for path in repository.pages]
    for each in guides:
        root = "../" * each.page.url.count("/")
        each.page.html = options.replaced(each.page.html, root, problems, each.page.source)
    api = reference.pages()
    rooms = [page for page in api if page.url.endswith("index.html")]
    rooms.sort(key=lambda page: page.url != "api/index.html")
    sources = repository.source_pages(markup)
    problems += repository.problems

    writer = Writer(navigation([each.page for each in guides], rooms))
    pages = [*(each.page for each in guides), *api, *sources]
    written = {page.url: writer.html(page) for page in pages}
    problems += dead_links(written, {page.url: page.source for page in pages})
    if out is not None:
        write(out, written, index.script(index.entries(guides, model)))
    return list(dict.fromkeys(problems)), len(pages)


def write(out: Path, pages: dict[str, str], search_index: str) -> None:
    shutil.rmtree(out, ignore_errors=True)
    for url, html in pages.items():
        path = out / url
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html)
    (out / "search-index.js").write_text(search_index)
    for asset in ASSETS.iterdir():
        if asset.name != "page.html":
            shutil.copy(asset, out / asset.name)
