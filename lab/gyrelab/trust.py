# SPDX-License-Identifier: Apache-2.0
"""The lab's self-test on real contenders: false alarms, a known handicap, lost and repeated tasks."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from gyrelab import comparison, journal, program, runner, statistics
from gyrelab.cells import Value, key
from gyrelab.errors import LabError
from gyrelab.experiments import Experiment
from gyrelab.program import Contestant
from gyrelab.results import Results
from gyrelab.runner import Part, Place, Watcher

HANDICAP = 10  # percent
FALSE_ALARMS = 1 - statistics.CONFIDENCE
_COPIES = 4
_PAIRS = ((0, 1), (2, 3))


@dataclass(frozen=True)
class Size:
    """How much the self-test measures."""

    contenders: int
    producers: tuple[int, ...]
    tasks: int  # in all
    relabellings: int


SMALL = Size(contenders=1, producers=(1, 2, 4), tasks=200_000, relabellings=60)
FULL = Size(contenders=3, producers=(1, 2, 4, 6, 8, 12, 16, 20), tasks=1_000_000, relabellings=150)


@dataclass(frozen=True)
class Trial:
    """One thing the lab must be able to do, and whether it did."""

    title: str
    passed: bool
    found: str


def subjects(experiment: Experiment, build: Path, size: Size) -> list[str]:
    """The contenders that play themselves: those of them that are built, as many as asked for."""
    preferred = ("gyre_fifo", "mutex", "gyre_sharded")
    built = [name for name in preferred if experiment.program(name, build).exists()]
    if not built:
        raise LabError(
            f"none of {', '.join(preferred)} of {experiment.name} is built in {build}/lab"
        )
    return built[: size.contenders]


def false_alarms(
    experiment: Experiment, build: Path, size: Size, folder: Path, watcher: Watcher
) -> Trial:
    """A against A: copies of one program must differ in no more cells than the level allows."""
    names = subjects(experiment, build, size)
    parts = [_part(experiment, size, [_copies(experiment, build, name) for name in names])]
    results = _measure(parts, folder / "same.json", "A against A", watcher)
    alarms, comparisons, relabelled = 0, 0, []
    generator = np.random.default_rng(7)
    for name, cell in itertools.product(names, _cells(size)):
        copies = [f"{name}#{n}" for n in range(1, _COPIES + 1)]
        logs = _logs(results, experiment, copies, cell)
        for one, two in _PAIRS:
            comparisons += 1
            alarms += statistics.ratio([logs[:, one] - logs[:, two]]).differs
        for _ in range(size.relabellings):
            shuffled = generator.permuted(logs, axis=1)
            for one, two in _PAIRS:
                relabelled.append(statistics.ratio([shuffled[:, one] - shuffled[:, two]]).differs)
    allowed = int(stats.binom.ppf(0.99, comparisons, FALSE_ALARMS))
    rate = float(np.mean(relabelled))
    return Trial(
        "A against A",
        alarms <= allowed and rate <= FALSE_ALARMS * (1 if size is FULL else 1.5),
        f"{alarms} of {comparisons} cells differ ({allowed} would be within chance); "
        f"{rate:.1%} over {len(relabelled):,} random relabellings of the same runs",
    )


def handicap(
    experiment: Experiment, build: Path, size: Size, folder: Path, watcher: Watcher
) -> Trial:
    """A against itself slowed on purpose: the lab must see it with the full grid's rounds."""
    name = subjects(experiment, build, size)[0]
    file = experiment.program(name, build)
    slowed = f"{name}#slowed"
    pair = [Contestant(name, file), Contestant(slowed, file, ("--handicap", str(HANDICAP)))]
    results = _measure(
        [_part(experiment, size, [pair])], folder / "slowed.json", "handicap", watcher
    )
    found = comparison.compare(results, experiment.name, experiment.metric, [name], [slowed])
    if found.ratio is None:
        return Trial(f"{HANDICAP} % handicap", False, "; ".join(found.gaps[:2]))
    seen = sum(each.ratio.low > 1 for each in found.cells)
    return Trial(
        f"{HANDICAP} % handicap",
        found.ratio.low > 1,
        f"{name} is {found.ratio.value:.3f} ({found.ratio.low:.3f} to {found.ratio.high:.3f}) times as fast "
        f"as itself slowed; seen in {seen} of {len(found.cells)} cells by themselves",
    )


def sabotage(experiments: Sequence[Experiment], build: Path, tell: Callable[[str], None]) -> Trial:
    """Every contender that loses or repeats a task must be caught by its own check."""
    escaped, caught = [], 0
    for experiment in experiments:
        for contender in experiment.contenders:
            file = experiment.program(contender.name, build)
            cell = next((c for c in experiment.grids["smoke"].cells if contender.runs_in(c)), None)
            if not file.exists() or cell is None:
                continue
            for wrong in ("lose", "duplicate"):
                tell(f"{experiment.name}/{contender.name} {wrong}")
                run = Contestant(contender.name, file, ("--sabotage", wrong))
                outcome = program.run(
                    run, experiment.name, cell, timeout_seconds=experiment.timeout_seconds
                )
                if outcome.status == "failed":
                    caught += 1
                else:
                    reason = f": {outcome.reason}" if outcome.reason else ""
                    escaped.append(
                        f"{experiment.name}/{contender.name} {wrong} is {outcome.status}{reason}"
                    )
    title = "lost and repeated tasks"
    if escaped:
        return Trial(title, False, f"{len(escaped)} escaped: {'; '.join(escaped[:4])}")
    return Trial(title, caught > 0, f"all {caught} caught")


def _copies(experiment: Experiment, build: Path, name: str) -> list[Contestant]:
    file = experiment.program(name, build)
    return [Contestant(f"{name}#{n}", file) for n in range(1, _COPIES + 1)]


def _cells(size: Size) -> list[dict[str, Value]]:
    return [
        {"producers": producers, "tasks": size.tasks // producers, "wakeup": "coalesced"}
        for producers in size.producers
    ]


def _part(experiment: Experiment, size: Size, groups: list[list[Contestant]]) -> Part:
    contestants = tuple(itertools.chain.from_iterable(groups))
    places = tuple(Place(cell, contestants) for cell in _cells(size))
    return Part(experiment, experiment.grids["full"].rounds, 1, places)


def _measure(parts: list[Part], out: Path, name: str, watcher: Watcher) -> Results:
    record = journal.Journal(out, runner.new_document(name, parts, seed=1))
    results = runner.measure(parts, record, watcher)
    failures = [run for part in parts for run in results.failures(part.experiment.name)]
    if failures:
        first = failures[0]
        raise LabError(
            f"{first['contender']} at {key(first['cell'])}: {first['status']}: {first['reason']}"
        )
    return results


def _logs(
    results: Results, experiment: Experiment, copies: list[str], cell: dict[str, Value]
) -> np.ndarray:
    """Logarithms of the figures: a row a round, a column a copy."""
    metric = experiment.metric.name
    columns = [results.series(experiment.name, copy, cell, metric) for copy in copies]
    rounds = sorted(columns[0])
    return np.array([[math.log(column[turn]) for column in columns] for turn in rounds])
