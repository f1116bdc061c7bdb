# SPDX-License-Identifier: Apache-2.0
"""The published reports' figures, turned into the experiments' own metrics."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gyrelab import cells, paths, statistics
from gyrelab.cells import Value
from gyrelab.experiments import Claim, Experiment, Published


@dataclass(frozen=True)
class Point:
    """A published figure in our grid; `cell` names only the parameters that the figure fixes."""

    contender: str
    cell: dict[str, Value]
    value: float
    title: str
    setup: str


@cache
def figures() -> list[dict[str, Any]]:
    """All series of published/figures.json."""
    return json.loads(paths.PUBLISHED.read_text(encoding="utf-8"))


def points(experiment: Experiment) -> list[Point]:
    """The published figures of this experiment, in its metric's unit."""
    known = {each.name for each in experiment.contenders}
    return [
        point
        for published in experiment.published
        for series in figures()
        if series["experiment"] == published.series
        if published.report in (None, series["report"])
        if published.names.get(series["contender"], series["contender"]) in known
        for point in _convert_series(experiment, published, series)
    ]


def _convert_series(
    experiment: Experiment, published: Published, series: dict[str, Any]
) -> list[Point]:
    """The points of a series; parameters that the series states also fix their cells."""
    contender = published.names.get(series["contender"], series["contender"])
    fixed = {name: values[0] for name, values in published.where.items() if len(values) == 1}
    fixed |= {name: series[name] for name in experiment.parameters if name in series}
    pairs = list(zip(series["x"], series["y"], strict=True))
    scaled = [y * published.factor / (x if published.divide_by_x else 1) for x, y in pairs]
    if published.collapse is not None:
        places = [(published.collapse, statistics.median(scaled))]
    else:
        places = [({published.x: x}, y) for (x, _), y in zip(pairs, scaled, strict=True)]
    return [
        Point(contender, {**fixed, **place}, y, published.title, series["setup"])
        for place, y in places
    ]


def ratio(experiment: Experiment, claim: Claim) -> float | None:
    """The claim's ratio from the published figures: a geometric mean over its cells, or None."""
    found = [point for point in points(experiment) if cells.matches(point.cell, claim.where)]
    if claim.per_doubling:
        return _compute_growth(experiment, claim, found)
    if claim.across:
        return _compute_step(experiment, claim, found)
    if claim.metric != experiment.metric.name:
        return None
    by_cell: dict[tuple[str, str], dict[str, float]] = {}
    for point in found:
        place = (point.title, cells.key(point.cell))
        by_cell.setdefault(place, {})[point.contender] = point.value
    logs = [
        _compute_log_ratio(values, claim.of, claim.over, experiment.metric.better)
        for values in by_cell.values()
        if all(name in values for name in (*claim.of, *claim.over))
    ]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _compute_growth(
    experiment: Experiment, claim: Claim, known_points: Sequence[Point]
) -> float | None:
    """The factor for each doubling of the claim's parameter: a mean over the published series."""
    by_series: dict[tuple[str, str], dict[float, dict[str, float]]] = {}
    for point in known_points:
        rest = {name: value for name, value in point.cell.items() if name != claim.per_doubling}
        series = by_series.setdefault((point.title, cells.key(rest)), {})
        series.setdefault(float(point.cell[claim.per_doubling]), {})[point.contender] = point.value
    sign = -1.0 if experiment.metric.better == "lower" else 1.0
    slopes = []
    for series in by_series.values():
        logs = {
            math.log2(x): sign * math.log(math.prod([ours, *(1 / values[n] for n in claim.over)]))
            for x, values in series.items()
            if all(name in values for name in (*claim.of, *claim.over))
            for ours in [values[claim.of[0]]]
        }
        if len(logs) > 1:
            slopes.append(np.polyfit(list(logs), list(logs.values()), 1)[0])
    return math.exp(sum(slopes) / len(slopes)) if slopes else None


def _compute_step(
    experiment: Experiment, claim: Claim, known_points: Sequence[Point]
) -> float | None:
    """The factor between two values of a parameter: a mean over the published figures of both."""
    [(name, (first, second))] = claim.across.items()
    by_rest: dict[tuple[str, str], dict[Value, dict[str, float]]] = {}
    for point in known_points:
        rest = {key: value for key, value in point.cell.items() if key != name}
        figures_of = by_rest.setdefault((point.title, cells.key(rest)), {})
        figures_of.setdefault(point.cell[name], {})[point.contender] = point.value
    wanted = (*claim.of, *claim.over)
    sign = -1.0 if experiment.metric.better == "lower" else 1.0
    logs = []
    for values in by_rest.values():
        pair = [values.get(first, {}), values.get(second, {})]
        if all(each in side for side in pair for each in wanted):
            one, two = (
                math.log(side[claim.of[0]]) - sum(math.log(side[each]) for each in claim.over)
                for side in pair
            )
            logs.append(sign * (one - two))
    return math.exp(sum(logs) / len(logs)) if logs else None


def _compute_log_ratio(
    values: dict[str, float], contenders: Sequence[str], rivals: Sequence[str], better: str
) -> float:
    ours, theirs = [values[name] for name in contenders], [values[name] for name in rivals]
    if better == "lower":
        return math.log(min(theirs) / max(ours))
    return math.log(min(ours) / max(theirs))
