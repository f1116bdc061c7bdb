# SPDX-License-Identifier: Apache-2.0
"""Looks for a static probe of each kind of event in a program that records.

    python3 probes_test.py PROGRAM

Fails by an exception.
"""

import re
import subprocess
import sys
from pathlib import Path

EVENTS = Path(__file__).resolve().parents[2] / "gyre" / "trace" / "detail" / "event.hpp"


def kinds() -> set[str]:
    enumeration = re.search(r"enum class event_kind [^{]*\{([^}]*)\}", EVENTS.read_text())
    assert enumeration
    return set(re.findall(r"\w+", enumeration[1])) - {"none"}


def main() -> None:
    notes = subprocess.run(
        ["readelf", "--notes", "--wide", sys.argv[1]], capture_output=True, text=True, check=True
    ).stdout
    probes = re.findall(
        r"Provider: gyre\s+Name: (\w+)\s+Location: \S+ Base: \S+ Semaphore: (\S+)\s+"
        r"Arguments: (.*)",
        notes,
    )
    names = [name for name, _, _ in probes]
    assert set(names) == kinds(), (sorted(names), sorted(kinds()))
    semaphores = [int(semaphore, 16) for _, semaphore, _ in probes]
    assert 0 not in semaphores and len(set(semaphores)) == len(set(names)), semaphores
    for name, _, arguments in probes:
        # Unsigned, signed and unsigned numbers of eight bytes.
        sizes = [each.partition("@")[0] for each in arguments.split()]
        assert sizes == ["8", "-8", "8"], (name, arguments)


if __name__ == "__main__":
    main()
