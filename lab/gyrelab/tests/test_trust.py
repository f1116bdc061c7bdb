# SPDX-License-Identifier: Apache-2.0
"""The lab's self-test passes on honest contenders and fails on ones that would fool the lab."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from gyrelab import doctor, experiments, paths, program, trust
from gyrelab.errors import LabError
from gyrelab.tests import fakes
from gyrelab.tests.conftest import Lab
from gyrelab.tests.test_runner import Silent

TINY = replace(trust.SMALL, producers=(1, 2), relabellings=20)


def test_honest_contenders_are_trusted(
    lab: Lab, build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "SMALL", TINY)
    fakes.make(build, "post_task", "gyre_fifo")
    fakes.make(build, "timers", "gyre")
    said = lab("trust", "--small")
    assert said.out.count("✓") == 3, said.out
    assert said.status == 0


BUILT = all(
    (paths.ROOT / "build/release/lab" / program).exists()
    for program in ("post_task/gyre_fifo", "timers/gyre")
)


@pytest.mark.skipif(not BUILT, reason="needs the contenders of the release build")
def test_real_contenders_are_trusted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYRE_LAB_BUILD", str(paths.ROOT / "build/release"))
    said = lab("trust", "--small")
    assert said.status == 0, said.out + said.err


def test_handicap_that_is_ignored_is_not_seen(build: Path, tmp_path: Path) -> None:
    fakes.make(build, "timers", "gyre", mode="numb", noise=0.01)
    timers = experiments.load_all()["timers"]
    found = trust.handicap(timers, "gyre", build, tmp_path, Silent())
    assert not found.passed
    assert "too noisy" not in found.found


def test_too_noisy_a_machine_is_told_from_a_blind_lab(
    build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.make(build, "timers", "gyre")
    turns = itertools.cycle([50.0, 90.0, 80.0, 40.0, 60.0, 30.0, 70.0])

    def erratic(*_: object, **__: object) -> program.Outcome:
        return program.Outcome("ok", metrics={"ns_per_timer": next(turns)})

    monkeypatch.setattr(program, "run", erratic)
    timers = experiments.load_all()["timers"]
    found = trust.handicap(timers, "gyre", build, tmp_path, Silent())
    assert not found.passed
    assert "too noisy in 3 attempts" in found.found


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
