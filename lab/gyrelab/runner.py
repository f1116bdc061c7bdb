# SPDX-License-Identifier: Apache-2.0
"""The measurement: makes the planned runs in turn and saves each at its end; resumes."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from gyrelab import cells, durations, journal, machine, paths, planning, program, results
from gyrelab.building import Programs
from gyrelab.cells import Value
from gyrelab.durations import Expectation
from gyrelab.errors import UsageProblem
from gyrelab.planning import Part, PlannedRun
from gyrelab.program import Outcome
from gyrelab.rounds import Sampling

Prepare = Callable[[Part], None]  # makes the part's programs ready to run


def _nothing(_: Part) -> None:
    """The Prepare of programs that are there."""


class Watcher(Protocol):
    """Observer of a measurement's progress."""

    def begin(self, total: int, done: int, seconds: float | None) -> None:
        """The measurement starts: the number of runs, of those already in the journal, and the
        expected duration of the others (None: unknown)."""

    def compiling(self, part: Part, done: int, steps: int, seconds_left: float | None) -> None:
        """The experiment's programs are compiled: the finished steps, and all of them."""

    def before(self, run: PlannedRun, seconds_left: float | None) -> None:
        """A run starts; `seconds_left` is None while no estimate is possible."""

    def after(self, run: PlannedRun, outcome: Outcome) -> None:
        """A run has finished."""


def _digests(part: Part) -> dict[str, str]:
    """The digest of each contender's program; those of two compilers, joined by a plus."""
    found: dict[str, list[str]] = {}
    for each in part.contestants:
        found.setdefault(each.name, []).append(_digest(each.program))
    return {name: "+".join(digests) for name, digests in found.items()}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def new_document(grid: str, parts: Sequence[Part], seed: int) -> dict[str, Any]:
    """The result document before its first run."""
    return {
        "schema": results.SCHEMA,
        "grid": grid,
        "seed": seed,
        "started": _now(),
        "finished": None,
        "fingerprint": planning.fingerprint(grid, parts),
        "machine": machine.describe(),
        "revision": machine.revision(),
        "load": {"before": machine.load(), "after": None},
        "experiments": {},
        "runs": [],
    }


def _facts(part: Part) -> dict[str, Any]:
    """The experiment's entry in the result document, when its programs are there."""
    digests = _digests(part)
    return {
        "definition": part.experiment.raw,
        "rounds": part.rounds,
        "budget_rounds": part.budget_rounds,
        "warmup_rounds": part.warmup_rounds,
        "cells": [place.cell for place in part.places],
        "programs": {
            each.name: {"sha256": digests[each.name], "extra": list(each.extra)}
            for each in part.contestants
        },
        "not_built": list(part.not_built),
    }


def unfinished(
    folder: Path, grid: str, parts: Sequence[Part], prepare: Prepare = _nothing
) -> Path | None:
    """The result file of an interrupted journal in `folder` that these parts can resume."""
    for path in sorted(folder.glob(f"*{journal.SUFFIX}"), reverse=True):
        try:
            if _resumes(journal.read(path), grid, parts, prepare):
                return path.with_name(path.name.removesuffix(journal.SUFFIX))
        except OSError:
            continue
        except UsageProblem:  # a damaged journal
            continue
    return None


def open_journal(
    out: Path,
    grid: str,
    parts: Sequence[Part],
    seed: int,
    fresh: bool,
    prepare: Prepare = _nothing,
) -> journal.Journal:
    """The journal beside `out` if these parts can resume it; otherwise a new one.

    Calls `prepare` for the parts whose measurement had begun.
    """
    old = journal.beside(out)
    if old.exists() and not fresh:
        document = journal.read(old)
        if _resumes(document, grid, parts, prepare):
            return journal.Journal(out, document)
        old.replace(old.with_name(old.name + ".stale"))
    return journal.Journal(out, new_document(grid, parts, seed))


def _resumes(document: dict[str, Any], grid: str, parts: Sequence[Part], prepare: Prepare) -> bool:
    """Whether the journal has the same plan, and the programs of its runs are as they were."""
    if document.get("fingerprint") != planning.fingerprint(grid, parts):
        return False
    for part in parts:
        if begun := document["experiments"].get(part.experiment.name):
            prepare(part)
            digests = {name: each["sha256"] for name, each in begun["programs"].items()}
            if digests != _digests(part):
                return False
    return True


