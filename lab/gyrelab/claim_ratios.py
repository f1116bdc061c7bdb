# SPDX-License-Identifier: Apache-2.0
"""The figures that a claim is about: a ratio in each cell and over them, or one of its other forms."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from gyrelab import cells, comparison, growth, statistics
from gyrelab.cells import Cell
from gyrelab.experiments import Claim, Experiment
from gyrelab.results import Results
from gyrelab.statistics import Ratio


@dataclass(frozen=True)
class Found:
    """The ratio over all cells (None: nothing to compare), that of each cell, and missing figures.

    Only a claim about plain ratios has ratios of single cells; `where` has the cells of all others.
    """

    overall: Ratio | None
    by_cell: list[tuple[Cell, Ratio]] = field(default_factory=list)
    where: list[Cell] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


def measure(results: Results, experiment: Experiment, claim: Claim) -> Found:
    """The figures of the claim, whose contenders are those that were measured."""
    if claim.share_of:
        return _measure_share(results, experiment, claim)
    if claim.per_doubling:
        return _measure_growth(results, experiment, claim)
    if claim.across:
        return _measure_step(results, experiment, claim)
    return _measure_ratio(results, experiment, claim)


def prefer_measured_cells(
    results: Results, experiment: Experiment, claim: Claim
) -> tuple[Claim, str]:
    """The claim about the cells it prefers; where those were not measured, a note on the others."""
    if not claim.prefer:
        return claim, ""
    there = [each for each in results.cells(experiment.name) if cells.matches(each, claim.where)]
    notes, where = [], dict(claim.where)
    for name, values in claim.prefer.items():
        if any(each[name] in values for each in there):
            where[name] = values
            continue
        measured = dict.fromkeys(str(each[name]) for each in there)
        if measured:
            wanted = " or ".join(map(str, values))
            notes.append(f"{name} {' and '.join(measured)}, not {wanted}")
    return replace(claim, where=where), "; ".join(notes)


def _measure_ratio(results: Results, experiment: Experiment, claim: Claim) -> Found:
    metric = experiment.find_metric(claim.metric)
    rows = {each.name: each for each in experiment.contenders}
    found = comparison.compare(
        results,
        experiment.name,
        metric,
        claim.of,
        claim.over,
        claim.where,
        lambda name, cell: rows[name].runs_in(cell),
    )
    by_cell = [(each.cell, each.ratio) for each in found.cells]
    overall = found.ratio
    if overall is not None and claim.ratio == "value" and metric.better == "lower":
        by_cell = [(cell, ratio.inverse()) for cell, ratio in by_cell]
        overall = overall.inverse()
    return Found(overall, by_cell, [cell for cell, _ in by_cell], found.gaps)


def _select_cells(results: Results, experiment: Experiment, claim: Claim) -> list[Cell]:
    """The cells of the claim in which all of its contenders take part."""
    return [
        cell
        for cell in results.cells(experiment.name)
        if cells.matches(cell, claim.where)
        if all(results.runs(experiment.name, name, cell) for name in (*claim.of, *claim.over))
    ]


def _make_log_reader(
    results: Results, experiment: Experiment, claim: Claim
) -> Callable[[Cell], dict[int, float]]:
    """A function: the logarithms in a cell by round, of a ratio or, without `over`, of a figure."""
    metric = experiment.find_metric(claim.metric)

    def of_cell(cell: Cell) -> dict[int, float]:
        ours, *theirs = (
            results.series(experiment.name, each, cell, metric.name)
            for each in (*claim.of, *claim.over)
        )
        one = dict.fromkeys(ours, 1.0)
        return statistics.logs_by_round(ours, theirs[0] if theirs else one, metric.better)

    return of_cell


def _measure_growth(results: Results, experiment: Experiment, claim: Claim) -> Found:
    """The factor by which a ratio, or a figure, grows per doubling of a parameter.

    Each round has a slope of its own, as a round's cells ran within moments of each other.
    """
    name, logs_of = claim.per_doubling, _make_log_reader(results, experiment, claim)
    chosen = _select_cells(results, experiment, claim)
    assert name is not None
    strata, where = [], []
    for group in growth.group_cells(experiment, chosen, name).values() if chosen else ():
        logs = [logs_of(cell) for cell in group]
        sizes = np.log2([float(cell[name]) for cell in group])
        rounds = sorted(set.intersection(*(set(each) for each in logs)))
        if rounds:
            slopes = [np.polyfit(sizes, [each[turn] for each in logs], 1)[0] for turn in rounds]
            strata.append(slopes)
            where += group
    return Found(statistics.ratio(strata) if strata else None, where=where)


def _measure_step(results: Results, experiment: Experiment, claim: Claim) -> Found:
    """A ratio, or a figure, at one value of a parameter relative to that at another value."""
    [(name, (first, second))] = claim.across.items()
    logs_of = _make_log_reader(results, experiment, claim)
    groups: dict[str, dict[cells.Value, Cell]] = {}
    for cell in _select_cells(results, experiment, claim):
        rest = cells.key({key: value for key, value in cell.items() if key != name})
        groups.setdefault(rest, {})[cell[name]] = cell
    strata, where = [], []
    for group in groups.values():
        if first not in group or second not in group:
            continue
        one, two = logs_of(group[first]), logs_of(group[second])
        if rounds := sorted(one.keys() & two.keys()):
            strata.append([one[turn] - two[turn] for turn in rounds])
            where += [group[first], group[second]]
    return Found(statistics.ratio(strata) if strata else None, where=where)


def _measure_share(results: Results, experiment: Experiment, claim: Claim) -> Found:
    """The largest share, in percent, of one metric of another: its median, least and greatest."""
    assert claim.share_of is not None
    worst: Ratio | None = None
    where = []
    for cell in results.cells(experiment.name):
        for name in claim.of if cells.matches(cell, claim.where) else ():
            part = results.series(experiment.name, name, cell, claim.metric)
            whole = results.series(experiment.name, name, cell, claim.share_of)
            turns = [turn for turn in part.keys() & whole.keys() if whole[turn] > 0]
            shares = [100 * part[turn] / whole[turn] for turn in turns]
            if not shares:
                continue
            where.append(cell)
            found = Ratio(statistics.median(shares), min(shares), max(shares), len(shares))
            worst = found if worst is None or found.high > worst.high else worst
    return Found(worst, where=where)
