# SPDX-License-Identifier: Apache-2.0
"""Where things are in the repository; each place can be moved for tests by an environment variable."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "lab" / "schema"
PUBLISHED = ROOT / "lab" / "published" / "figures.json"


def experiments() -> Path:
    """The folder of the experiments' folders (GYRE_LAB_EXPERIMENTS)."""
    return Path(os.environ.get("GYRE_LAB_EXPERIMENTS", ROOT / "lab" / "experiments"))


def build() -> Path:
    """The CMake build tree whose `lab/NAME/CONTENDER` are the programs (GYRE_LAB_BUILD)."""
    return Path(os.environ.get("GYRE_LAB_BUILD", ROOT / "build" / "release"))


def results() -> Path:
    """The folder of result files (GYRE_LAB_RESULTS); git ignores it."""
    return Path(os.environ.get("GYRE_LAB_RESULTS", ROOT / "results"))


def shown(path: Path) -> str:
    """`path` as a reader would type it: relative to the working directory when it is below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
