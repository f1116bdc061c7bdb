# SPDX-License-Identifier: Apache-2.0
"""One run of a contender's program, in a process of its own, and the result line that it prints."""

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from gyrelab import cells, neighbours, paths
from gyrelab.cells import Cell, Value

_TAIL = 300
_COMPILER_IDS: dict[Value | None, str] = {"g++": "GNU", "clang++": "Clang"}  # CMake's names


@dataclass(frozen=True)
class Contestant:
    """A program of a measurement: a contender, or a copy of one under another name."""

    name: str
    program: Path
    extra: tuple[str, ...] = ()

    def counting(self) -> "Contestant":
        """The same program, which counts its allocations and is slower for it."""
        return replace(self, extra=(*self.extra, "--count", "allocations"))


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run; `reason` explains every status but ok."""

    # ok, out_of_memory (at its limit), refused (this machine cannot run the cell), failed (its own
    # check), crashed, timeout, invalid (no valid result line)
    status: str
    reason: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    checks: dict[str, Any] = field(default_factory=dict)
    build: dict[str, Any] = field(default_factory=dict)
    wall_seconds: float = 0.0
    units: tuple[str, int] | None = None  # name and number of the units of work, warm-up included


@cache
def line_schema() -> jsonschema.Draft202012Validator:
    """The validator of the line that a contender prints."""
    text = (paths.SCHEMAS / "contender-line.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def run(
    contestant: Contestant,
    experiment: str,
    cell: Cell,
    pin: tuple[int, ...] = (),
    timeout_seconds: float = 60,
    memory_limit_mib: int = 0,
    observer: tuple[str, ...] = (),
) -> Outcome:
    """Starts the program with the cell's parameters, and the cell's busy processes beside it, and
    waits for its line. `observer` is a command that starts the program in turn, such as strace."""
    with neighbours.beside(cell, pin):
        return _run(contestant, experiment, cell, pin, timeout_seconds, memory_limit_mib, observer)


def _run(
    contestant: Contestant,
    experiment: str,
    cell: Cell,
    pin: tuple[int, ...],
    timeout_seconds: float,
    memory_limit_mib: int,
    observer: tuple[str, ...],
) -> Outcome:
    command = [*observer, str(contestant.program), *cells.arguments(cell), *contestant.extra]
    if pin:
        command += ["--pin", ",".join(map(str, pin))]
    if memory_limit_mib:
        command += ["--memory-limit", str(memory_limit_mib)]
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must reach only the lab, which then ends the program
        )
    except OSError as error:
        return Outcome("crashed", f"cannot start: {error.strerror}")
    try:
        out, err = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        return Outcome(
            "timeout", f"no result within {timeout_seconds:g} s", wall_seconds=timeout_seconds
        )
    except BaseException:
        _end(process)
        raise
    wall = round(time.monotonic() - started, 6)
    output, errors = out.decode(errors="replace"), err.decode(errors="replace")
    return _judge(process.returncode, output, errors, experiment, cell, wall)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the program and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _judge(
    code: int, output: str, errors: str, experiment: str, cell: Cell, wall: float
) -> Outcome:
    tail = " ".join(errors.split())[-_TAIL:]
    if code < 0:
        names = {each.value: each.name for each in signal.Signals}
        name = names.get(-code, f"signal {-code}")
        return Outcome(
            "crashed", f"killed by {name}{': ' + tail if tail else ''}", wall_seconds=wall
        )
    try:
        line = json.loads(output)
    except (json.JSONDecodeError, RecursionError):
        printed = tail or " ".join(output.split())[-_TAIL:] or "nothing"
        status = "invalid" if code == 0 else "crashed"
        return Outcome(
            status,
            f"exit status {code}, no JSON line; the program printed: {printed}",
            wall_seconds=wall,
        )
    problem = next(line_schema().iter_errors(line), None)
    if problem is not None:
        return Outcome(
            "invalid", f"{problem.json_path}: {problem.message}"[:_TAIL], wall_seconds=wall
        )
    if not line["ok"]:
        expected = (name for name in ("out_of_memory", "refused") if line.get(name))
        status = next(expected, "failed")
        return Outcome(status, line["error"], checks=line.get("checks", {}), wall_seconds=wall)
    if code != 0:
        return Outcome(
            "crashed", f"exit status {code} after the result line: {tail}", wall_seconds=wall
        )
    if line["experiment"] != experiment:
        wrong = f"the result line names experiment '{line['experiment']}', not '{experiment}'"
        return Outcome("invalid", wrong, wall_seconds=wall)
    for name, value in cells.passed(cell).items():
        if line["parameters"].get(name) != value:
            got = line["parameters"].get(name)
            wrong = f"the result line has {name} = {got!r}, the cell {value!r}"
            return Outcome("invalid", wrong, wall_seconds=wall)
    compiler = _COMPILER_IDS.get(cell.get(cells.COMPILER))
    if compiler and not line.get("build", {}).get("compiler", compiler).startswith(compiler):
        wrong = f"the program was compiled by {line['build']['compiler']}, not by {compiler}"
        return Outcome("invalid", wrong, wall_seconds=wall)
    units = line.get("units")
    return Outcome(
        "ok",
        metrics=line["metrics"],
        checks=line.get("checks", {}),
        build=line.get("build", {}),
        wall_seconds=wall,
        units=(units["name"], units["count"]) if units else None,
    )