def measure(
    parts: Sequence[Part],
    record: journal.Journal,
    watcher: Watcher,
    programs: Programs | None = None,
    after_part: Callable[[Part], None] = _nothing,
) -> results.Results:
    """Makes the runs that the journal lacks; after Ctrl-C the journal can be resumed.

    `programs` compiles a part's programs before the part's first run; without it they are there.
    `after_part` is called after a part's first rounds, while nothing is being measured.
    """
    document = record.document
    made = {
        (r["experiment"], r["contender"], cells.key(r["cell"]), r["round"])
        for r in document["runs"]
    }
    first = planning.plan(parts, document["seed"])
    sampling = Sampling(parts, document)
    known = durations.earlier(paths.results(), document["machine"])
    seconds = Expectation(document["runs"], known, programs.seconds_left if programs else None)
    later = _expected_later(parts)
    seconds.expect([*(run for run in first if run.key not in made), *later])
    watcher.begin(len(first) + len(later), len(made), seconds.left())
    try:
        for part in parts:
            if programs:
                prepare(part, programs, watcher, seconds.left)
            if part.experiment.name not in document["experiments"]:
                record.add_experiment(part.experiment.name, _facts(part))
            runs = [run for run in first if run.part is part and run.key not in made]
            _make(runs, made, record, watcher, seconds)
            if runs:
                after_part(part)
        while blocks := sampling.next():
            runs = planning.plan_further(blocks, document["seed"])
            seconds.expect((run for run in runs if run.key not in made), sampling.seconds_left)
            _make(runs, made, record, watcher, seconds)
    except BaseException:
        record.close()
        raise
    for run in document["runs"]:
        if build := run.pop("build", None):
            facts = document["experiments"][run["experiment"]]["programs"][run["contender"]]
            facts["build"] = _merged(facts.get("build", build), build)
    load = {**document["load"], "after": machine.load()}
    record.finish(finished=_now(), load=load)
    return results.Results(document, record.name)


def announce(parts: Sequence[Part], programs: Programs) -> None:
    """Tells which programs a measurement will need, for the estimate of its duration."""
    chosen = [part.experiment for part in parts]
    seconds = {each.name: each.compile_seconds for each in chosen if each.compile_seconds}
    for compiler in programs.compilers:
        tree = programs.built_by(compiler)
        tree.expect({part.experiment.name: _names_in(tree, part) for part in parts}, seconds)


def early_figures_first(parts: Sequence[Part], programs: Programs) -> list[Part]:
    """The parts in the order in which their first rounds end soonest after their compilation."""

    def seconds(part: Part) -> float:
        runs = (part.rounds + part.warmup_rounds) * sum(len(p.contestants) for p in part.places)
        return programs.own_seconds(part.experiment.name) + runs * (part.run_seconds or 0)

    return sorted(parts, key=seconds)


def prepare(
    part: Part,
    programs: Programs,
    watcher: Watcher,
    seconds_left: Callable[[], float | None] | None = None,
) -> None:
    """Compiles what the part's programs lack; `seconds_left` estimates the rest of it all."""

    def watch(done: int, steps: int) -> None:
        watcher.compiling(part, done, steps, seconds_left() if seconds_left else None)

    for compiler in programs.compilers:
        tree = programs.built_by(compiler)
        if names := _names_in(tree, part):
            tree.prepare(part.experiment.name, names, watch)


def _names_in(tree: Programs, part: Part) -> list[str]:
    return [each.name for each in part.contestants if each.program.is_relative_to(tree.tree)]


def _make(
    runs: Sequence[PlannedRun],
    keys: set[tuple[str, str, str, int]],
    record: journal.Journal,
    watcher: Watcher,
    seconds: Expectation,
) -> None:
    """Makes the runs whose keys are not among these, and adds theirs."""
    seen = {_program(run) for run in record.document["runs"]}
    for planned in [run for run in runs if run.key not in keys]:
        watcher.before(planned, seconds.left())
        experiment = planned.part.experiment
        outcome = program.run(
            planned.started,
            experiment.name,
            planned.cell,
            experiment.pin,
            experiment.timeout_seconds,
            experiment.memory_limit_mib,
        )
        row = _row(planned, outcome)
        if _program(row) not in seen:
            row["build"] = outcome.build
        record.append(row)
        keys.add(planned.key)
        seen.add(_program(row))
        seconds.learn(planned.key[:3], outcome.wall_seconds)
        watcher.after(planned, outcome)


def _expected_later(parts: Sequence[Part]) -> list[PlannedRun]:
    """As many runs as the budget of further rounds allows; which cells need them is not known."""
    return [
        run
        for part in parts
        for turn in range(part.rounds + 1, part.budget_rounds + 1)
        for place in part.places
        for run in planning.plan_round(part, place, turn, 0)
    ]


def _program(run: Mapping[str, Any]) -> tuple[str, str, Value | None]:
    """The run's program: a contender has one of each compiler."""
    return (run["experiment"], run["contender"], run["cell"].get(cells.COMPILER))


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The facts about two programs of a contender."""
    compilers = dict.fromkeys(each["compiler"] for each in (one, other) if "compiler" in each)
    return {**other, **one, "compiler": ", ".join(compilers)} if compilers else one


def _row(planned: PlannedRun, outcome: Outcome) -> dict[str, Any]:
    row: dict[str, Any] = {
        "experiment": planned.part.experiment.name,
        "contender": planned.contestant.name,
        "cell": dict(planned.cell),
        "round": planned.round,
        "order": planned.order,
        "status": outcome.status,
        "wall_seconds": outcome.wall_seconds,
    }
    for name in ("reason", "metrics", "checks"):
        if value := getattr(outcome, name):
            row[name] = value
    return row


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def default_out(grid: str) -> Path:
    """A new file in the results folder, named after the time and the grid."""
    return paths.results() / f"{datetime.now():%Y%m%d-%H%M%S}-{grid}.json"
