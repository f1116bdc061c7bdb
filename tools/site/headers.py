# SPDX-License-Identifier: Apache-2.0
"""Public headers as Doxygen gets them.

Comments are Markdown, with names in plain text and code in any brackets, which Doxygen would read
as commands and tags. So Doxygen gets copies of the headers in which a token stands for each
comment; its XML tells which declaration a token belongs to.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

COMMENT = re.compile(r"^(\s*)///(?!<) ?(.*)$")
TRAILING = re.compile(r"^(.*\S)(\s+)///< ?(.*)$")
CONTINUED = re.compile(r"^\s*///< ?(.*)$")
TOKEN = "GYRECOMMENT"
# Doxygen takes the friend declaration of another namespace's class for a member.
FRIEND = re.compile(r"^\s*friend (class |struct )?[\w:<>, ]+;$")
MISUSE = "// Explains wrong arguments"
LABEL = re.compile(
    r"^((?:Thread-safety|Lifetime|Errors|Complexity|Order|Capacity|Memory|Example)"
    r"(?:, (?:Lifetime|Errors|Complexity))*:)(?= |$)"
)


@dataclass
class Comments:
    """The comments of all headers by their tokens, and the introduction of each header."""

    texts: list[str] = field(default_factory=list)
    introductions: dict[str, str] = field(default_factory=dict)

    def add(self, lines: list[str]) -> str:
        self.texts.append("\n".join(lines))
        return f"{TOKEN}{len(self.texts) - 1}"

    def find(self, text: str) -> str:
        """The comments whose tokens stand in `text`, separated by empty lines."""
        numbers = re.findall(rf"{TOKEN}(\d+)", text)
        return "\n\n".join(self.texts[int(number)] for number in numbers)


def introduction(lines: list[str]) -> str:
    """The comment that a header begins with, without the licence."""
    found = []
    for line in lines[1:]:
        if not line.startswith("//"):
            break
        found.append(line[2:].removeprefix(" "))
    return "\n".join(found)


def with_tokens(lines: list[str], comments: Comments) -> list[str]:
    """The lines of a header, of the same number, with tokens in place of comments."""
    result: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if match := COMMENT.match(line):
            texts = []
            first = number
            while number < len(lines) and (each := COMMENT.match(lines[number])):
                texts.append(each[2])
                number += 1
            result.append(f"{match[1]}/// {comments.add(texts)}")
            result += [""] * (number - first - 1)
            # An empty line between a comment and its declaration would separate them for Doxygen.
            blank = number - first - 1
            if blank:
                result = result[: -blank - 1] + [""] * blank + [result[-blank - 1]]
            continue
        if match := TRAILING.match(line):
            texts = [match[3]]
            number += 1
            while number < len(lines) and (each := CONTINUED.match(lines[number])):
                texts.append(each[1])
                number += 1
            result.append(f"{match[1]}{match[2]}///< {comments.add(texts)}")
            result += [""] * (len(texts) - 1)
            continue
        if line.strip().startswith(MISUSE):
            number = _after_misuse(lines, number, result)
            continue
        is_skipped = line.lstrip().startswith("//") or FRIEND.match(line)
        result.append("" if is_skipped else line)
        number += 1
    return result


def _after_misuse(lines: list[str], number: int, result: list[str]) -> int:
    """Skips the declaration after the comment, which exists for a message of the compiler."""
    depth = 0
    while number < len(lines):
        line = lines[number]
        result.append("")
        number += 1
        if line.lstrip().startswith("//"):
            continue
        depth += line.count("{") - line.count("}")
        if depth == 0 and line.rstrip().endswith((";", "}")):
            break
    return number


def prepare(root: Path, headers: list[str], target: Path) -> Comments:
    """Writes copies of `headers`, paths below `root`, to the folder `target`."""
    comments = Comments()
    for header in headers:
        lines = (root / header).read_text().splitlines()
        comments.introductions[header] = introduction(lines)
        copy = target / header
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("\n".join(with_tokens(lines, comments)) + "\n")
    return comments


def markdown_of(comment: str) -> str:
    """A comment as Markdown: each fixed label, such as `Errors:`, begins a paragraph in bold."""
    lines: list[str] = []
    in_example = False
    for line in comment.splitlines():
        in_example = line.startswith("    ") and (in_example or not lines or not lines[-1].strip())
        if not in_example and (match := LABEL.match(line)):
            if lines and lines[-1].strip():
                lines.append("")
            line = f"**{match[1]}**{line[match.end() :]}"
        elif (
            not in_example
            and re.match(r"(- |\d+\. )", line)
            and lines
            and lines[-1].strip()
            and not re.match(r"(- |\d+\. |  )", lines[-1])
        ):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
