# SPDX-License-Identifier: Apache-2.0
"""Paths in the repository; tests move each of them by an environment variable."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "lab" / "schema"
PUBLISHED = ROOT / "lab" / "published" / "figures.json"


def experiments() -> Path:
    """The folder that holds a folder for each experiment (GYRE_LAB_EXPERIMENTS)."""
    return Path(os.environ.get("GYRE_LAB_EXPERIMENTS", ROOT / "lab" / "experiments"))


def build() -> Path:
    """The CMake build tree; its programs are `lab/NAME/CONTENDER` (GYRE_LAB_BUILD)."""
    return Path(os.environ.get("GYRE_LAB_BUILD", ROOT / "build" / "release"))


def results() -> Path:
    """The folder of result files (GYRE_LAB_RESULTS); git ignores it."""
    return Path(os.environ.get("GYRE_LAB_RESULTS", ROOT / "results"))


def shown(path: Path) -> str:
    """`path` relative to the working directory if it is below that, otherwise as it is."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
