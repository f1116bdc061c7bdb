# SPDX-License-Identifier: Apache-2.0
"""Checks the compiler errors for misuses of gyre.

    first_error_test.py SOURCE ROOT COMPILER…

In SOURCE a comment `// expect: SENTENCE` stands before each misuse, or `// expect NAME: SENTENCE`
if only the compiler NAME, gcc or clang, sees it. With each COMPILER the first error of a misuse must
contain the sentence, and few lines may follow. A source without such comments must compile.
"""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

MAX_ERRORS = 2  # GCC adds that a destructor is deleted
MAX_LINES = 12  # of output up to the sentence
OPTIONS = ["-std=c++23", "-fsyntax-only"]
# Clang alone sees a coroutine that ends without a result; GCC sees a function without a result where
# it has dropped a wrong co_await.
OPTIONS_OF = {
    "clang": ["-ferror-limit=0", "-fno-caret-diagnostics", "-Werror=return-type"],
    "gcc": ["-fmax-errors=0", "-fno-diagnostics-show-caret"],
}
EXPECTED = re.compile(r"^\s*// expect(?: (gcc|clang))?: (.+)$")
DIAGNOSTIC = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):\d+: (?P<kind>fatal error|error): ")
# A function template of gyre in which an error stands was called from here.
CALLED = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):\d+:.*(required from|requested here)")


@dataclass
class Misuse:
    """A line of SOURCE with the comment, and the output that belongs to the lines behind it."""

    line: int
    compiler: str | None
    sentence: str
    errors: list[str] = field(default_factory=list)
    lines: int = 0  # of output before the first error's line, and that line


def misuses_of(source: Path) -> list[Misuse]:
    """The misuses of a source, in their order."""
    found = []
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if match := EXPECTED.match(line):
            found.append(Misuse(number, match[1], match[2]))
    return found


def blocks_of(output: list[str]) -> list[tuple[int, list[str]]]:
    """Each error with the lines that explain it, and the index of the error among them."""
    starts = [number for number, line in enumerate(output) if DIAGNOSTIC.match(line)]
    blocks = []
    begin = 0
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(output)
        # GCC tells the context of an error before it.
        while end < len(output) and end > start + 1 and "note:" not in output[end - 1]:
            if not re.search(r": In |required from|At global scope|included from", output[end - 1]):
                break
            end -= 1
        blocks.append((start - begin, output[begin:end]))
        begin = end
    return blocks


def line_in(source: Path, block: list[str], error: int) -> int | None:
    """The last line of the source that a block names: that of the error, or of the call."""
    for pattern, line in [(DIAGNOSTIC, block[error]), *((CALLED, each) for each in block)]:
        match = pattern.match(line)
        if match and Path(match["file"]).name == source.name:
            return int(match["line"])
    return None


def problems_with(compiler: str, source: Path, root: Path) -> list[str]:
    """The deviations of one compiler's output from the comments."""
    name = "clang" if "clang" in Path(compiler).name else "gcc"
    misuses = [each for each in misuses_of(source) if each.compiler in (None, name)]
    includes = [f"-I{root}", f"-I{root}/tests/support/stdexec"]
    run = subprocess.run(
        [compiler, *OPTIONS, *OPTIONS_OF[name], *includes, str(source)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin"},
    )
    output = run.stderr.splitlines()
    problems = []
    if not misuses and run.returncode != 0:
        return [f"{compiler}: {source.name} must compile:", *output]
    for error, block in blocks_of(output):
        line = line_in(source, block, error)
        before = [each for each in misuses if line is not None and each.line < line]
        if not before:
            problems += [f"{compiler}: an error that no comment expects:", *block]
            continue
        if not before[-1].errors:
            before[-1].lines = error + 1
        before[-1].errors.append(block[error])
    for misuse in misuses:
        place = f"{compiler}: {source.name}:{misuse.line}"
        if not misuse.errors:
            problems.append(f"{place}: compiles, but should say: {misuse.sentence}")
        elif misuse.sentence not in misuse.errors[0]:
            problems.append(f"{place}: '{misuse.sentence}' is not in: {misuse.errors[0]}")
        elif len(misuse.errors) > MAX_ERRORS or misuse.lines > MAX_LINES:
            problems.append(f"{place}: {misuse.lines} lines and {len(misuse.errors)} errors:")
            problems += misuse.errors
    return problems


def main() -> int:
    source, root, *compilers = sys.argv[1:]
    problems = []
    for compiler in compilers:
        problems += problems_with(compiler, Path(source), Path(root))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
