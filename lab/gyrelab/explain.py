# SPDX-License-Identifier: Apache-2.0
"""Where the time of one contender goes: sampled stacks, system calls, allocations, switches.

The program runs once for each source, as in a measurement. A source that this machine lacks is a
line in `Explanation.missing`.
"""

import resource
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gyrelab import cells, program, stacks, syscalls
from gyrelab.cells import Value
from gyrelab.errors import LabError, UsageProblem, pick
from gyrelab.experiments import GRIDS, Contender, Experiment
from gyrelab.program import Contestant, Outcome

_SEARCHED = ("quick", "full", "published", "smoke")
_SLOWED = 5  # times the experiment's time limit, for a program that is observed
_PERF = ("perf", "record", "--quiet", "--freq", "1997", "--call-graph", "dwarf,4096")


@dataclass(frozen=True)
class Usage:
    """The resources of a run by getrusage, of all its processes."""

    cpu_seconds: float
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int


@dataclass(frozen=True)
class Calls:
    """The system calls of a run and the units of work that it did."""

    counted: Counter[str]
    units: int
    by: str


@dataclass
class Explanation:
    """All that is known about one contender in one cell."""

    experiment: Experiment
    contender: Contender
    cell: dict[str, Value]
    outcome: Outcome
    usage: Usage
    allocations: dict[str, float]  # by metric, from a run that counted them
    samples: stacks.Samples | None = None
    calls: Calls | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def unit(self) -> str:
        """The name of the unit of work."""
        return self.outcome.units[0] if self.outcome.units else "run"

    @property
    def units(self) -> int:
        """The units of work of the run without an observer."""
        return self.outcome.units[1] if self.outcome.units else 1

    def processes(self) -> list[tuple[str, Counter[tuple[str, ...]]]]:
        """The sampled processes by role: a client starts its server, so its number is lower."""
        counted = self.samples.stacks if self.samples else {}
        if len(counted) < 2:
            return [(self.contender.name, stack) for stack in counted.values()]
        roles = ["client", *["server"] * (len(counted) - 1)]
        return [(role, counted[pid]) for role, pid in zip(roles, sorted(counted), strict=True)]


def find_cell(experiment: Experiment, words: list[str], grid: str | None) -> dict[str, Value]:
    """The only cell that has all these parts, `PARAMETER=VALUE` or a value alone, in the grid or
    else in the first grid that has such cells. Names and words may be cut short."""
    grids = _SEARCHED if grid is None else (pick(grid, GRIDS, "grid"),)
    parts = [_part(experiment, word) for given in words for word in given.split()]
    names = [known for known, _ in parts]
    if cells.NEIGHBOURS in experiment.parameters and cells.NEIGHBOURS not in names:
        parts.append((cells.NEIGHBOURS, "0"))  # alone, unless neighbours are asked for
    for name in grids:
        fitting = [
            cell for cell in experiment.grids[name].cells if all(_has(cell, *p) for p in parts)
        ]
        if len(fitting) == 1:
            return dict(fitting[0])
        if fitting:
            raise UsageProblem(
                f"{len(fitting)} cells of {experiment.name}'s {name} grid fit; add "
                f"{_differences(experiment, fitting)}"
            )
    known = "; ".join(
        f"{name} is {', '.join(map(str, _values(experiment, grids, name)))}"
        for name in experiment.parameters
    )
    raise UsageProblem(f"no cell of {experiment.name} has {' '.join(words)}: {known}")


def _part(experiment: Experiment, word: str) -> tuple[str | None, str]:
    name, equals, value = word.partition("=")
    if not equals:
        return None, word
    begun = [each for each in experiment.parameters if each.startswith(name)]
    if len(begun) != 1 or not name:
        pick(name, experiment.parameters, f"parameter of {experiment.name}")
        begun = [name]
    return begun[0], value


def _has(cell: cells.Cell, name: str | None, value: str) -> bool:
    return any(
        str(known) == value or (isinstance(known, str) and value and known.startswith(value))
        for known in ([cell[name]] if name else cell.values())
    )


def _values(experiment: Experiment, grids: tuple[str, ...], name: str) -> list[Value]:
    """The values of a parameter in these grids, in order of first appearance."""
    return list(dict.fromkeys(cell[name] for g in grids for cell in experiment.grids[g].cells))


