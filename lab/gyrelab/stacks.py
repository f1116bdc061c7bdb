# SPDX-License-Identifier: Apache-2.0
"""Stacks that perf sampled: read from `perf script`, counted, and named briefly."""

import re
from collections import Counter
from dataclasses import dataclass, field

# The fields that `perf script` must print for parse().
FIELDS = "comm,pid,tid,ip,sym,dso"

_HEADER = re.compile(r"^(?P<comm>\S.*?)\s+(?P<pid>\d+)/(?P<tid>\d+)\s*$")
_FRAME = re.compile(r"^\s+[0-9a-f]+ (?P<symbol>.+?)(?: \((?P<dso>[^()]*(?:\([^()]*\))?)\))?\s*$")


@dataclass
class Samples:
    """How often each stack was seen, from the outermost frame to the innermost, by process. A
    function that calls itself directly stands there once."""

    stacks: dict[int, Counter[tuple[str, ...]]] = field(default_factory=dict)
    malformed: int = 0  # lines that are neither a sample's header nor one of its frames

    @property
    def total(self) -> int:
        """The number of samples of all processes."""
        return sum(counted.total() for counted in self.stacks.values())

    def self_counts(self) -> Counter[str]:
        """How often each function was innermost."""
        counted: Counter[str] = Counter()
        for stacks in self.stacks.values():
            for stack, count in stacks.items():
                counted[stack[-1]] += count
        return counted


def parse(text: str) -> Samples:
    """Reads the output of `perf script -F comm,pid,tid,ip,sym,dso`. A kernel function ends in
    `_[k]`; a function without a name is named after its file."""
    found = Samples()
    pid, frames = None, []

    def close() -> None:
        if pid is not None and frames:
            found.stacks.setdefault(pid, Counter())[tuple(reversed(frames))] += 1

    for line in text.splitlines():
        if not line.strip():
            close()
            pid, frames = None, []
        elif line.startswith("#"):
            continue
        elif pid is None and (header := _HEADER.match(line)):
            pid = int(header["pid"])
        elif pid is not None and (frame := _FRAME.match(line)):
            name = _named(frame["symbol"], frame["dso"] or "")
            if not frames or frames[-1] != name:
                frames.append(name)
        else:
            found.malformed += 1
    close()
    return found


def _named(symbol: str, dso: str) -> str:
    file = dso.removesuffix(" (deleted)").rpartition("/")[2]
    if symbol == "[unknown]":
        return f"[{file.strip('[]') or 'unknown'}]"
    return f"{symbol}_[k]" if "kernel" in dso or dso.endswith(".ko") else symbol


def brief(function: str) -> str:
    """A function's name without return type, arguments and template arguments."""
    kernel = " [kernel]" if function.endswith("_[k]") else ""
    name = function.removesuffix("_[k]").replace("(anonymous namespace)", "{anonymous}")
    short = _without_brackets(
        re.sub(r"operator(\(\)|<=>|<<=?|>>=?|->\*?|[<>]=?)", _hidden, name)
    ).strip()
    short = short.removesuffix(" const")
    last = short if "operator" in short else short.rpartition(" ")[2]
    return f"{_shown(last) or name}{kernel}"


_BRACKETS = "()<>"
_HIDDEN = "\1\2\3\4"


def _hidden(operator: re.Match[str]) -> str:
    return operator[0].translate(str.maketrans(_BRACKETS, _HIDDEN))


def _shown(name: str) -> str:
    return name.translate(str.maketrans(_HIDDEN, _BRACKETS))


def _without_brackets(name: str) -> str:
    kept, depth = [], 0
    for letter in name:
        depth += letter in "(<"
        if depth == 0:
            kept.append(letter)
        depth -= letter in ")>" and depth > 0
    return "".join(kept)
