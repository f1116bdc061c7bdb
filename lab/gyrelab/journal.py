# SPDX-License-Identifier: Apache-2.0
"""The journal of a measurement in progress: JSON lines beside the result file, one for each run.

The first line is the result document without its runs. After the last run the whole document is
written and the journal is removed. A journal found at the start is resumed.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from gyrelab.errors import LabError, UsageProblem

SUFFIX = ".journal"


def beside(result: Path) -> Path:
    """The journal of a result file."""
    return result.with_name(result.name + SUFFIX)


def read(path: Path) -> dict[str, Any]:
    """The document with the runs so far; a line cut short by a crash is left out."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    try:
        document = json.loads(lines[0])
        document["runs"] = [json.loads(line) for line in lines[1:-1]]
    except (json.JSONDecodeError, TypeError, RecursionError) as error:
        raise UsageProblem(f"{path}: damaged journal; delete it to start anew") from error
    return document


@contextlib.contextmanager
def only_measurement(folder: Path) -> Iterator[None]:
    """Keeps other measurements away that have the same folder of results: they would disturb this
    one, and resume its journal."""
    descriptor = -1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        problem = "another measurement is under way; repeat the command when it has ended"
        raise LabError(problem) from error
    except OSError:  # a folder that cannot be made, a file system without locks
        pass
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


class Journal:
    """Appends runs; each run is written to the file before the next one starts."""

    def __init__(self, result: Path, document: dict[str, Any]) -> None:
        """Starts or resumes the journal beside `result`. `document` holds the runs so far."""
        self._result, self._path = result, beside(result)
        self.document = document
        result.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = self._write()

    @property
    def name(self) -> str:
        """The name of the result file."""
        return self._result.name

    def _write(self) -> TextIO:
        head = {name: value for name, value in self.document.items() if name != "runs"}
        temporary = self._path.with_name(self._path.name + ".new")
        with temporary.open("w", encoding="utf-8") as file:
            for line in (head, *self.document["runs"]):
                file.write(json.dumps(line) + "\n")
        temporary.replace(self._path)
        return self._path.open("a", encoding="utf-8")

    def add_experiment(self, name: str, facts: dict[str, Any]) -> None:
        """Adds an experiment's facts to the document, before its first run."""
        self.document["experiments"][name] = facts
        self._file.close()
        self._file = self._write()

    def append(self, run: dict[str, Any]) -> None:
        """Adds one run."""
        self.document["runs"].append(run)
        self._file.write(json.dumps(run) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the journal, which can be resumed later."""
        self._file.close()

    def finish(self, **last: Any) -> None:
        """Writes the whole document in one step and removes the journal."""
        self.close()
        self.document.update(last)
        temporary = self._result.with_name(self._result.name + ".new")
        temporary.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")
        temporary.replace(self._result)
        self._path.unlink()
