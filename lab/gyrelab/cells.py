# SPDX-License-Identifier: Apache-2.0
"""A cell is one point of an experiment's grid: a value for each parameter. Filters choose cells."""

from collections.abc import Iterable, Mapping

Value = int | str
Cell = Mapping[str, Value]
Filter = Mapping[str, list[Value]]


COMPILER = "compiler"  # a parameter that chooses among a contender's programs
NEIGHBOURS = "neighbours"  # a parameter: the busy processes that run beside a contender


def key(cell: Cell) -> str:
    """The cell as a string that identifies it: `producers=4 tasks=1000000 wakeup=coalesced`."""
    return " ".join(f"{name}={value}" for name, value in sorted(cell.items()))


def matches(cell: Cell, chosen: Filter) -> bool:
    """Whether every parameter in the filter has one of its allowed values."""
    return all(cell.get(name) in values for name, values in chosen.items())


def arguments(cell: Cell) -> list[str]:
    """The cell as a contender's command-line arguments."""
    words: list[str] = []
    for name, value in passed(cell).items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def passed(cell: Cell) -> dict[str, Value]:
    """The parameters that a program is told: neither its compiler nor its neighbours."""
    return {name: value for name, value in cell.items() if name not in (COMPILER, NEIGHBOURS)}


def describe(chosen: Filter) -> str:
    """A filter in words: `wakeup=coalesced, producers=2 or 4`."""
    parts = (f"{name}={' or '.join(map(str, values))}" for name, values in chosen.items())
    return ", ".join(parts) or "all cells"


def unique(cells: Iterable[Cell]) -> list[dict[str, Value]]:
    """The cells in order of first appearance, each once."""
    return list({key(cell): dict(cell) for cell in cells}.values())
