# SPDX-License-Identifier: Apache-2.0
"""The expected duration of a measurement, before its first run and during it."""

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gyrelab import cells
from gyrelab.planning import PlannedRun

Kind = tuple[str, str, str]  # experiment, contender, the cell's key
START_SECONDS = 0.003  # of the lab itself for each run: starting the program, saving its result
_FILES = 4
_SLOWEST, _FASTEST = 4.0, 0.25


class Expectation:
    """Sums the expected durations of the waiting runs.

    A kind of run takes as long as it last did in this measurement; before that, as long as in
    earlier result files of this machine; before that, as long as the grid's `run_seconds`, times
    how much slower than those this machine has been so far; without them, the average.
    """

    def __init__(
        self,
        runs: Iterable[Mapping[str, Any]],
        earlier: Mapping[Kind, float],
        compiling: Callable[[], float] | None = None,
    ) -> None:
        self._earlier = earlier
        self._compiling = compiling  # the expected seconds of compiling, which are added
        self._known: dict[Kind, float] = {}
        self._hints: dict[Kind, float] = {}
        self._waiting: Counter[Kind] = Counter()
        self._beyond = 0.0
        for run in runs:
            self._known[kind_of(run)] = run["wall_seconds"]

    def expect(self, runs: Iterable[PlannedRun], rest_seconds: float = 0.0) -> None:
        """Makes these runs the waiting ones, and `rest_seconds` the seconds expected after them."""
        self._waiting = Counter()
        self._beyond = rest_seconds
        for run in runs:
            kind = run.key[:3]
            self._waiting[kind] += 1
            if run.part.run_seconds:
                self._hints[kind] = run.part.run_seconds

    def learn(self, kind: Kind, seconds: float) -> None:
        """A waiting run of this kind took so long."""
        self._known[kind] = seconds
        self._waiting[kind] -= 1

    def left(self) -> float | None:
        """The seconds until the end; None when nothing is known."""
        if not (self._known or self._earlier or self._hints):
            return None
        hinted = [kind for kind in self._hints if kind in self._known]
        slower = 1.0
        if hinted:
            shown = sum(self._known[kind] for kind in hinted)
            slower = shown / sum(self._hints[kind] for kind in hinted)
            slower = min(_SLOWEST, max(_FASTEST, slower))
        everything = [*self._known.values(), *self._earlier.values(), *self._hints.values()]
        average = sum(everything) / len(everything)

        def seconds(kind: Kind) -> float:
            for source, factor in ((self._known, 1.0), (self._earlier, 1.0), (self._hints, slower)):
                if kind in source:
                    return source[kind] * factor
            return average

        waiting = sum(
            count * (seconds(kind) + START_SECONDS) for kind, count in self._waiting.items()
        )
        compiling = 0.0 if self._compiling is None else self._compiling()
        return waiting + self._beyond + compiling


def kind_of(run: Mapping[str, Any]) -> Kind:
    """The kind of a run in a result file."""
    return (run["experiment"], run["contender"], cells.key(run["cell"]))


def earlier(folder: Path, machine: Mapping[str, Any]) -> dict[Kind, float]:
    """The median duration of each kind of run, from the last result files of this machine."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)[-_FILES:]
    found: dict[Kind, list[float]] = {}
    for file in files:
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            same = all(
                document["machine"][fact] == machine[fact] for fact in ("processor", "cores")
            )
            for run in document["runs"] if same else []:
                found.setdefault(kind_of(run), []).append(run["wall_seconds"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # not a result file: it says nothing about durations
    return {kind: statistics.median(seconds) for kind, seconds in found.items()}
