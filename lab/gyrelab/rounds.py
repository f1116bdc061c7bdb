# SPDX-License-Identifier: Apache-2.0
"""Sequential sampling: adds rounds to the cells that the first rounds leave open, within a budget.

docs/lab/statistics.md states the stopping rule and why it keeps the intervals' confidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gyrelab import cells, claims, statistics
from gyrelab.planning import Block, Part, Place
from gyrelab.results import Results
from gyrelab.statistics import NARROW, Ratio

STEP = 3  # rounds between two looks at a cell
MOST = 41  # rounds of a cell: one that needs more is too noisy for this machine
PUBLISHED, NOTHING, OURS, TIME = range(4)  # ranks of a Need
_SOURCES = ("published", "gyre")


@dataclass(frozen=True)
class Need:
    """Why a cell is open, most urgent first, and the further rounds that its nearest ratio needs."""

    # 0: a published claim; 1: neither time nor CPU time decides the ratio to the nearest rival;
    # 2: a claim of gyre's; 3: CPU time decides that ratio, time does not
    rank: int
    rounds: int


@dataclass(frozen=True)
class FirstLook:
    """An experiment after its first rounds, and the contenders of its open claims by the cell's key."""

    results: Results
    contenders: dict[str, set[str]]

    @classmethod
    def at(cls, results: Results, part: Part) -> "FirstLook":
        """The look at the results of an experiment's first rounds."""
        found: dict[str, set[str]] = {}
        for source in _SOURCES:
            open_there = claims.find_open_contenders(results, part.experiment, source)
            for key, names in open_there.items():
                found.setdefault(key, set()).update(names)
        return cls(results, found)

    def names_in(self, part: Part, place: Place) -> set[str]:
        """The contenders of the cell of which a claim or the ratio to the best rival is open."""
        names = set(self.contenders.get(cells.key(place.cell), ()))
        default = part.experiment.contest.of[0]
        if names and all(each.name != default for each in place.contestants):
            return names  # ratios to the baseline decide nothing
        for one, other in _list_pairs(self.results, part, place):
            if _judge_pair(self.results, part, place, one, other) is not None:
                names.update((one, *_list_possible_bests(self.results, part, place, other)))
        return names


class Sampling:
    """Chooses the next rounds from the runs so far, after every STEP rounds of a cell.

    Rounds that an interruption cut short are completed before the next look.
    The budget of all parts together is what every cell's `budget_rounds` would have taken.
    """

    def __init__(self, parts: Sequence[Part], document: dict[str, Any]) -> None:
        self._parts = [part for part in parts if part.budget_rounds]
        self._document = document
        self._needs: dict[tuple[str, str, int], Need | None] = {}
        self._claimed: dict[tuple[str, str, tuple[int, ...]], dict[str, int]] = {}
        self._places: dict[tuple[str, str], Place] = {}
        self._first: dict[str, FirstLook] = {}
        self.seconds_left = 0.0  # of the budget, after the rounds that next() chose

    def next(self) -> list[Block]:
        """The rounds to add before the next look; none when all cells are settled or time is up."""
        if not self._parts:
            return []
        results = Results(self._document)
        if begun := [
            block
            for part in self._parts
            for place in part.places
            if (block := _find_rest_of_block(results, part, self._choose_contestants(part, place)))
            is not None
        ]:
            return begun
        open_cells, left = [], 0.0
        for part in self._parts:
            further = [self._choose_contestants(part, place) for place in part.places]
            done = [_count_rounds(results, part, place) for place in further]
            claimed = [self._find_claims(results, part, source, tuple(done)) for source in _SOURCES]
            for place, rest, rounds in zip(part.places, further, done, strict=True):
                seconds = _average_round_seconds(results, part, rest)
                left += (part.budget_rounds - part.rounds) * _average_round_seconds(
                    results, part, place
                )
                left -= (rounds - part.rounds) * seconds
                need = self._find_need(results, part, place, rest, rounds, claimed)
                if need is not None and rounds < MOST:
                    order = (need.rank, need.rounds * seconds)
                    block = Block(part, rest, rounds + 1, rounds + STEP)
                    open_cells.append((order, seconds * STEP, block))
        chosen = []
        share = left / 4  # of the budget, so that later looks can change the choice
        for _, seconds, block in sorted(open_cells, key=lambda each: each[0]):
            if seconds <= (left if not chosen else share):
                chosen.append(block)
                left -= seconds
                share -= seconds
        self.seconds_left = max(0.0, left)
        return chosen

    def _choose_contestants(self, part: Part, place: Place) -> Place:
        """The cell and the programs that take part in its further rounds.

        They are the contenders about which the first rounds leave something open there: the others
        would take most of the time. The first rounds alone decide, so that a measurement that was
        interrupted chooses the same ones. Where nothing is open all take part, as rounds of other
        cells may open a claim on a mean.
        """
        key = (part.experiment.name, cells.key(place.cell))
        if key not in self._places:
            names = self._look_at_first_rounds(part).names_in(part, place)
            kept = tuple(each for each in place.contestants if each.name in names)
            self._places[key] = replace(place, contestants=kept) if kept else place
        return self._places[key]

    def _look_at_first_rounds(self, part: Part) -> "FirstLook":
        name = part.experiment.name
        if name not in self._first:
            runs = [run for run in self._document["runs"] if run["round"] <= part.rounds]
            self._first[name] = FirstLook.at(Results({**self._document, "runs": runs}), part)
        return self._first[name]

    def _find_need(
        self,
        results: Results,
        part: Part,
        place: Place,
        rest: Place,
        done: int,
        claimed: list[dict[str, int]],
    ) -> Need | None:
        key = (part.experiment.name, cells.key(place.cell), done)
        if key not in self._needs:
            self._needs[key] = _find_noise(results, part, place, rest)
        found = [self._needs[key]] if self._needs[key] is not None else []
        for rank, further in zip((PUBLISHED, OURS), claimed, strict=True):
            if key[1] in further:
                found.append(Need(rank, further[key[1]]))
        return min(found, key=lambda need: need.rank, default=None)

    def _find_claims(
        self, results: Results, part: Part, source: str, done: tuple[int, ...]
    ) -> dict[str, int]:
        key = (part.experiment.name, source, done)
        if key not in self._claimed:
            self._claimed[key] = claims.find_open_cells(results, part.experiment, source)
        return self._claimed[key]


