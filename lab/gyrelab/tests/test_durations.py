# SPDX-License-Identifier: Apache-2.0
"""The expected duration: the first estimate is near the truth, and follows the machine's speed."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

from gyrelab import cells, durations, experiments, machine, paths, planning, program, runner
from gyrelab.planning import Part, Place
from gyrelab.program import Contestant, Outcome
from gyrelab.tests.conftest import Lab
from gyrelab.tests.test_runner import Silent

CELL = {"producers": 2, "tasks": 100, "wakeup": "coalesced"}


class Clock:
    """Replaces program.run: a program takes `seconds` by its experiment, give or take a half."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        known = experiments.load_all()
        self._metrics = {name: known[name].metric.name for name in seconds}
        self.total = 0.0

    def run(
        self, contestant: Contestant, experiment: str, cell: cells.Cell, *_: object, **__: object
    ) -> Outcome:
        """program.run without a process."""
        seed = [ord(letter) for letter in f"{experiment}{contestant.name}{cells.key(cell)}"]
        factor = np.random.default_rng(seed).uniform(0.5, 1.5)
        wall = self._seconds[experiment] * factor
        self.total += wall
        metric = self._metrics[experiment]
        return Outcome("ok", metrics={metric: 1.0}, wall_seconds=wall)


def parts_of(hints: dict[str, float], budget: int = 0) -> list[Part]:
    known = experiments.load_all()
    names = ("gyre_fifo", "gyre_sharded", "mutex", "asio")
    found = []
    for name, seconds in hints.items():
        contestants = tuple(Contestant(each, Path("/dev/null")) for each in names)
        places = tuple(Place(cell, contestants) for cell in known[name].grids["quick"].cells)
        found.append(Part(known[name], 5, 1, places, (), seconds, budget))
    return found


SECONDS = {"post_task": 0.1, "hop": 2.0}


def first_estimate(tmp_path: Path, parts: list[Part]) -> float:
    """The estimate before the first run of a measurement that is then made."""
    watcher = Silent()
    out = tmp_path / "results" / f"{time.monotonic_ns()}.json"
    runner.measure(parts, runner.open_journal(out, "quick", parts, 1, False), watcher)
    assert watcher.expected is not None
    return watcher.expected


def test_first_estimate_on_a_fresh_clone_is_within_a_fifth(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(SECONDS)
    monkeypatch.setattr(program, "run", clock.run)
    estimate = first_estimate(tmp_path, parts_of(SECONDS))
    assert estimate == pytest.approx(clock.total, rel=0.2)


def test_first_estimate_learns_from_earlier_files_of_this_machine(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Clock({name: 3 * seconds for name, seconds in SECONDS.items()})
    monkeypatch.setattr(program, "run", slow.run)
    first_estimate(tmp_path, parts_of(SECONDS))
    taken = slow.total
    assert first_estimate(tmp_path, parts_of(SECONDS)) == pytest.approx(taken, rel=0.05)


def test_files_of_another_machine_say_nothing(build: Path, tmp_path: Path) -> None:
    here = machine.describe()
    folder = tmp_path / "results"
    folder.mkdir()
    run = {"experiment": "hop", "contender": "asio", "cell": CELL, "wall_seconds": 4.0}
    (folder / "a.json").write_text(json.dumps({"machine": here, "runs": [run]}))
    elsewhere = {**here, "processor": "another"}
    (folder / "b.json").write_text(
        json.dumps({"machine": elsewhere, "runs": [{**run, "contender": "libuv"}]})
    )
    (folder / "c.json").write_text("{")
    assert durations.earlier(folder, here) == {("hop", "asio", cells.key(CELL)): 4.0}


def test_estimate_follows_a_machine_that_is_slower_than_the_hints() -> None:
    parts = parts_of({"post_task": 0.1})
    runs = planning.plan(parts, 1)
    expectation = durations.Expectation([], {})
    expectation.expect(runs)
    before = expectation.left()
    for run in runs[:8]:
        expectation.learn(run.key[:3], 0.2)
    after = expectation.left()
    assert before is not None and after is not None
    overhead = durations.START_SECONDS
    assert before == pytest.approx(len(runs) * (0.1 + overhead))
    assert after == pytest.approx((len(runs) - 8) * (0.2 + overhead))


def test_estimate_includes_the_budget_of_further_rounds() -> None:
    fixed, sampled = parts_of({"post_task": 0.1}), parts_of({"post_task": 0.1}, budget=10)
    assert len(runner._expected_later(fixed)) == 0
    assert len(runner._expected_later(sampled)) == 5 * 4 * len(sampled[0].places)


def test_measurement_says_first_what_it_will_take(
    build: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = experiments.load_all()
    file = paths.build() / "lab" / "hop" / "asio"
    file.parent.mkdir(parents=True)
    file.write_text("")
    file.chmod(0o755)
    clock = Clock({"hop": known["hop"].grids["quick"].run_seconds or 0})
    monkeypatch.setattr(program, "run", clock.run)
    said = lab("run", "hop", "--rounds", "500")
    first = said.out.splitlines()[0]
    assert re.fullmatch(r"about \d+:\d\d for \d,\d{3} runs", first)
