# SPDX-License-Identifier: Apache-2.0
"""Measuring: order, failures that are results, interruption and resumption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gyrelab import cells, experiments, journal, paths, planning, program, results, runner
from gyrelab.building import Programs
from gyrelab.program import Contestant
from gyrelab.tests import fakes, noise, synthetic
from gyrelab.tests.conftest import Lab
from gyrelab.tests.simulated import Machine

CELL = {"producers": 2, "tasks": 100, "wakeup": "coalesced"}


def outcome(build: Path, mode: str, timeout_seconds: float = 100) -> program.Outcome:
    """One run of a fake contender in that mode."""
    file = fakes.make(build, "post_task", "mutex", mode=mode)
    return program.run(
        Contestant("mutex", file), "post_task", CELL, timeout_seconds=timeout_seconds
    )


def test_good_run_has_its_figures(build: Path) -> None:
    found = outcome(build, "ok")
    assert found.status == "ok"
    assert found.metrics["ns_per_task"] == pytest.approx(50, rel=0.5)
    assert found.build["compiler"] == "GNU 12.2.0"


@pytest.mark.parametrize(
    ("mode", "status", "reason"),
    [
        ("lose", "failed", "tasks_run 99, expected 100"),
        ("crash", "crashed", "SIGSEGV"),
        ("chatter", "invalid", "hello"),
        ("hang", "timeout", "no result within 0.3 s"),
    ],
)
def test_bad_run_is_a_result_with_its_reason(
    build: Path, mode: str, status: str, reason: str
) -> None:
    found = outcome(build, mode, timeout_seconds=0.3 if mode == "hang" else 100)
    assert (found.status, reason in found.reason) == (status, True)


def test_death_of_the_memory_limit_is_a_result_of_its_own(build: Path) -> None:
    file = fakes.make(build, "post_task", "mutex", mode="hoard")
    unbounded = Contestant("mutex", file)
    found = program.run(unbounded, "post_task", CELL, memory_limit_mib=512)
    assert found.status == "out_of_memory"
    assert found.reason == "out of memory after 1.50 s with 512 MiB"
    assert program.run(unbounded, "post_task", CELL).status == "ok"


def test_cell_that_the_machine_cannot_run_is_no_failure(
    build: Path, lab: Lab, tmp_path: Path
) -> None:
    fakes.make(build, "timers", "gyre")
    fakes.make(build, "timers", "asio", mode="refuse")
    said = lab("run", "timers", "--grid", "smoke", "--strict", "--out", tmp_path / "r.json")
    assert said.status == 0
    measured = results.load(tmp_path / "r.json")
    assert not measured.failures("timers")
    assert {run["reason"] for run in measured.refusals("timers")} == {
        "60100 open files are needed, 20000 allowed"
    }


def test_program_that_ran_something_else_is_not_believed(build: Path) -> None:
    file = fakes.make(build, "hop", "mutex")
    found = program.run(Contestant("mutex", file), "post_task", CELL)
    assert found.status == "invalid"


def test_contenders_of_a_cell_run_together_in_changing_order(build: Path) -> None:
    fakes.make_all(build)
    parts = planning.choose([experiments.load_all()["post_task"]], "quick", [], Programs(build), 20)
    runs = planning.plan(parts, seed=3)
    first: dict[str, int] = {}
    for place in range(0, len(runs)):
        run = runs[place]
        if run.order == 1:
            first[run.contestant.name] = first.get(run.contestant.name, 0) + 1
            block = runs[
                place : place + len({r.contestant.name for r in runs if r.cell == run.cell})
            ]
            assert {cells.key(each.cell) for each in block} == {cells.key(run.cell)}
            assert len({each.round for each in block}) == 1
    assert set(first) >= {"gyre_fifo", "gyre_sharded", "mutex", "boost_lockfree", "moodycamel"}
    assert min(first.values()) > 10
    assert [run.key for run in runs] == [run.key for run in planning.plan(parts, seed=3)]
    assert [run.key for run in runs] != [run.key for run in planning.plan(parts, seed=4)]


def test_failures_do_not_end_the_measurement(build: Path, lab: Lab, tmp_path: Path) -> None:
    fakes.make(build, "timers", "gyre")
    fakes.make(build, "timers", "asio", mode="crash")
    said = lab("run", "timers", "--grid", "smoke", "--out", tmp_path / "r.json")
    assert said.status == 0
    assert "timers/asio" in said.err
    measured = results.load(tmp_path / "r.json")
    assert measured.complete
    assert len(measured.failures("timers")) == 2
    assert measured.not_built("timers") == ["libevent", "libuv"]
    programs = measured.document["experiments"]["timers"]["programs"]
    assert programs["gyre"]["build"]["libraries"] == {"fake": "1.0"}
    assert lab("run", "timers", "--grid", "smoke", "--strict").status == 1


def test_allocations_are_counted_in_the_warm_up_and_in_no_timed_run(
    build: Path, lab: Lab, tmp_path: Path
) -> None:
    fakes.make(build, "fork_join", "gyre")
    out = tmp_path / "r.json"
    assert lab("run", "fork_join", "--grid", "quick", "--rounds", "3", "--out", out).status == 0
    measured = results.load(out)
    metric, counted = "ns_per_task", "allocations_per_task"
    for cell in measured.cells("fork_join"):
        assert set(measured.series("fork_join", "gyre", cell, metric)) == {1, 2, 3}
        assert measured.series("fork_join", "gyre", cell, counted) == {0: 0.5}
        timed = measured.runs("fork_join", "gyre", cell)
        assert not any(counted in run["metrics"] for run in timed)


def test_older_files_have_counts_of_every_round() -> None:
    older = synthetic.results(("fork_join",), rounds=3)
    for metric in older.document["experiments"]["fork_join"]["definition"]["secondary"]:
        metric.pop("counted", None)
    cell = older.cells("fork_join")[0]
    assert set(older.series("fork_join", "gyre", cell, "allocations_per_task")) == {1, 2, 3}


def test_unbounded_contender_may_die_without_failing_the_measurement(
    build: Path, lab: Lab, tmp_path: Path
) -> None:
    fakes.make(build, "pool", "gyre_stealing")
    fakes.make(build, "pool", "asio", mode="hoard")
    said = lab("run", "pool", "--grid", "smoke", "--strict", "--out", tmp_path / "r.json")
    assert said.status == 0, said.err
    assert "out of memory after 1.50 s" in said.out
    measured = results.load(tmp_path / "r.json")
    assert {run["contender"] for run in measured.deaths("pool")} == {"asio"}
    assert measured.failures("pool") == []


def inherit(disposition: signal.Handlers, mask: int) -> None:
    """Runs in a child before its program starts: sets both signals as a parent may leave them."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, disposition)
    signal.pthread_sigmask(mask, (signal.SIGINT, signal.SIGTERM))


