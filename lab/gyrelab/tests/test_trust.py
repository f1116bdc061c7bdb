# SPDX-License-Identifier: Apache-2.0
"""The lab's self-test passes on honest contenders and fails on ones that would fool the lab."""

from dataclasses import replace
from pathlib import Path

import pytest

from gyrelab import doctor, experiments, trust
from gyrelab.errors import LabError
from gyrelab.tests import fakes
from gyrelab.tests.conftest import Lab
from gyrelab.tests.test_runner import Silent

TINY = replace(trust.SMALL, producers=(1, 2), relabellings=40)


def test_honest_contenders_are_trusted(
    lab: Lab, build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "SMALL", TINY)
    for name in ("gyre_fifo", "mutex"):
        fakes.make(build, "post_task", name)
    said = lab("trust", "--small")
    assert said.out.count("✓") == 3, said.out
    assert said.status == 0


def test_handicap_that_is_ignored_is_not_seen(build: Path, tmp_path: Path) -> None:
    fakes.make(build, "post_task", "gyre_fifo", mode="numb", noise=0.01)
    post_task = experiments.load_all()["post_task"]
    found = trust.handicap(post_task, build, TINY, tmp_path, Silent())
    assert not found.passed


def test_contender_that_does_not_check_itself_escapes_and_fails_the_trial(build: Path) -> None:
    fakes.make(build, "post_task", "mutex")
    fakes.make(build, "hop", "asio", mode="blind")
    found = trust.sabotage(list(experiments.load_all().values()), build, lambda _: None)
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
