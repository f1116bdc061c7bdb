# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a build tree of fake contenders and a results folder for each test."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gyrelab import cli


@dataclass(frozen=True)
class Said:
    """The output and exit status of the command line."""

    status: int
    out: str
    err: str


Lab = Callable[..., Said]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty build tree that the lab uses, beside an empty results folder."""
    monkeypatch.setenv("GYRE_LAB_BUILD", str(tmp_path / "build"))
    monkeypatch.setenv("GYRE_LAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "build"


@pytest.fixture
def lab(build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lab:
    """Runs the command line."""

    def run(*words: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["lab", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        said = capsys.readouterr()
        return Said(stopped.value.code, said.out, said.err)

    return run
