# SPDX-License-Identifier: Apache-2.0
"""Verdicts: whether each claim holds on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gyrelab import cells, claim_ratios, designs, published
from gyrelab.claim_ratios import Found
from gyrelab.experiments import Claim, Experiment
from gyrelab.results import Results
from gyrelab.statistics import NARROW, Ratio

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
PARTLY = "holds for those built"  # not every rival that the claim names was measured


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim; `ratio` is None when nothing could be compared."""

    claim: Claim
    answer: str
    ratio: Ratio | None
    published: float | None
    note: str
    by_cost: "Verdict | None" = None  # the same claim judged by CPU time per unit of work
    judged_on: str = ""  # designs measured instead of libraries, and other settings

    @property
    def decisive(self) -> "Verdict":
        """The verdict by CPU time where that decides a published claim and time does not."""
        by_cost = self.by_cost
        if self.claim.source != "published" or by_cost is None or self.answer != UNDECIDED:
            return self
        return self if by_cost.answer == UNDECIDED else by_cost

    @property
    def stated_amount(self) -> str:
        """The range of a claim on memory, as times as much: the inverse of the range stated."""
        if self.claim.high == float("inf"):
            return f"at most {1 / self.claim.low:.3g}"
        return f"{1 / self.claim.high:.3g} to {1 / self.claim.low:.3g}"

    @property
    def stated_range(self) -> str:
        """The range that the claim states, in words."""
        unit = " %" if self.claim.share_of else ""
        if self.claim.low == 0:
            return f"at most {self.claim.high:g}{unit}"
        if self.claim.high == float("inf"):
            return "above 1" if self.claim.low == 1 else f"at least {self.claim.low:g}{unit}"
        return f"{self.claim.low:g} to {self.claim.high:g}{unit}"


def judge(results: Results, experiment: Experiment) -> list[Verdict]:
    """The verdicts on all of the experiment's claims."""
    return [_with_cost(results, experiment, claim) for claim in experiment.claims]


