#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each header of gyre compiles alone, after nothing but the headers that it includes.

    python3 headers_alone.py BUILD [ROOT]

BUILD is a build tree with a source `headers_alone/TARGET.cpp` for each target, which includes the
headers to check; its command in compile_commands.json has the compiler's options. Headers are
looked for below ROOT, the repository.

Each header in a translation unit of its own would parse the same headers of the standard library
hundreds of times. Where header A includes header B, directly or not, B may stand before A: A sees
nothing by it that it does not include. So each translation unit is a chain of headers, each of
which includes the one before it, and costs no more than its last header alone. A maximum matching
gives the chains whose last headers are the cheapest.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

INCLUDE = re.compile(r"#\s*include <([^>]+)>")


def includes(path: Path) -> list[str]:
    """The headers that a file includes under every condition."""
    found, conditions = [], 0
    for line in path.read_text().splitlines():
        if re.match(r"#\s*if", line):
            conditions += 1
        elif re.match(r"#\s*endif", line):
            conditions -= 1
        elif conditions == 0 and (match := INCLUDE.match(line)):
            found.append(match[1])
    return found


def closures(headers: Iterable[str], root: Path) -> dict[str, frozenset[str]]:
    """For each header all headers that it includes, directly or not."""

    @cache
    def closure(header: str) -> frozenset[str]:
        if not (root / header).is_file():
            return frozenset()  # one of the system
        direct = includes(root / header)
        return frozenset(direct).union(*map(closure, direct))

    return {header: closure(header) for header in headers}


def chains(included: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Divides the headers into chains, each of whose headers includes the one before it.

    The number of headers that a header includes stands for its cost. Costly headers are matched
    with a successor first, and stay matched: so the last headers of the chains cost least.
    """
    by_cost = sorted(included, key=lambda header: (-len(included[header]), header))
    successors = {h: [s for s in reversed(by_cost) if h in included[s]] for h in by_cost}
    predecessor: dict[str, str] = {}

    def match(header: str, seen: set[str]) -> bool:
        for successor in successors[header]:
            if successor in seen:
                continue
            seen.add(successor)
            if successor not in predecessor or match(predecessor[successor], seen):
                predecessor[successor] = header
                return True
        return False

    matched = {header for header in by_cost if match(header, set())}
    found = []
    for last in by_cost:
        if last in matched:
            continue
        chain = [last]
        while chain[-1] in predecessor:
            chain.append(predecessor[chain[-1]])
        found.append(chain[::-1])
    return found


def compile_chain(chain: list[str], entry: dict[str, str], folder: Path) -> str:
    """Compiles a chain as the entry of compile_commands.json says; gives the compiler's messages."""
    stem = folder / chain[-1].replace("/", "+")
    source = f"{stem}.cpp"
    Path(source).write_text("".join(f"#include <{header}>\n" for header in chain))
    command = shlex.split(entry["command"])
    for option, value in (("-o", f"{stem}.o"), ("-c", source)):
        command[command.index(option) + 1] = value
    command += ["-MD", "-MF", f"{stem}.d"]  # for the depend mode of ccache
    run = subprocess.run(
        command, cwd=entry["directory"], capture_output=True, text=True, check=False
    )
    if run.returncode == 0:
        return run.stderr
    return f"{run.stderr}FAILED: {' '.join(chain)}\n"


def main(build: Path, root: Path) -> int:
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if source.parent == build / "headers_alone":
            commands |= dict.fromkeys(includes(source), entry)
    if not commands:
        print(f"{build}: no target has headers to check; configure with GYRE_BUILD_CHECKS=ON")
        return 1
    found = chains(closures(commands, root))
    folder = build / "headers_alone/chains"
    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        messages = list(
            pool.map(lambda chain: compile_chain(chain, commands[chain[-1]], folder), found)
        )
    print("".join(messages), end="")
    failures = sum("\nFAILED: " in f"\n{each}" for each in messages)
    print(f"{len(commands)} headers in {len(found)} translation units, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root = sys.argv[2] if len(sys.argv) == 3 else Path(__file__).parents[2]
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(root).resolve()))