def _differences(experiment: Experiment, fitting: list[dict[str, Value]]) -> str:
    choices = {
        name: list(dict.fromkeys(str(cell[name]) for cell in fitting))
        for name in experiment.parameters
    }
    return ", ".join(f"{name}={'|'.join(v)}" for name, v in choices.items() if len(v) > 1)


def find_contender(experiment: Experiment, name: str | None, cell: cells.Cell) -> Contender:
    """The contender of that name, by default the one that speaks for gyre."""
    found = experiment.contender(name or experiment.contest.of[0])
    if not found.runs_in(cell):
        able = ", ".join(each.name for each in experiment.contenders if each.runs_in(cell))
        raise UsageProblem(f"{found.name} does not run in {cells.key(cell)}; these do: {able}")
    return found


def explain(
    experiment: Experiment,
    contender: Contender,
    cell: dict[str, Value],
    file: Path,
    now: Callable[[str], None] = lambda _: None,
) -> Explanation:
    """Runs the contender once for each source. `now` is told what is being done."""
    subject = Contestant(contender.name, file)

    def run(*observer: str, started: Contestant = subject) -> Outcome:
        return program.run(
            started,
            experiment.name,
            cell,
            experiment.pin,
            experiment.timeout_seconds * (_SLOWED if observer else 1),
            experiment.memory_limit_mib,
            observer,
        )

    now("running")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = run()
    if outcome.status != "ok":
        raise LabError(f"{contender.name}: {outcome.status}: {outcome.reason}")
    usage = _used(before, resource.getrusage(resource.RUSAGE_CHILDREN))
    now("counting allocations")
    counted = run(started=subject.counting())
    allocations = {k: v for k, v in counted.metrics.items() if k.startswith("allocations_per_")}
    found = Explanation(experiment, contender, cell, outcome, usage, allocations)
    if not outcome.units:
        found.missing.append("the program does not count its units, so figures are for a whole run")
    if not found.allocations:
        found.missing.append("this experiment's programs do not count allocations")
    with tempfile.TemporaryDirectory() as folder:
        now("sampling")
        _sample(found, run, Path(folder))
        now("counting system calls")
        _count_calls(found, run, Path(folder))
    return found


def _used(before: resource.struct_rusage, after: resource.struct_rusage) -> Usage:
    return Usage(
        after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime,
        after.ru_nvcsw - before.ru_nvcsw,
        after.ru_nivcsw - before.ru_nivcsw,
        after.ru_minflt - before.ru_minflt,
        after.ru_majflt - before.ru_majflt,
    )


def _sample(found: Explanation, run: Callable[..., Outcome], folder: Path) -> None:
    if shutil.which("perf") is None:
        found.missing.append("no flame graph: perf is not installed (Debian: linux-perf)")
        return
    data = folder / "perf.data"
    outcome = run(*_PERF, "--output", str(data), "--")
    if outcome.status != "ok" or not data.exists():
        found.missing.append(f"no flame graph: perf cannot sample here: {outcome.reason}")
        return
    script = ["perf", "script", "--input", str(data), "--no-inline", "--fields", stacks.FIELDS]
    printed = subprocess.run(script, capture_output=True, text=True, errors="replace", check=False)
    samples = stacks.parse(printed.stdout)
    if samples.total == 0:
        found.missing.append("no flame graph: perf took no sample; the run is too short")
        return
    found.samples = samples


def _count_calls(found: Explanation, run: Callable[..., Outcome], folder: Path) -> None:
    reasons = []
    observers = (
        ("perf", ("stat", "-x,", "-e", syscalls.events(), "-o"), syscalls.parse_perf),
        ("strace", ("-c", "-f", "-o"), syscalls.parse_strace),
    )
    for tool, options, parse in observers:
        if shutil.which(tool) is None:
            reasons.append(f"{tool} is not installed")
            continue
        summary = folder / tool
        outcome = run(tool, *options, str(summary), *(["--"] if tool == "perf" else []))
        text = summary.read_text(encoding="utf-8", errors="replace") if summary.exists() else ""
        counted = parse(text)
        if outcome.status == "ok" and counted:
            found.calls = Calls(counted, outcome.units[1] if outcome.units else 1, tool)
            return
        reasons.append(f"{tool} cannot count them here: {outcome.reason or 'it counted none'}")
    found.missing.append(f"no system calls: {'; '.join(reasons)}")