def interrupted(
    command: list[str], out: Path, number: int, disposition: signal.Handlers, mask: int
) -> tuple[int, str]:
    """Exit status and error output of a measurement that gets the signal after a few runs."""
    process = subprocess.Popen(
        [*command, "run", "timers", "--grid", "quick", "--out", str(out)],
        env={**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: inherit(disposition, mask),
    )
    file = journal.beside(out)
    while process.poll() is None and (not file.exists() or file.read_text().count("\n") < 5):
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=100)
    return process.returncode, said


LAB = [sys.executable, "-m", "gyrelab"]
LAUNCHER = [str(paths.ROOT / "tools" / "lab"), "--no-build"]


@pytest.mark.parametrize(
    ("command", "number", "disposition", "mask"),
    [
        (LAB, signal.SIGINT, signal.SIG_DFL, signal.SIG_UNBLOCK),
        (LAB, signal.SIGINT, signal.SIG_IGN, signal.SIG_UNBLOCK),
        (LAB, signal.SIGTERM, signal.SIG_IGN, signal.SIG_BLOCK),
        (LAUNCHER, signal.SIGINT, signal.SIG_IGN, signal.SIG_BLOCK),
    ],
    ids=["ctrl-c", "ctrl-c-ignored-by-parent", "sigterm-blocked-by-parent", "launcher"],
)
def test_interrupted_run_resumes_and_leaves_no_process(
    build: Path,
    tmp_path: Path,
    command: list[str],
    number: int,
    disposition: signal.Handlers,
    mask: int,
) -> None:
    for name in ("gyre", "asio", "libuv"):
        fakes.make(build, "timers", name, mode="slow")
    out = tmp_path / "r.json"
    status, said = interrupted(command, out, number, disposition, mask)
    assert status == 130
    assert "repeat the command to resume" in said
    assert not out.exists()
    kept = journal.read(journal.beside(out))["runs"]
    assert len(kept) >= 4

    for name in ("gyre", "asio", "libuv"):  # the same programs, so the journal is still good
        assert (build / "lab" / "timers" / name).exists()
    parts = planning.choose([experiments.load_all()["timers"]], "quick", [], Programs(build), None)
    record = runner.open_journal(out, "quick", parts, seed=9, fresh=False)
    assert record.document["runs"] == kept
    record.close()


