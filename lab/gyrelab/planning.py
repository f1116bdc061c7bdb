# SPDX-License-Identifier: Apache-2.0
"""The plan of a measurement: its parts, their cells and contenders, and the order of the runs."""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gyrelab import cells, deciding, designs, experiments, paths
from gyrelab.building import Programs
from gyrelab.cells import Cell, Value
from gyrelab.errors import LabError
from gyrelab.experiments import Contender, Experiment, Grid
from gyrelab.program import Contestant

FIRST = 5  # rounds of every cell, before the first look at which cells need more


@dataclass(frozen=True)
class Place:
    """A cell and the programs that run in it."""

    cell: dict[str, Value]
    contestants: tuple[Contestant, ...]


@dataclass(frozen=True)
class Part:
    """One experiment's share of a measurement."""

    experiment: Experiment
    rounds: int
    warmup_rounds: int
    places: tuple[Place, ...]
    not_built: tuple[str, ...] = ()
    run_seconds: float | None = None  # expected mean duration of a run
    budget_rounds: int = 0  # mean rounds of a cell when open cells get more; 0: none get more

    @property
    def contestants(self) -> list[Contestant]:
        """The programs of this part, in order of first appearance."""
        programs = (each for place in self.places for each in place.contestants)
        return list({(each.name, each.program): each for each in programs}.values())


@dataclass(frozen=True)
class PlannedRun:
    """A planned run. Rounds count from 1; warm-up rounds are 0 and below."""

    part: Part
    contestant: Contestant
    cell: Cell
    round: int
    order: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The key of the run in a journal."""
        return (self.part.experiment.name, self.contestant.name, cells.key(self.cell), self.round)

    @property
    def started(self) -> Contestant:
        """The program to start: it counts in warm-up rounds, as their time does not matter."""
        counts = self.round <= 0 and self.part.experiment.counts
        return self.contestant.counting() if counts else self.contestant


@dataclass(frozen=True)
class Block:
    """Rounds `first` to `last` of one cell."""

    part: Part
    place: Place
    first: int
    last: int


def choose(
    chosen: Sequence[Experiment],
    grid: str,
    contenders: Sequence[str],
    programs: Programs,
    rounds: int | None,
    compilers: Sequence[str] = (),
) -> list[Part]:
    """The parts of a measurement of these experiments; `contenders` empty means all of them.

    `compilers` replaces the grid's compilers in experiments that have this parameter.
    """
    experiments.check_contenders(chosen, contenders)
    parts = [
        _make_part(each, each.grids[grid], contenders, programs, rounds, compilers)
        for each in chosen
    ]
    parts = [part for part in parts if part.contestants or part.not_built]
    if not any(part.contestants for part in parts):
        missing = f"not built: {', '.join(contenders)}" if contenders else "no contender is built"
        raise LabError(
            f"{missing}, in {paths.shown(programs.tree)}/lab; build all by "
            "`cmake --preset release && cmake --build --preset release --target lab`"
        )
    return [part for part in parts if part.contestants]


def _make_part(
    experiment: Experiment,
    grid: Grid,
    contenders: Sequence[str],
    programs: Programs,
    rounds: int | None,
    compilers: Sequence[str],
) -> Part:
    wanted = [each for each in experiment.contenders if not contenders or each.name in contenders]
    built = [each for each in wanted if programs.has(experiment.name, each.name)]
    measured = designs.drop_idle(built, contenders)

    def decisive(cell: Cell) -> list[Contender]:
        names = None if contenders else deciding.select_contenders(experiment, grid.name, cell)
        return [each for each in measured if names is None or each.name in names]

    places = [
        Place(cell, _make_contestants(experiment, cell, decisive(cell), programs))
        for cell in programs.cells(grid.cells, compilers)
    ]
    names = {each.name for each in built}
    return Part(
        experiment,
        rounds or min(grid.rounds, FIRST),
        grid.warmup_rounds,
        tuple(place for place in places if place.contestants),
        tuple(each.name for each in wanted if each.name not in names),
        grid.run_seconds,
        0 if rounds or grid.rounds < FIRST else grid.rounds,
    )


def _make_contestants(
    experiment: Experiment, cell: Cell, contenders: Sequence[Contender], programs: Programs
) -> tuple[Contestant, ...]:
    tree = programs.built_by(str(cell.get(cells.COMPILER, programs.compiler)))
    return tuple(
        Contestant(each.name, tree.path(experiment.name, each.name))
        for each in contenders
        if each.runs_in(cell) and tree.has(experiment.name, each.name)
    )


def plan(parts: Sequence[Part], seed: int) -> list[PlannedRun]:
    """Every run of the first rounds in order: rounds over all cells, with each cell's programs shuffled every round."""
    runs = []
    for part in parts:
        for turn in range(1 - part.warmup_rounds, part.rounds + 1):
            for place in part.places:
                runs += plan_round(part, place, turn, seed)
    return runs


def plan_round(part: Part, place: Place, turn: int, seed: int) -> list[PlannedRun]:
    """One round of a cell: its programs in an order of their own."""
    order = list(place.contestants)
    name = f"{seed} {part.experiment.name} {cells.key(place.cell)} {turn}"
    random.Random(name).shuffle(order)
    return [PlannedRun(part, each, place.cell, turn, n) for n, each in enumerate(order, 1)]


def plan_further(blocks: Sequence[Block], seed: int) -> list[PlannedRun]:
    """The runs of further rounds: each round goes once through all of their cells."""
    turns = range(max(block.last - block.first + 1 for block in blocks))
    return [
        run
        for turn in turns
        for block in blocks
        if block.first + turn <= block.last
        for run in plan_round(block.part, block.place, block.first + turn, seed)
    ]


def fingerprint(grid: str, parts: Sequence[Part]) -> str:
    """A digest of the plan. The programs, compiled later, have digests of their own."""
    described = [grid, sorted((_describe(part) for part in parts), key=lambda each: each[0])]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


def _describe(part: Part) -> list[Any]:
    return [
        part.experiment.name,
        [part.rounds, part.budget_rounds, part.warmup_rounds],
        [part.experiment.pin, part.experiment.memory_limit_mib],
        [[place.cell, [each.name for each in place.contestants]] for place in part.places],
        [[each.name, each.extra] for each in part.contestants],
    ]