def count_answers(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """The number of claims in all, of those that hold, also in part, and of undecided ones."""
    answers = [each.decisive.answer for each in verdicts]
    return {
        "all": len(answers),
        "holds": answers.count(HOLDS),
        "partly": answers.count(PARTLY),
        "open": answers.count(UNDECIDED),
    }


def _with_cost(results: Results, experiment: Experiment, claim: Claim) -> Verdict:
    verdict = _judge(results, experiment, claim)
    if experiment.cost is None or claim.metric != experiment.metric.name or not claim.over:
        return verdict
    by_cost = _judge(results, experiment, replace(claim, metric=experiment.cost.name))
    return verdict if by_cost.ratio is None else replace(verdict, by_cost=by_cost)


def _judge(results: Results, experiment: Experiment, claim: Claim) -> Verdict:
    stated = published.ratio(experiment, claim) if claim.source == "published" else None
    judged, judged_on, gone = _adapt_to_measured(results, experiment, claim)
    missing, dead = (
        _describe_unmeasured(results, experiment, judged),
        _describe_deaths(results, experiment, judged),
    )
    found = claim_ratios.measure(results, experiment, judged)
    if found.overall is None:
        why = "; ".join(filter(None, (missing, dead))) or "not measured in these cells"
        return Verdict(claim, UNDECIDED, None, stated, why, judged_on=judged_on)
    overall = found.overall
    if claim.scope == "mean":
        answer, note = judge_range(overall, claim.low, claim.high), _describe_mean(found, claim)
    else:
        answer, overall, note = _judge_every_cell(found.by_cell, claim, found.gaps)
    if answer == UNDECIDED and _is_level(overall, claim, stated):
        answer, note = FAILS, "level, within 5 %"
    if answer == HOLDS and missing and found.gaps:
        answer = UNDECIDED
    if answer == HOLDS and claim.source == "gyre" and (gone or judged_on):
        answer = PARTLY
    growing = f"for each doubling of {claim.per_doubling}" if claim.per_doubling else ""
    without = f"not built: {', '.join(gone)}" if gone else ""
    notes = "; ".join(filter(None, (growing, note, without, missing, dead)))
    return Verdict(claim, answer, overall, stated, notes, judged_on=judged_on)


def _is_level(ratio: Ratio, claim: Claim, stated: float | None) -> bool:
    """Whether a report claims a lead or a growth, and the interval has none of 5 %, nor that of its
    figures."""
    claims_lead = claim.source == "published" and (claim.low, claim.high) == (1, float("inf"))
    return claims_lead and ratio.level and (stated or 2) > ratio.high


def _adapt_to_measured(
    results: Results, experiment: Experiment, claim: Claim
) -> tuple[Claim, str, list[str]]:
    """The claim about what was measured, a note on how that differs, and the rivals left out."""
    judged, substitutes, gone = _adapt_to_built(results, experiment, claim)
    judged, elsewhere = claim_ratios.prefer_measured_cells(results, experiment, judged)
    if claim.otherwise and claim_ratios.measure(results, experiment, judged).overall is None:
        of, over = (tuple(claim.otherwise.get(n, n) for n in g) for g in (claim.of, claim.over))
        other = replace(claim, of=of, over=over, otherwise={})
        judged, note, gone = _adapt_to_measured(results, experiment, other)
        instead = ", ".join((*of, *over))
        return judged, "; ".join(filter(None, (f"measured: {instead}", note))), gone
    return judged, "; ".join(filter(None, (substitutes, elsewhere))), gone


def _adapt_to_built(
    results: Results, experiment: Experiment, claim: Claim
) -> tuple[Claim, str, list[str]]:
    """The claim about the programs that were built, a note on designs, and the rivals left out.

    A design takes the row of a library that was not built; a rival with neither is left out.
    """
    measured, absent = results.contenders(experiment.name), results.not_built(experiment.name)
    rows = {name: designs.find_row(experiment, name, measured) for name in (*claim.of, *claim.over)}
    kept = [rows[name] for name in claim.over if rows[name] not in absent]
    gone = [name for name in claim.over if rows[name] in absent] if kept else []
    stand_ins = [experiment.contender(row).label for name, row in rows.items() if row != name]
    note = "; ".join(f"{label}, not the library" for label in stand_ins)
    of = tuple(rows[name] for name in claim.of)
    over = tuple(kept) or tuple(rows[name] for name in claim.over)
    return replace(claim, of=of, over=over), note, gone


def find_open_cells(results: Results, experiment: Experiment, source: str) -> dict[str, int]:
    """The cells, by key, in which more rounds may decide claims, and those rounds for each claim.

    A claim is left alone when its verdict is beyond doubt, or its interval narrow: then the claim
    is about a difference that rounds do not show. CPU time decides published claims, too.
    """
    found: dict[str, list[int]] = {}
    for claim in experiment.claims:
        if claim.source != source or claim.share_of:
            continue
        judged, _, _ = _adapt_to_measured(results, experiment, claim)
        for key, further in _find_undecided_cells(results, experiment, judged).items():
            found.setdefault(key, []).append(further)
    return {key: -(-min(further) // len(further)) for key, further in found.items()}


def find_open_contenders(
    results: Results, experiment: Experiment, source: str
) -> dict[str, set[str]]:
    """The contenders of the claims that are open in a cell, by the cell's key."""
    found: dict[str, set[str]] = {}
    for claim in experiment.claims:
        if claim.source != source or claim.share_of:
            continue
        judged, _, _ = _adapt_to_measured(results, experiment, claim)
        for key in _find_undecided_cells(results, experiment, judged):
            found.setdefault(key, set()).update((*judged.of, *judged.over))
    return found


def _find_undecided_cells(results: Results, experiment: Experiment, claim: Claim) -> dict[str, int]:
    found = _count_further_rounds(claim, claim_ratios.measure(results, experiment, claim))
    has_cost = experiment.cost is not None and claim.metric == experiment.metric.name
    if not found or claim.source != "published" or not has_cost or not claim.over:
        return found
    by_cost = replace(claim, metric=experiment.cost.name)
    measured = claim_ratios.measure(results, experiment, by_cost)
    return found if measured.overall is None else _count_further_rounds(by_cost, measured) and found


def _count_further_rounds(claim: Claim, figures: Found) -> dict[str, int]:
    if figures.overall is None:
        return {}
    judged = [(ratio, [cell]) for cell, ratio in figures.by_cell]
    if claim.scope == "mean":
        judged = [(figures.overall, _select_noisiest(figures))]
    answers = [judge_range(ratio.widened(), claim.low, claim.high) for ratio, _ in judged]
    if FAILS in answers:
        return {}
    rounds: dict[str, int] = {}
    for (ratio, where), answer in zip(judged, answers, strict=True):
        if answer == UNDECIDED and ratio.half_width > NARROW:
            further = ratio.rounds_to_settle(claim.low, claim.high)
            for cell in where:
                rounds[cells.key(cell)] = further
    return rounds


def _select_noisiest(figures: Found) -> Sequence[cells.Cell]:
    """The cells whose noise makes the interval of a mean as wide as it is; all if not known."""
    widths = [(cell, ratio.half_width) for cell, ratio in figures.by_cell]
    widest = max((width for _, width in widths), default=0.0)
    return [cell for cell, width in widths if 2 * width >= widest] or figures.where


def judge_range(ratio: Ratio, low: float, high: float) -> str:
    """The verdict: the whole interval lies in the range, wholly outside it, or across one end."""
    if ratio.low >= low and ratio.high <= high:
        return HOLDS
    if ratio.high < low or ratio.low > high:
        return FAILS
    return UNDECIDED


# Noise refutes nothing: a cell whose interval reaches into the range leaves the claim undecided.
# The note counts the cells outside the range and the undecided ones.
def _judge_every_cell(
    ratios: Sequence[tuple[cells.Cell, Ratio]], claim: Claim, gaps: Sequence[str]
) -> tuple[str, Ratio, str]:
    answers = [judge_range(ratio, claim.low, claim.high) for _, ratio in ratios]
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


def _describe_mean(found: Found, claim: Claim) -> str:
    """The side on which a mean lies outside the range and, for gyre's, the cell that it hides."""
    assert found.overall is not None
    side = _describe_side(found.overall, claim)
    if claim.source != "gyre" or len(found.by_cell) < 2:
        return side
    cell, worst = min(found.by_cell, key=lambda each: each[1].value)
    hidden = f"mean of {len(found.by_cell)} cells, {worst.value:.2f} at {cells.key(cell)}"
    return "; ".join(filter(None, (side, hidden)))


def _describe_side(ratio: Ratio, claim: Claim) -> str:
    if ratio.low > claim.high:
        return "above the published range" if claim.source == "published" else "above the range"
    if ratio.high < claim.low:
        return "below the published range" if claim.source == "published" else "below the range"
    return ""


def _describe_unmeasured(results: Results, experiment: Experiment, claim: Claim) -> str:
    absent = [
        name for name in (*claim.of, *claim.over) if name not in results.contenders(experiment.name)
    ]
    return f"not measured: {', '.join(absent)}" if absent else ""


def _describe_deaths(results: Results, experiment: Experiment, claim: Claim) -> str:
    dead = {
        run["contender"]
        for run in results.deaths(experiment.name)
        if run["contender"] in (*claim.of, *claim.over) and cells.matches(run["cell"], claim.where)
    }
    return f"{', '.join(sorted(dead))} ran out of memory" if dead else ""