class Silent:
    """A watcher that prints nothing and interrupts after some runs."""

    def __init__(self, runs: int = 10**9) -> None:
        self.left = runs

    def begin(self, total: int, done: int, seconds: float | None) -> None:
        """Watcher."""
        self.total, self.done, self.expected = total, done, seconds

    def compiling(
        self, part: planning.Part, done: int, steps: int, seconds_left: float | None
    ) -> None:
        """Watcher."""

    def before(self, run: planning.PlannedRun, seconds_left: float | None) -> None:
        """Watcher."""
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1

    def after(self, run: planning.PlannedRun, outcome: program.Outcome) -> None:
        """Watcher."""


def test_resumed_result_has_every_run_once(build: Path, tmp_path: Path) -> None:
    for name in ("gyre", "asio"):
        fakes.make(build, "timers", name)
    parts = planning.choose([experiments.load_all()["timers"]], "quick", [], Programs(build), 3)
    out = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        runner.measure(parts, runner.open_journal(out, "quick", parts, 1, False), Silent(7))
    with journal.beside(out).open("a") as file:
        file.write('{"experiment": "timers", "conten')  # a crash tore the last line
    watcher = Silent()
    measured = runner.measure(parts, runner.open_journal(out, "quick", parts, 1, False), watcher)
    assert (watcher.total, watcher.done) == (12, 7)
    assert not journal.beside(out).exists()
    seen = [(r["contender"], cells.key(r["cell"]), r["round"]) for r in measured.document["runs"]]
    assert len(seen) == len(set(seen)) == 12
    results.load(out)


def test_journal_of_other_programs_is_put_aside(build: Path, tmp_path: Path) -> None:
    fakes.make(build, "timers", "gyre")
    parts = planning.choose([experiments.load_all()["timers"]], "smoke", [], Programs(build), None)
    out = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        runner.measure(parts, runner.open_journal(out, "smoke", parts, 1, False), Silent(1))
    fakes.make(build, "timers", "gyre", figure=20)
    record = runner.open_journal(out, "smoke", parts, 1, False)
    record.close()
    assert record.document["runs"] == []
    assert (tmp_path / "r.json.journal.stale").exists()


def test_same_command_without_out_finds_its_journal(build: Path, tmp_path: Path) -> None:
    fakes.make(build, "timers", "gyre")
    parts = planning.choose([experiments.load_all()["timers"]], "smoke", [], Programs(build), None)
    out = paths.results() / "20260101-000000-smoke.json"
    with pytest.raises(KeyboardInterrupt):
        runner.measure(parts, runner.open_journal(out, "smoke", parts, 1, False), Silent(1))
    assert runner.unfinished(paths.results(), "smoke", parts) == out
    assert runner.unfinished(paths.results(), "quick", parts) is None
    fakes.make(build, "timers", "gyre", figure=20)
    assert runner.unfinished(paths.results(), "smoke", parts) is None


def test_written_results_follow_the_schema(
    build: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.make_all(build)
    monkeypatch.setattr(program, "run", Machine(noise.quiet).run)
    assert lab("run", "--grid", "smoke", "--out", tmp_path / "r.json").status == 0
    document = json.loads((tmp_path / "r.json").read_text())
    results.schema().validate(document)
    assert document["machine"]["cores"] >= 1
    assert document["load"]["after"] is not None
    measured = {(run["experiment"], run["contender"]) for run in document["runs"]}
    assert measured == {
        (name, contender.name)
        for name, experiment in experiments.load_all().items()
        for contender in experiment.contenders
        if contender.stands_for is None
        and any(contender.runs_in(cell) for cell in experiment.grids["smoke"].cells)
    }
