# SPDX-License-Identifier: Apache-2.0
"""The answers at the top of the report: the best contender on this machine, and its lead."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gyrelab import cells, comparison, designs, statistics
from gyrelab.cells import Filter, matches
from gyrelab.comparison import CellRatio, Comparison
from gyrelab.experiments import Contender, Experiment, Metric
from gyrelab.results import Results
from gyrelab.statistics import Ratio


@dataclass(frozen=True)
class Standing:
    """A contender's mean over cells; `ratio` is relative to its best rival."""

    contender: Contender
    mean: float
    share: float  # of the slowest contender's mean: the length of a bar
    ratio: Ratio | None
    reason: str


@dataclass(frozen=True)
class Answer:
    """The advice: the best candidate, whether it is clearly the best, and the standings of all.

    `state` is `clear`, `level` with the runner-up, or `unknown` after too few rounds. The
    alternative is the best candidate that suits another reason.
    """

    experiment: Experiment
    state: str
    best: Standing
    runner_up: Standing | None
    alternative: Standing | None
    against: list[str]
    standings: list[Standing]


# Verdicts on an experiment.
AHEAD, LEVEL, BEHIND, UNDECIDED, MISSING = "ahead", "level", "behind", "undecided", "not measured"
VERDICTS = (AHEAD, LEVEL, BEHIND, UNDECIDED, MISSING)


@dataclass(frozen=True)
class Highlight:
    """An experiment in one line: gyre's default contender against the best of another kind."""

    experiment: Experiment
    contender: Contender
    rivals: list[str]
    ratio: Ratio | None
    by_cost: Ratio | None  # by CPU time per unit of work
    variants: list[tuple[Contender, Ratio]]  # gyre's other contenders against their rivals
    not_built: tuple[str, ...] = ()  # the rivals without a program here
    by_cell: Sequence[CellRatio] = ()

    @property
    def worst_cell(self) -> tuple[str, float] | None:
        """The cell in which gyre does worst, by the parameters that vary, and its ratio.

        A mean over cells may hide it: a lead of ten times in one cell makes up for much. None for
        a single cell.
        """
        if len(self.by_cell) < 2:
            return None
        worst = min(self.by_cell, key=lambda each: each.ratio.value)
        varying = {
            name: value
            for name, value in worst.cell.items()
            if any(each.cell[name] != value for each in self.by_cell)
        }
        return cells.key(varying), worst.ratio.value

    @property
    def verdict(self) -> str:
        """The verdict by time, or by CPU time where time shows no difference and CPU time does."""
        by_time, by_cost = judge_ratio(self.ratio), judge_ratio(self.by_cost)
        if by_time == UNDECIDED and self.by_cost:
            return by_cost
        return by_cost if by_time == LEVEL and by_cost in (AHEAD, BEHIND) else by_time

    @property
    def decided(self) -> str:
        """Whether the interval decides the verdict, in words; the reason if it does not."""
        if self.ratio is None:
            return "no rival was measured"
        if self.verdict != judge_ratio(self.ratio):
            return "by CPU time"
        if self.verdict != UNDECIDED:
            return f"yes{self._opposite_cost()}"
        if math.isinf(self.ratio.half_width):
            return "no: too few rounds"
        if self.ratio.half_width > 1:
            return "no: noise"
        return f"no: ±{100 * self.ratio.half_width:.0f} %"

    def _opposite_cost(self) -> str:
        """The words for a lead in time that more CPU time pays for, or for the reverse."""
        opposite = {AHEAD: BEHIND, BEHIND: AHEAD}.get(self.verdict)
        if self.by_cost is None or judge_ratio(self.by_cost) != opposite:
            return ""
        return f", with {1 / self.by_cost.value:.2g} times the CPU time"

    @property
    def deciding(self) -> Ratio | None:
        """The ratio that the verdict is about."""
        return self.by_cost if self.verdict != judge_ratio(self.ratio) else self.ratio


