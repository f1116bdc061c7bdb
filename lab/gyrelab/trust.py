# SPDX-License-Identifier: Apache-2.0
"""The lab's self-test on real contenders: false alarms, a known handicap, injected faults."""

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from gyrelab import comparison, journal, program, runner, statistics
from gyrelab.cells import Value, key
from gyrelab.errors import LabError
from gyrelab.experiments import Contender, Experiment
from gyrelab.planning import Part, Place
from gyrelab.program import Contestant, Outcome
from gyrelab.results import Results
from gyrelab.runner import Watcher

HANDICAP = 10  # percent
FALSE_ALARMS = 1 - statistics.CONFIDENCE
_COPIES = 4
_ATTEMPTS = 3
_CELL_SCATTER = 0.025  # of a cell's rate of alarms over relabellings, by simulation
_PAIRS = ((0, 1), (2, 3))


@dataclass(frozen=True)
class Size:
    """The size of the self-test."""

    contenders: int  # contenders compared with themselves in A against A
    producers: tuple[int, ...]
    tasks: int  # in all
    relabellings: int
    slowed: tuple[tuple[str, str], ...]  # experiments and the contenders slowed on purpose


# A busy machine disturbs timers least, as they run on one thread.
SMALL = Size(1, (1, 2, 4), 200_000, 60, (("timers", "gyre"),))
FULL = Size(
    contenders=3,
    producers=(1, 2, 4, 6, 8, 12, 16, 20),
    tasks=1_000_000,
    relabellings=150,
    slowed=(("timers", "gyre"), ("post_task", "gyre_fifo"), ("post_task", "mutex")),
)


@dataclass(frozen=True)
class Trial:
    """One ability of the lab, and whether the test of it passed."""

    title: str
    passed: bool
    found: str


def subjects(experiment: Experiment, build: Path, size: Size) -> list[str]:
    """The contenders of A against A: the built ones, as many as `size` says."""
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
    """A against A: copies of one program may differ in no more cells than the level allows."""
    names = subjects(experiment, build, size)
    copies = tuple(copy for name in names for copy in _copies(experiment, build, name))
    parts = [_part(experiment, [Place(cell, copies) for cell in _cells(size)])]
    results = _measure(parts, folder / "same.json", "A against A", watcher)
    alarms, comparisons, relabelled = 0, 0, []
    generator = np.random.default_rng(7)
    for name, cell in itertools.product(names, _cells(size)):
        logs = _logs(results, experiment, [f"{name}#{n}" for n in range(1, _COPIES + 1)], cell)
        for one, two in _PAIRS:
            comparisons += 1
            alarms += statistics.ratio([logs[:, one] - logs[:, two]]).differs
        for _ in range(size.relabellings):
            shuffled = generator.permuted(logs, axis=1)
            for one, two in _PAIRS:
                relabelled.append(statistics.ratio([shuffled[:, one] - shuffled[:, two]]).differs)
    allowed = int(stats.binom.ppf(0.99, comparisons, FALSE_ALARMS))
    rate = float(np.mean(relabelled))
    limit = FALSE_ALARMS + 3 * _CELL_SCATTER / math.sqrt(len(names) * len(size.producers))
    return Trial(
        "A against A",
        alarms <= allowed and rate <= limit,
        f"{alarms} of {comparisons} cells differ ({allowed} would be within chance); "
        f"{rate:.1%} over {len(relabelled):,} random relabellings of the same runs "
        f"({limit:.1%} would be within chance)",
    )


def handicap(
    experiment: Experiment, contender: str, build: Path, folder: Path, watcher: Watcher
) -> Trial:
    """A against itself slowed on purpose: the full grid's rounds must show the handicap.

    A machine too noisy to tell, which says nothing about the lab, is measured again.
    """
    title = f"{HANDICAP} % handicap of {experiment.name}/{contender}"
    file = experiment.program(contender, build)
    if not file.exists():
        raise LabError(f"{experiment.name}/{contender} is not built in {build}/lab")
    slowed = f"{contender}#slowed"
    pair = (Contestant(contender, file), Contestant(slowed, file, ("--handicap", str(HANDICAP))))
    cells = [
        c for c in experiment.grids["full"].cells if c.get("wakeup", "coalesced") == "coalesced"
    ]
    part = _part(experiment, [Place(cell, pair) for cell in cells])
    for _ in range(_ATTEMPTS):
        results = _measure([part], folder / "slowed.json", "handicap", watcher)
        found = comparison.compare(
            results, experiment.name, experiment.metric, [contender], [slowed]
        )
        assert found.ratio is not None  # _measure has refused failed runs
        if found.ratio.low > 1 or found.ratio.half_width < HANDICAP / 100:
            break
    ratio = found.ratio
    text = f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}) times as fast as itself slowed"
    if ratio.low <= 1 and ratio.half_width >= HANDICAP / 100:
        text += f"; too noisy in {_ATTEMPTS} attempts; `tools/lab doctor` explains why"
    seen = sum(each.ratio.low > 1 for each in found.cells)
    return Trial(title, ratio.low > 1, f"{text}; seen in {seen} of {len(found.cells)} single cells")


def sabotage(experiments: Sequence[Experiment], build: Path) -> Trial:
    """The check of every contender must detect a lost task and a repeated one.

    The contenders run in parallel, as some wait for seconds for the lost task.
    """
    title = "lost and repeated tasks"
    attempts = [
        (experiment, contender, wrong)
        for experiment in experiments
        for contender in experiment.contenders
        if experiment.program(contender.name, build).exists()
        for wrong in ("lose", "duplicate")
    ]
    with ThreadPoolExecutor(max_workers=16) as pool:
        outcomes = list(pool.map(lambda each: _sabotaged(*each, build), attempts))
    escaped = [
        f"{experiment.name}/{contender.name} {wrong} is {outcome.status}: {outcome.reason}".rstrip(
            ": "
        )
        for (experiment, contender, wrong), outcome in zip(attempts, outcomes, strict=True)
        if outcome.status != "failed"
    ]
    if escaped:
        return Trial(title, False, f"{len(escaped)} not detected: {'; '.join(escaped[:4])}")
    return Trial(title, bool(attempts), f"all {len(attempts)} detected")


def _sabotaged(experiment: Experiment, contender: Contender, wrong: str, build: Path) -> Outcome:
    grids = (experiment.grids[name] for name in ("smoke", "quick", "full"))
    cell = next(cell for grid in grids for cell in grid.cells if contender.runs_in(cell))
    file = experiment.program(contender.name, build)
    run = Contestant(contender.name, file, ("--sabotage", wrong))
    return program.run(run, experiment.name, cell, timeout_seconds=experiment.timeout_seconds)


def _copies(experiment: Experiment, build: Path, name: str) -> list[Contestant]:
    file = experiment.program(name, build)
    return [Contestant(f"{name}#{n}", file) for n in range(1, _COPIES + 1)]


def _cells(size: Size) -> list[dict[str, Value]]:
    return [
        {"producers": producers, "tasks": size.tasks // producers, "wakeup": "coalesced"}
        for producers in size.producers
    ]


def _part(experiment: Experiment, places: list[Place]) -> Part:
    return Part(experiment, experiment.grids["full"].rounds, 1, tuple(places))


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
    """Logarithms of the figures: a row for each round, a column for each copy."""
    metric = experiment.metric.name
    columns = [results.series(experiment.name, copy, cell, metric) for copy in copies]
    rounds = sorted(columns[0])
    return np.array([[math.log(column[turn]) for column in columns] for turn in rounds])
