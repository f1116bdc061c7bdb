# SPDX-License-Identifier: Apache-2.0
"""The contenders' programs: as a build tree has them, or compiled when an experiment's turn comes.

Nothing is measured while programs are compiled, and nothing is compiled while runs are measured.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gyrelab import paths
from gyrelab.cells import COMPILER, Cell, Value, unique
from gyrelab.errors import LabError

# CPU time of compiling, relative to the 0.7 s of a source of the sample: most contenders' sources,
# gyre's by room, and those of other rooms and of the harness.
COMPILE_SECONDS = 1.3
# A step of the library compiles several sources.
ROOM_SECONDS = {"base": 1.6, "task": 1.4, "http": 5.7, "net": 3.6, "tls": 3.7, "trace": 2.9}
LIBRARY_SECONDS = 2.2
LINK_SECONDS = 0.1
_SAMPLE = "gyre_base"  # the target that is compiled first, to see how fast this machine compiles
_SAMPLED = " gyre/base/"
_SLOWEST, _FASTEST = 4.0, 0.02  # a compiler cache answers that fast
_PROGRAMS = "lab/programs.txt"
_STEP = re.compile(r"\[(\d+)/(\d+)\] (.*)")

Watch = Callable[[int, int], None]  # the build's finished steps, and its steps
Step = Callable[[int, int, str], None]  # the same, and the step that has finished


class BuildFailure(LabError):
    """The build ended with an error; `details` is its output without the lines of its progress."""

    def __init__(self, doing: str, output: str) -> None:
        super().__init__(f"{doing} failed")
        self.details = output


class Programs:
    """The programs of a build tree as they are."""

    def __init__(self, tree: Path, compiler: str | None = None) -> None:
        """`compiler` is `g++` or `clang++`; by default the one that configured the tree."""
        self.tree = tree
        self.compiler = compiler or _read_compiler(tree)
        self.named = compiler is None  # a user's: it has all programs, whatever its compiler

    @property
    def compilers(self) -> list[str]:
        """The compilers for which there may be programs."""
        return [self.compiler]

    def built_by(self, compiler: str) -> "Programs":
        """The programs of one of `compilers`."""
        assert compiler == self.compiler
        return self

    def path(self, experiment: str, contender: str) -> Path:
        """The file of a program."""
        return self.tree / "lab" / experiment / contender

    def cells(self, grid: Sequence[Cell], compilers: Sequence[str] = ()) -> list[dict[str, Value]]:
        """The cells of a grid for whose compiler there may be programs.

        `compilers` replaces those of the grid, and the compiler of a tree that a user names both.
        """
        found: list[dict[str, Value]] = []
        for cell in grid:
            if COMPILER not in cell:
                found.append(dict(cell))
                continue
            wanted = self.compilers if self.named else compilers or [str(cell[COMPILER])]
            found += [{**cell, COMPILER: each} for each in wanted if each in self.compilers]
        return unique(found)

    def has(self, experiment: str, contender: str) -> bool:
        """Whether the program can be measured."""
        return os.access(self.path(experiment, contender), os.X_OK)

    def expect(self, contenders: Mapping[str, Sequence[str]], seconds: Mapping[str, float]) -> None:
        """Announces the contenders of each experiment that will be prepared, for seconds_left().

        `seconds`: the CPU time of compiling one of the experiment's sources, where it is known.
        """

    def prepare(self, experiment: str, contenders: Iterable[str], watch: Watch) -> None:
        """Makes the programs ready to run."""

    def calibrate(self) -> None:
        """Compiles a little, so that seconds_left() knows the speed of this machine."""

    def own_seconds(self, experiment: str) -> float:
        """The expected duration of compiling what no other experiment needs."""
        return 0.0

    def seconds_left(self) -> float:
        """The expected duration of the announced preparations that are still to come."""
        return 0.0


class CompiledPrograms(Programs):
    """The programs of a build tree, compiled by CMake and Ninja when they are prepared."""

    def __init__(self, tree: Path, compiler: str = "g++") -> None:
        """Configures the tree, or configures it again when a CMakeLists.txt has changed."""
        super().__init__(tree, compiler)
        configure = ["cmake", "--build", str(tree), "--target", "build.ninja"]
        if not (tree / "build.ninja").exists():
            configure = ["cmake", *_SETTINGS[compiler](), "-B", str(tree), "--log-level=NOTICE"]
        _run_build(configure, "configuring", lambda *_: None)
        listed = tree / _PROGRAMS
        self._known = set(listed.read_text(encoding="utf-8").split()) if listed.exists() else set()
        self._ready: set[str] = set()
        self._waiting: dict[str, float] = {}  # step -> CPU time
        self._taken, self._foreseen = 0.0, 0.0  # by the steps so far: seconds, and as expected

    def has(self, experiment: str, contender: str) -> bool:
        """Whether CMake has found all that the program needs."""
        return f"{experiment}/{contender}" in self._known

    def expect(self, wanted: Mapping[str, Sequence[str]], seconds: Mapping[str, float]) -> None:
        """Asks Ninja for the steps that it will make."""
        targets = [_target_name(name, each) for name, names in wanted.items() for each in names]
        if not targets:
            return
        # By its own file Ninja would have CMake run again first, and tell of nothing behind that.
        planned = self.tree / "planned.ninja"
        shutil.copyfile(self.tree / "build.ninja", planned)
        command = [*self._make_command(targets), "--", "-f", planned.name, "-n"]
        output = _run_build(command, "planning", lambda *_: None)
        planned.unlink()
        steps = [match.group(3) for line in output if (match := _STEP.match(line))]
        self._waiting = {step: _estimate_seconds(step, seconds) for step in steps}

    def prepare(self, experiment: str, contenders: Iterable[str], watch: Watch) -> None:
        """Compiles the programs; a BuildFailure when that fails."""
        targets = [_target_name(experiment, each) for each in contenders]
        if self._ready.issuperset(targets):
            return
        self._compile(targets, f"compiling {experiment}", watch)
        self._ready.update(targets)

    def calibrate(self) -> None:
        """Compiles the first room of the library, if it waits."""
        if any(_SAMPLED in step for step in self._waiting):
            self._compile([_SAMPLE], f"compiling {_SAMPLE}", lambda *_: None)

    def own_seconds(self, experiment: str) -> float:
        """The CPU time of the experiment's own waiting steps over the processors."""
        folder = f" lab/experiments/{experiment}/"
        own = sum(seconds for step, seconds in self._waiting.items() if folder in step)
        return own / _count_processors()

    def _compile(self, targets: Sequence[str], doing: str, watch: Watch) -> None:
        started, taken = time.monotonic(), self._taken

        def step(done: int, steps: int, name: str) -> None:
            self._foreseen += self._waiting.pop(name, 0.0) / _count_processors()
            self._taken = taken + time.monotonic() - started
            watch(done, steps)

        _run_build(self._make_command(targets), doing, step)

    def seconds_left(self) -> float:
        """The CPU time of the waiting steps over the processors, at the speed of those so far."""
        speed = 1.0
        if self._foreseen > 0:
            speed = min(_SLOWEST, max(_FASTEST, self._taken / self._foreseen))
        return sum(self._waiting.values()) / _count_processors() * speed

    def _make_command(self, targets: Sequence[str]) -> list[str]:
        parallel = ["--parallel", str(_count_processors())]
        return ["cmake", "--build", str(self.tree), *parallel, "--target", *targets]


