# SPDX-License-Identifier: Apache-2.0
"""Paths in the repository; tests move each of them by an environment variable."""

import os
import tempfile
from pathlib import Path

from gyrelab.errors import UsageProblem

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "lab" / "schema"
PUBLISHED = ROOT / "lab" / "published" / "figures.json"
REPORTS = ROOT / "lab" / "published" / "reports.toml"


def experiments() -> Path:
    """The folder that holds a folder for each experiment (GYRE_LAB_EXPERIMENTS)."""
    return Path(os.environ.get("GYRE_LAB_EXPERIMENTS", ROOT / "lab" / "experiments"))


def build() -> Path:
    """The CMake build tree; its programs are `lab/NAME/CONTENDER` (GYRE_LAB_BUILD)."""
    return Path(os.environ.get("GYRE_LAB_BUILD", ROOT / "build" / "release"))


def names_build() -> bool:
    """Whether GYRE_LAB_BUILD names another build tree than the repository's own."""
    return "GYRE_LAB_BUILD" in os.environ


def results() -> Path:
    """The folder of result files (GYRE_LAB_RESULTS); git ignores it."""
    return Path(os.environ.get("GYRE_LAB_RESULTS", ROOT / "results"))


def shown(path: Path) -> str:
    """`path` relative to the working directory if it is below that, otherwise as it is."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def check_writable(file: Path) -> None:
    """Makes the folder of `file`; a UsageProblem when the file could not be written there."""
    if file.is_dir():
        raise UsageProblem(f"{shown(file)}: is a folder; name a file in it")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=file.parent):
            pass
        if file.exists():
            with file.open("ab"):
                pass
    except FileExistsError as error:
        problem = f"{shown(file)}: cannot write: {shown(file.parent)} is not a folder"
        raise UsageProblem(problem) from error
    except OSError as error:
        raise UsageProblem(f"{shown(file)}: cannot write: {error.strerror}") from error
