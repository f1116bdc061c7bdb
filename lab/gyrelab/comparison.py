# SPDX-License-Identifier: Apache-2.0
"""Comparison of contenders over cells: the slowest of one group against the best of another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gyrelab import cells, statistics
from gyrelab.cells import Cell, Filter, Value
from gyrelab.experiments import Metric
from gyrelab.results import Results, Series
from gyrelab.statistics import Ratio


@dataclass(frozen=True)
class CellRatio:
    """The comparison in one cell: the slowest of one group and the best of the other."""

    cell: dict[str, Value]
    slowest: str
    best: str
    ratio: Ratio


@dataclass(frozen=True)
class Comparison:
    """A ratio over cells, None when no cell could be compared. `gaps` lists missing figures."""

    ratio: Ratio | None
    cells: list[CellRatio] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


def compare(
    results: Results,
    experiment: str,
    metric: Metric,
    contenders: Sequence[str],
    rivals: Sequence[str],
    restriction: Filter | None = None,
    can_run: Callable[[str, Cell], bool] = lambda name, cell: True,
) -> Comparison:
    """The slowest contender relative to the best rival, over the chosen cells; above 1 is better.

    Slowest and best are by median in each cell. A cell counts only when every contender and at
    least one rival was measured in it; `gaps` lists the missing figures, without those in cells in
    which a rival cannot run, and without cells in which no contender took part.
    """
    found, strata, gaps = [], [], []
    chosen = [cell for cell in results.cells(experiment) if cells.matches(cell, restriction or {})]
    if not chosen:
        gaps.append(f"no cell with {cells.describe(restriction or {})} was measured")
    for cell in chosen:
        if not any(results.runs(experiment, name, cell) for name in contenders):
            continue
        ours = _measured(results, experiment, metric, contenders, cell)
        theirs = _measured(results, experiment, metric, rivals, cell)
        missing = [name for name in contenders if name not in ours]
        gaps += [f"{name} has no figure at {cells.key(cell)}" for name in missing]
        gaps += [
            f"{name} has no figure at {cells.key(cell)}"
            for name in rivals
            if name not in theirs and can_run(name, cell)
        ]
        if missing or not theirs:
            continue
        slowest = _worst(ours, metric.better)
        best = _best(theirs, metric.better)
        logs = statistics.log_ratios(ours[slowest], theirs[best], metric.better)
        if not logs:
            gaps.append(f"{slowest} and {best} have no round in common at {cells.key(cell)}")
            continue
        strata.append(logs)
        found.append(CellRatio(cell, slowest, best, statistics.ratio([logs])))
    return Comparison(statistics.ratio(strata) if strata else None, found, gaps)


def _measured(
    results: Results, experiment: str, metric: Metric, names: Sequence[str], cell: dict[str, Value]
) -> dict[str, Series]:
    found = {}
    for name in names:
        series = results.series(experiment, name, cell, metric.name)
        positive = {turn: value for turn, value in series.items() if value > 0}
        if positive:
            found[name] = positive
    return found


def _worst(measured: dict[str, Series], better: str) -> str:
    return _best(measured, "lower" if better == "higher" else "higher")


def _best(measured: dict[str, Series], better: str) -> str:
    medians = {name: statistics.median(list(series.values())) for name, series in measured.items()}
    return (min if better == "lower" else max)(medians, key=lambda name: medians[name])