class BothCompilers(Programs):
    """The programs of two build trees: one of g++, one of Clang."""

    def __init__(self, gcc: Programs, clang: Programs) -> None:
        super().__init__(gcc.tree, gcc.compiler)
        self._trees = {each.compiler: each for each in (gcc, clang)}

    @property
    def compilers(self) -> list[str]:
        """Both."""
        return list(self._trees)

    def built_by(self, compiler: str) -> Programs:
        """The programs of one tree."""
        return self._trees[compiler]

    def has(self, experiment: str, contender: str) -> bool:
        """Whether a program of g++ can be measured."""
        return self._trees["g++"].has(experiment, contender)

    def calibrate(self) -> None:
        """Both."""
        for each in self._trees.values():
            each.calibrate()

    def own_seconds(self, experiment: str) -> float:
        """The sum of both trees."""
        return sum(each.own_seconds(experiment) for each in self._trees.values())

    def seconds_left(self) -> float:
        """The sum of both trees."""
        return sum(each.seconds_left() for each in self._trees.values())


def programs(build: Path | None, both: bool = False) -> Programs:
    """The programs of a command: the repository's are compiled, others used as they are.

    `build` is a build tree that a user names; GYRE_LAB_BUILD names one, too. `both`: programs of
    Clang are wanted as well; there are none where Clang is not installed.
    """
    if build is not None or paths.names_build():
        return Programs(build or paths.build())
    kind = Programs if os.environ.get("GYRE_LAB_NO_BUILD") else CompiledPrograms
    gcc = kind(paths.build(), "g++")
    if not both or find_clang() is None:
        return gcc
    return BothCompilers(gcc, kind(paths.build().with_name("clang"), "clang++"))


def find_clang() -> str | None:
    """The program of Clang, as the preset `clang` names it or as the system does."""
    return next((name for name in ("clang++-19", "clang++") if shutil.which(name)), None)


def _make_clang_settings() -> list[str]:
    return [
        "--preset",
        "clang",
        f"-DCMAKE_CXX_COMPILER={find_clang()}",
        "-DGYRE_WARNINGS_AS_ERRORS=OFF",  # another version may have other warnings
    ]


COMPILERS = ("g++", "clang++")
_SETTINGS: dict[str, Callable[[], list[str]]] = {
    "g++": lambda: ["--preset", "release"],
    "clang++": _make_clang_settings,
}


def _read_compiler(tree: Path) -> str:
    try:
        cache = (tree / "CMakeCache.txt").read_text(encoding="utf-8")
    except OSError:
        return "g++"
    return "clang++" if re.search(r"^CMAKE_CXX_COMPILER:\w+=.*clang", cache, re.M) else "g++"


def _target_name(experiment: str, contender: str) -> str:
    return f"lab_{experiment}_{contender}"


def _count_processors() -> int:
    return len(os.sched_getaffinity(0))


def _estimate_seconds(step: str, seconds: Mapping[str, float]) -> float:
    if not step.startswith("Building") or "/built_as/" in step:
        return LINK_SECONDS
    if experiment := re.search(r" lab/experiments/(\w+)/", step):
        return seconds.get(experiment.group(1), COMPILE_SECONDS)
    room = re.search(r" gyre/(\w+)/", step)
    return ROOM_SECONDS.get(room.group(1), LIBRARY_SECONDS) if room else LIBRARY_SECONDS


def _run_build(command: list[str], doing: str, step: Step) -> list[str]:
    """Runs a build and calls `step` after each of its steps; returns the lines that it printed."""
    lines, told = [], []
    environment = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
    try:
        process = subprocess.Popen(
            command,
            cwd=paths.ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # its compilers end with it
        )
    except OSError as error:
        raise BuildFailure(doing, f"{command[0]}: {error.strerror}") from error
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if match := _STEP.match(line):
                step(int(match.group(1)), int(match.group(2)), match.group(3))
            else:
                told.append(line)
        status = process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    if status != 0:
        raise BuildFailure(doing, "".join(told).strip())
    return lines
