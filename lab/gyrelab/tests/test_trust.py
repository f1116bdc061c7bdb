# SPDX-License-Identifier: Apache-2.0
"""The lab's self-test passes on honest contenders and fails on contenders that would fool the lab.

Nothing here depends on the speed or load of this machine: figures come from noise.py. `make trust`
measures real ones.
"""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from gyrelab import doctor, experiments, paths, program, trust
from gyrelab.errors import LabError
from gyrelab.tests import fakes, noise
from gyrelab.tests.conftest import Lab
from gyrelab.tests.simulated import Machine
from gyrelab.tests.test_runner import Silent

TINY = replace(trust.SMALL, producers=(1, 2), relabellings=20)


@pytest.fixture
def machine(build: Path, monkeypatch: pytest.MonkeyPatch) -> type[Machine]:
    """The class of simulated machines; a new object replaces program.run from then on."""
    fakes.make(build, "post_task", "gyre_fifo")
    fakes.make(build, "timers", "gyre")

    class Here(Machine):
        def __post_init__(self) -> None:
            super().__post_init__()
            monkeypatch.setattr(program, "run", self.run)

    return Here


def false_alarms(build: Path, folder: Path) -> trust.Trial:
    """The trial on post_task, the experiment for which it is written."""
    return trust.false_alarms(experiments.load_all()["post_task"], build, TINY, folder, Silent())


def handicap(build: Path, folder: Path) -> trust.Trial:
    """The trial on timers, the experiment that noise disturbs least."""
    return trust.handicap(experiments.load_all()["timers"], "gyre", build, folder, Silent())


def test_honest_contenders_are_trusted(
    lab: Lab, machine: type[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "SMALL", TINY)
    machine(noise.quiet)
    said = lab("trust", "--small")
    assert said.out.count("✓") == 3, said.out
    assert said.status == 0


@pytest.mark.parametrize("kind", noise.KINDS)
def test_copies_of_a_program_do_not_differ_whatever_the_noise(
    kind: str, machine: type[Machine], build: Path, tmp_path: Path
) -> None:
    machine(noise.KINDS[kind])
    found = false_alarms(build, tmp_path)
    assert found.passed, found.found


def test_copies_that_do_differ_are_an_alarm(
    machine: type[Machine], build: Path, tmp_path: Path
) -> None:
    machine(noise.quiet, slower={"gyre_fifo#2": 8.0, "gyre_fifo#4": 8.0})
    assert not false_alarms(build, tmp_path).passed


@pytest.mark.parametrize("kind", ["quiet", "heavy_tails", "skewed", "bursts", "drift", "shared"])
def test_handicap_is_seen_through_the_noise(
    kind: str, machine: type[Machine], build: Path, tmp_path: Path
) -> None:
    machine(noise.KINDS[kind])
    found = handicap(build, tmp_path)
    assert found.passed, found.found


def test_handicap_that_is_ignored_is_not_seen(
    machine: type[Machine], build: Path, tmp_path: Path
) -> None:
    machine(noise.quiet, numb=True)
    found = handicap(build, tmp_path)
    assert not found.passed
    assert "too noisy" not in found.found


def test_too_noisy_a_machine_is_told_from_a_blind_lab(
    machine: type[Machine], build: Path, tmp_path: Path
) -> None:
    machine(lambda _: itertools.cycle([0.0, 0.6, 0.5, -0.2, 0.2, -0.5, 0.3]))
    found = handicap(build, tmp_path)
    assert not found.passed
    assert "too noisy in 3 attempts" in found.found


BUILT = (paths.ROOT / "build/release/lab/post_task/gyre_fifo").exists()


@pytest.mark.skipif(not BUILT, reason="needs the contenders of the release build")
def test_real_contenders_are_caught_when_they_lose_or_repeat_work() -> None:
    found = trust.sabotage(list(experiments.load_all().values()), paths.ROOT / "build/release")
    assert found.passed, found.found


def test_contender_that_does_not_check_itself_escapes_and_fails_the_trial(build: Path) -> None:
    fakes.make(build, "post_task", "mutex")
    fakes.make(build, "hop", "asio", mode="blind")
    found = trust.sabotage(list(experiments.load_all().values()), build)
    assert not found.passed
    assert "hop/asio lose is ok" in found.found
    assert "mutex" not in found.found


def test_nothing_to_test_is_an_error(build: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is built"):
        trust.false_alarms(experiments.load_all()["post_task"], build, TINY, tmp_path, Silent())


@pytest.mark.parametrize(
    ("disturbed", "state"), [(0.0, doctor.GOOD), (0.08, doctor.FAIR), (0.8, doctor.POOR)]
)
def test_doctor_judges_the_noise_it_measures(disturbed: float, state: str) -> None:
    pieces = [[0.002] * 90 + [0.002 * (1 + disturbed)] * 10, [0.002] * 100]
    finding = doctor.judge_noise(pieces)
    assert finding.state == state
    assert bool(finding.advice) == (state != doctor.GOOD)


def test_doctor_looks_at_everything_the_lab_depends_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_SLICES", 10)
    said = lab("doctor")
    assert said.status in (0, 1)
    for subject in (
        "noise",
        "steal",
        "load",
        "processors",
        "governor",
        "turbo",
        "open files",
        "perf events",
    ):
        assert f" {subject}: " in said.out
