# SPDX-License-Identifier: Apache-2.0
"""Comparison of two result files: finds the contenders that became slower beyond noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gyrelab import statistics
from gyrelab.cells import Value, key
from gyrelab.experiments import Metric
from gyrelab.results import Results, Series

LEVEL = 0.05  # chance of any false alarm in a whole comparison


@dataclass(frozen=True)
class Change:
    """A contender's change in one cell: `worse` is 1.1 for 10 % worse, 0.9 for 10 % better."""

    experiment: str
    contender: str
    cell: dict[str, Value]
    before: float
    after: float
    worse: float
    p: float  # adjusted for the number of comparisons

    @property
    def certain(self) -> bool:
        """Whether the change is significant."""
        return self.p < LEVEL

    @property
    def place(self) -> str:
        """The contender and its cell, in words."""
        return f"{self.experiment}/{self.contender} {key(self.cell)}"


def compare(
    before: Results, after: Results, relative_to: str | None = None
) -> tuple[list[Change], list[str]]:
    """Every change between the files, with p-values adjusted by Holm's method, and the omissions.

    With `relative_to` each figure is first divided by that contender's figure of the same round,
    which cancels changes of the whole machine between the two measurements.
    """
    changes: list[Change] = []
    left_out: list[str] = []
    for experiment in before.experiments:
        if experiment not in after.experiments:
            left_out.append(f"{experiment} is only in {before.name}")
            continue
        metric = after.experiment(experiment).metric
        here = {key(cell) for cell in after.cells(experiment)}
        for cell in before.cells(experiment):
            if key(cell) not in here:
                left_out.append(f"{experiment} {key(cell)} is only in {before.name}")
                continue
            for contender in before.contenders(experiment):
                if contender == relative_to:
                    continue
                pair = [
                    _collect_series(r, experiment, contender, cell, metric, relative_to)
                    for r in (before, after)
                ]
                if all(pair):
                    changes.append(_compute_change(experiment, contender, cell, metric, pair))
    adjusted = statistics.holm([change.p for change in changes])
    return [replace(change, p=p) for change, p in zip(changes, adjusted, strict=True)], left_out


def regressions(changes: Sequence[Change], tolerance: float) -> list[Change]:
    """The significant changes for the worse above `tolerance` (0.02 for 2 %)."""
    found = [change for change in changes if change.certain and change.worse > 1 + tolerance]
    return sorted(found, key=lambda change: -change.worse)


def _collect_series(
    results: Results,
    experiment: str,
    contender: str,
    cell: dict[str, Value],
    metric: Metric,
    relative_to: str | None,
) -> Series:
    series = results.series(experiment, contender, cell, metric.name)
    if relative_to is not None:
        base = results.series(experiment, relative_to, cell, metric.name)
        series = {n: value / base[n] for n, value in series.items() if base.get(n)}
    return {n: value for n, value in series.items() if value > 0}


def _compute_change(
    experiment: str, contender: str, cell: dict[str, Value], metric: Metric, pair: list[Series]
) -> Change:
    logs = [[math.log(value) for value in series.values()] for series in pair]
    difference, p = statistics.welch(*logs)
    if metric.better == "higher":
        difference = -difference
    before, after = (statistics.median(list(series.values())) for series in pair)
    return Change(experiment, contender, dict(cell), before, after, math.exp(difference), p)
