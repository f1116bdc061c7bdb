# SPDX-License-Identifier: Apache-2.0
"""The index that the search of the site reads: sections of pages, and names with their comments."""

import json
import re
from collections.abc import Iterable

from defaults import spoken
from markup import QUESTION
from model import Declaration, Model
from reference import KINDS, anchor_of, page_of
from repository import MarkdownPage

LONGEST_TEXT = 1500
LONGEST_COMMENT = 400


def entries(pages: Iterable[MarkdownPage], model: Model) -> list[list[str]]:
    """Lists of title, where, address, kind, text."""
    found = []
    for each in pages:
        for number, heading in enumerate(each.headings):
            anchor = "" if number == 0 else f"#{heading.anchor}"
            text = re.sub(r"\s+", " ", heading.text).strip()[:LONGEST_TEXT]
            kind = "page" if number == 0 else "section"
            kind = "question" if heading.level == QUESTION else kind
            where = each.page.group if number == 0 else each.page.title
            found.append([heading.title, where, each.page.url + anchor, kind, text])
    for header, declarations in model.headers.items():
        found += names(declarations, "", page_of(header), header)
    return found


def names(
    declarations: Iterable[Declaration], outer: str, page: str, header: str
) -> list[list[str]]:
    found: list[list[str]] = []
    known: dict[str, int] = {}
    for each in declarations:
        anchor = anchor_of(each, outer)
        title = each.qualified.removeprefix("gyre::")
        text = " ".join(each.comment.split())[:LONGEST_COMMENT]
        if each.kind == "variable" and each.initializer:
            value = each.initializer.strip().removeprefix("=").strip()
            text = f"default {spoken(value, each.type, each.comment) or value}: {text}"
        if anchor in known:
            # Overloads are one entry.
            entry = found[known[anchor]]
            if not entry[4]:
                entry[4] = text
            continue
        known[anchor] = len(found)
        kind = KINDS.get(each.kind, each.kind)
        if each.kind == "variable" and outer:
            kind = "field"
        found.append([title, header.removeprefix("gyre/"), f"{page}#{anchor}", kind, text])
    for each in declarations:
        if each.members:
            found += names(each.members, anchor_of(each, outer), page, header)
    return found


def script(found: list[list[str]]) -> str:
    """JavaScript, because a page that is opened as a file cannot read JSON."""
    return f"window.gyreIndex = {json.dumps(found, ensure_ascii=False, separators=(',', ':'))};\n"
