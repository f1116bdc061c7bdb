# SPDX-License-Identifier: Apache-2.0
"""Each test has a build tree of fake contenders and a results folder of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gyrelab import paths

Lab = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty build tree that the lab uses, beside an empty results folder."""
    monkeypatch.setenv("GYRE_LAB_BUILD", str(tmp_path / "build"))
    monkeypatch.setenv("GYRE_LAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT / "lab"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "build"


@pytest.fixture
def lab(build: Path) -> Lab:
    """Runs the command line in a process of its own."""

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gyrelab", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run


def read(path: Path) -> dict:
    """A JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
