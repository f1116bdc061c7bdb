# SPDX-License-Identifier: Apache-2.0
"""Verdicts: whether each claim holds on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gyrelab import cells, comparison, designs, growth, published, statistics
from gyrelab.comparison import Comparison
from gyrelab.experiments import Claim, Experiment
from gyrelab.results import Results
from gyrelab.statistics import Ratio

NARROW = 0.03  # half-width at which an undecided claim gets no more rounds
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim; `ratio` is None when nothing could be compared."""

    claim: Claim
    answer: str
    ratio: Ratio | None
    published: float | None
    note: str
    by_cost: "Verdict | None" = None  # the same claim judged by CPU time per unit of work

    @property
    def stated_amount(self) -> str:
        """The range of a claim on memory, as times as much: the inverse of the range stated."""
        if self.claim.high == float("inf"):
            return f"at most {1 / self.claim.low:.3g}"
        return f"{1 / self.claim.high:.3g} to {1 / self.claim.low:.3g}"

    @property
    def stated_range(self) -> str:
        """The range that the claim states, in words."""
        if self.claim.high == float("inf"):
            return "above 1" if self.claim.low == 1 else f"at least {self.claim.low:g}"
        return f"{self.claim.low:g} to {self.claim.high:g}"


def judge(results: Results, experiment: Experiment) -> list[Verdict]:
    """The verdicts on all of the experiment's claims."""
    return [_with_cost(results, experiment, claim) for claim in experiment.claims]