def counts(highlights: Sequence[Highlight]) -> dict[str, int]:
    """The number of experiments with each verdict."""
    verdicts = [each.verdict for each in highlights]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def judge_ratio(ratio: Ratio | None) -> str:
    """The verdict of one ratio, where above 1 is better."""
    if ratio is None:
        return MISSING
    if ratio.differs:
        return AHEAD if ratio.low > 1 else BEHIND
    return LEVEL if ratio.level else UNDECIDED


def compute_means(
    results: Results, experiment: Experiment, restriction: Filter
) -> dict[str, float]:
    """The geometric mean of medians over the cells, of each contender measured in all of them."""
    chosen = [cell for cell in results.cells(experiment.name) if matches(cell, restriction)]
    found = {}
    for name in results.contenders(experiment.name):
        series = [results.series(experiment.name, name, c, experiment.metric.name) for c in chosen]
        if series and all(series):
            logs = [math.log(statistics.median(list(each.values()))) for each in series]
            found[name] = math.exp(sum(logs) / len(logs))
    return found


def advice(measured: list[tuple[Experiment, Results]]) -> Answer | None:
    """The answer of the first measured experiment whose experiment.toml has an [advice] table."""
    for experiment, results in measured:
        answer = _advise(experiment, results)
        if answer is not None:
            return answer
    return None


def _advise(experiment: Experiment, results: Results) -> Answer | None:
    advice = experiment.advice
    if advice is None:
        return None
    mean = compute_means(results, experiment, advice.where)
    candidates = [name for name in advice.candidates if name in mean]
    against = [name for name in advice.against if name in mean]
    if not candidates or not against:
        return None
    better = min if experiment.metric.better == "lower" else max
    longest = max(mean.values())

    def make_standing(name: str) -> Standing:
        others = [each for each in against if each != name]
        found = comparison.compare(
            results, experiment.name, experiment.metric, [name], others, advice.where
        )
        reason = advice.reasons.get(name, "")
        return Standing(
            experiment.contender(name), mean[name], mean[name] / longest, found.ratio, reason
        )

    order = sorted(mean, key=lambda name: mean[name], reverse=experiment.metric.better == "higher")
    standings = [make_standing(name) for name in order]
    best = better(candidates, key=lambda name: mean[name])
    rest = [name for name in candidates if name != best]
    duel = comparison.compare(
        results, experiment.name, experiment.metric, [best], rest, advice.where
    )
    by_name = {each.contender.name: each for each in standings}
    ranked = [by_name[name] for name in order if name in rest]
    others = [each for each in ranked if each.reason != by_name[best].reason]
    return Answer(
        experiment,
        _describe_state(duel.ratio),
        by_name[best],
        ranked[0] if ranked else None,
        others[0] if others else None,
        [experiment.contender(name).label for name in against if name != best],
        standings,
    )


def _describe_state(duel: Ratio | None) -> str:
    if duel is None:
        return "clear"
    if math.isinf(duel.high):
        return "unknown"
    return "clear" if duel.differs else "level"


def highlight(experiment: Experiment, results: Results) -> Highlight:
    """gyre's default contender, the first of [highlight], against the best of all its peers."""
    names = results.contenders(experiment.name)

    def measured_rivals(name: str) -> list[str]:
        rows = (designs.find_row(experiment, each, names) for each in experiment.rivals(name))
        return [each for each in dict.fromkeys(rows) if each in names]

    def against_peers(name: str, metric: Metric | None) -> Comparison:
        if metric is None or name not in names:
            return Comparison(None)
        rivals = measured_rivals(name)
        return comparison.compare(results, experiment.name, metric, [name], rivals)

    default, *others = experiment.contest.of
    variants = [(name, against_peers(name, experiment.metric).ratio) for name in others]
    found = against_peers(default, experiment.metric)
    absent = results.not_built(experiment.name)
    return Highlight(
        experiment,
        experiment.contender(default),
        [experiment.contender(name).label for name in measured_rivals(default)],
        found.ratio,
        against_peers(default, experiment.cost).ratio,
        [(experiment.contender(name), ratio) for name, ratio in variants if ratio is not None],
        tuple(
            experiment.contender(name).label
            for name in experiment.rivals(default)
            if name in absent and experiment.contender(name).stands_for is None
        ),
        found.cells,
    )