def is_open(ratio: Ratio) -> bool:
    """Whether more rounds are wanted: the ratio is not narrow, nor beyond doubt on one side of 1."""
    return ratio.half_width > NARROW and not ratio.widened().differs


def _find_noise(
    results: Results, part: Part, place: Place, rest: Place | None = None
) -> Need | None:
    """The need of the cell's open ratios, of which both programs are among those of `rest`."""
    names = {each.name for each in (rest or place).contestants}
    needs = [
        need
        for pair in _list_pairs(results, part, place)
        if names.issuperset(pair)
        if (need := _judge_pair(results, part, place, *pair)) is not None
    ]
    return min(needs, key=lambda need: (need.rank, need.rounds), default=None)


def _judge_pair(results: Results, part: Part, place: Place, one: str, other: str) -> Need | None:
    """The need of the ratio between two contenders of a cell; None where it is not open."""
    experiment = part.experiment
    metrics = [experiment.metric, *([experiment.cost] if experiment.cost else [])]
    ratios = [
        statistics.ratio([logs])
        for metric in metrics
        if (logs := results.log_ratios(experiment, one, place.cell, metric, other))
    ]
    if not ratios or not is_open(ratios[0]):
        return None
    by_cost = len(ratios) > 1 and not is_open(ratios[1])
    nearest = min(ratio.rounds_to_settle(1, 1) for ratio in ratios)
    return Need(TIME if by_cost else NOTHING, nearest)


def _list_possible_bests(results: Results, part: Part, place: Place, best: str) -> list[str]:
    """The best rival, and those of which the rounds do not show beyond doubt that they are worse.

    To continue with the best one alone would favour gyre: the first rounds flatter the best of
    several rivals.
    """
    experiment = part.experiment
    rivals = experiment.rivals(experiment.contest.of[0])
    if best not in rivals:
        return [best]
    found = [best]
    for each in place.contestants:
        if each.name == best or each.name not in rivals:
            continue
        logs = results.log_ratios(experiment, best, place.cell, experiment.metric, each.name)
        if not logs or statistics.ratio([logs]).widened().low <= 1:
            found.append(each.name)
    return found


def _list_pairs(results: Results, part: Part, place: Place) -> list[tuple[str, str]]:
    """gyre's default contender and its best rival in the cell; without them all and the baseline."""
    experiment = part.experiment
    names = [each.name for each in place.contestants]
    default, metric = experiment.contest.of[0], experiment.metric
    rivals = experiment.rivals(default)
    medians = {
        name: statistics.median(list(series.values()))
        for name in names
        if name in rivals
        if (series := results.series(experiment.name, name, place.cell, metric.name))
    }
    if default in names and medians:
        best = (min if metric.better == "lower" else max)(medians, key=lambda name: medians[name])
        return [(default, best)]
    base = experiment.baseline
    return [(name, base) for name in names if name != base] if base in names else []


def _count_rounds(results: Results, part: Part, place: Place) -> int:
    """The number of rounds that every program of the cell has completed."""
    name = part.experiment.name
    rounds = [
        {run["round"] for run in results.runs(name, each.name, place.cell)}
        for each in place.contestants
    ]
    done = 0
    while all(done + 1 in each for each in rounds):
        done += 1
    return done


def _find_rest_of_block(results: Results, part: Part, place: Place) -> Block | None:
    """The rest of the rounds between two looks, when some of them are there."""
    done = _count_rounds(results, part, place)
    last = max(
        (
            run["round"]
            for each in place.contestants
            for run in results.runs(part.experiment.name, each.name, place.cell)
        ),
        default=0,
    )
    steps = -(-(last - part.rounds) // STEP)
    end = part.rounds + steps * STEP
    return Block(part, place, done + 1, end) if part.rounds <= done < end else None


def _average_round_seconds(results: Results, part: Part, place: Place) -> float:
    """The mean duration of a round of the cell."""
    total = 0.0
    for each in place.contestants:
        runs = results.runs(part.experiment.name, each.name, place.cell)
        total += sum(run["wall_seconds"] for run in runs) / max(1, len(runs))
    return total