def tally(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """The number of claims in all, of those that hold, and of undecided ones."""
    answers = [each.answer for each in verdicts]
    return {"all": len(answers), "holds": answers.count(HOLDS), "open": answers.count(UNDECIDED)}


def _with_cost(results: Results, experiment: Experiment, claim: Claim) -> Verdict:
    verdict = _judge(results, experiment, claim)
    if experiment.cost is None or (claim.source, claim.metric) != ("gyre", experiment.metric.name):
        return verdict
    by_cost = _judge(results, experiment, replace(claim, metric=experiment.cost.name))
    return verdict if by_cost.ratio is None else replace(verdict, by_cost=by_cost)


def _judge(results: Results, experiment: Experiment, claim: Claim) -> Verdict:
    stated = published.ratio(experiment, claim) if claim.source == "published" else None
    judged, substitutes = _as_built(results, experiment, claim)
    missing, dead = _missing(results, experiment, judged), _dead(results, experiment, judged)
    if claim.per_doubling:
        gaps, ratios, overall = [], [], _per_doubling(results, experiment, judged)
    else:
        found, ratios, overall = _ratios(results, experiment, judged)
        gaps = found.gaps
    if overall is None:
        why = "; ".join(filter(None, (missing, dead))) or "not measured in these cells"
        return Verdict(claim, UNDECIDED, None, stated, why)
    if claim.scope == "mean":
        answer, note = within(overall, claim.low, claim.high), _side(overall, claim)
    else:
        answer, overall, note = _every_cell(ratios, claim, gaps)
    if missing and answer == HOLDS and gaps:
        answer = UNDECIDED
    growing = f"for each doubling of {claim.per_doubling}" if claim.per_doubling else ""
    notes = "; ".join(filter(None, (growing, note, substitutes, missing, dead)))
    return Verdict(claim, answer, overall, stated, notes)


def _as_built(results: Results, experiment: Experiment, claim: Claim) -> tuple[Claim, str]:
    """The claim about the programs that were built, and a note on the differences.

    A design takes the row of a library that was not built; a rival with neither is left out.
    """
    measured, absent = results.contenders(experiment.name), results.not_built(experiment.name)
    rows = {name: designs.row(experiment, name, measured) for name in (*claim.of, *claim.over)}
    kept = [rows[name] for name in claim.over if rows[name] not in absent]
    gone = [name for name in claim.over if rows[name] in absent] if kept else []
    notes = [f"{name} is measured as {row}" for name, row in rows.items() if row != name]
    if gone:
        notes.append(f"not built: {', '.join(gone)}")
    of = tuple(rows[name] for name in claim.of)
    over = tuple(kept) or tuple(rows[name] for name in claim.over)
    return replace(claim, of=of, over=over), "; ".join(notes)


def _per_doubling(results: Results, experiment: Experiment, claim: Claim) -> Ratio | None:
    """The factor by which a ratio, or without `over` a figure, grows per doubling of a parameter.

    Each round has a slope of its own, as a round's cells ran within moments of each other.
    """
    metric, name = experiment.find_metric(claim.metric), claim.per_doubling
    chosen = [cell for cell in results.cells(experiment.name) if cells.matches(cell, claim.where)]
    strata = []
    for group in growth.groups(experiment, chosen, name).values() if chosen else ():
        logs = []
        for cell in group:
            ours, *theirs = (
                results.series(experiment.name, each, cell, metric.name)
                for each in (*claim.of, *claim.over)
            )
            one = dict.fromkeys(ours, 1.0)
            logs.append(statistics.logs_by_round(ours, theirs[0] if theirs else one, metric.better))
        sizes = np.log2([float(cell[name]) for cell in group])
        rounds = sorted(set.intersection(*(set(each) for each in logs)))
        if rounds:
            slopes = [np.polyfit(sizes, [each[turn] for each in logs], 1)[0] for turn in rounds]
            strata.append(slopes)
    return statistics.ratio(strata) if strata else None


def _ratios(
    results: Results, experiment: Experiment, claim: Claim
) -> tuple[Comparison, list[tuple[cells.Cell, Ratio]], Ratio | None]:
    """The comparison that a claim is about, and its ratios as the claim states them."""
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
    ratios = [(each.cell, each.ratio) for each in found.cells]
    if found.ratio is None or claim.ratio != "value" or metric.better != "lower":
        return found, ratios, found.ratio
    turned = [(cell, ratio.inverse()) for cell, ratio in ratios]
    return found, turned, found.ratio.inverse()


def open_cells(results: Results, experiment: Experiment) -> dict[str, int]:
    """The cells, by key, in which more rounds may decide a claim, and the number of those rounds.

    A claim is left alone when its verdict is beyond doubt, or its interval narrow: then the claim
    is about a difference that rounds do not show.
    """
    found: dict[str, int] = {}
    for claim in experiment.claims:
        if claim.per_doubling:
            continue
        _, ratios, overall = _ratios(results, experiment, _as_built(results, experiment, claim)[0])
        if overall is None:
            continue
        judged = [(ratio, [cell]) for cell, ratio in ratios]
        if claim.scope == "mean":
            judged = [(overall, [cell for cell, _ in ratios])]
        answers = [within(ratio.widened(), claim.low, claim.high) for ratio, _ in judged]
        if FAILS in answers:
            continue
        for (ratio, where), answer in zip(judged, answers, strict=True):
            if answer == UNDECIDED and ratio.half_width > NARROW:
                further = max(1, ratio.rounds_for(NARROW) - ratio.rounds)
                for cell in where:
                    key = cells.key(cell)
                    found[key] = min(further, found.get(key, further))
    return found


def within(ratio: Ratio, low: float, high: float) -> str:
    """The verdict: the whole interval lies in the range, wholly outside it, or across one end."""
    if ratio.low >= low and ratio.high <= high:
        return HOLDS
    if ratio.high < low or ratio.low > high:
        return FAILS
    return UNDECIDED


# Noise refutes nothing: a cell whose interval reaches into the range leaves the claim undecided.
# The note counts the cells outside the range and the undecided ones.
def _every_cell(
    ratios: list[tuple[dict, Ratio]], claim: Claim, gaps: Sequence[str]
) -> tuple[str, Ratio, str]:
    answers = [within(ratio, claim.low, claim.high) for _, ratio in ratios]
    cell, worst = min(ratios, key=lambda each: each[1].low)
    note = f"lowest at {cells.key(cell)}"
    counts = [(answers.count(FAILS), "outside"), (answers.count(UNDECIDED), "undecided")]
    exceptions = " and ".join(f"{count} {answer}" for count, answer in counts if count)
    if exceptions:
        note = f"{note}; {exceptions} of {len(answers)} cells"
    if FAILS in answers:
        return FAILS, worst, note
    if UNDECIDED in answers or gaps:
        return UNDECIDED, worst, note
    return HOLDS, worst, note


def _side(ratio: Ratio, claim: Claim) -> str:
    if ratio.low > claim.high:
        return "above the published range" if claim.source == "published" else "above the range"
    if ratio.high < claim.low:
        return "below the published range" if claim.source == "published" else "below the range"
    return ""


def _missing(results: Results, experiment: Experiment, claim: Claim) -> str:
    absent = [
        name for name in (*claim.of, *claim.over) if name not in results.contenders(experiment.name)
    ]
    return f"not measured: {', '.join(absent)}" if absent else ""


def _dead(results: Results, experiment: Experiment, claim: Claim) -> str:
    dead = {
        run["contender"]
        for run in results.deaths(experiment.name)
        if run["contender"] in (*claim.of, *claim.over) and cells.matches(run["cell"], claim.where)
    }
    return f"{', '.join(sorted(dead))} ran out of memory" if dead else ""
