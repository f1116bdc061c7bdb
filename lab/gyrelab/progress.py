# SPDX-License-Identifier: Apache-2.0
"""Progress of a measurement: a bar with the time left on a terminal, a line a round elsewhere."""

import time

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from gyrelab.planning import Part, PlannedRun
from gyrelab.program import Outcome

_WORTH_SAYING = 20  # seconds


def clock(seconds: float | None) -> str:
    """Seconds as `m:ss`, or `h:mm:ss` from an hour on."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class ProgressView:
    """The runner's Watcher on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_line = ""
        self._began = time.monotonic()
        self._task: TaskID | None = None
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]} left"),
            TextColumn("[dim]{task.fields[now]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> "ProgressView":
        self._bar.start()
        self._began = time.monotonic()
        self._task = self._bar.add_task("preparing", total=None, left="?", now="")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        taken = time.monotonic() - self._began
        if taken >= _WORTH_SAYING:
            self._console.print(f"took {clock(taken)}")

    def begin(self, total: int, done: int, seconds: float | None) -> None:
        """Watcher."""
        if seconds is not None and seconds >= _WORTH_SAYING:
            whole = seconds + time.monotonic() - self._began
            self._console.print(f"about {clock(whole)} for {total - done:,} runs")
        if done:
            self._console.print(f"resuming: {done} of {total} runs are done already")
        if self._task is not None:
            self._bar.update(self._task, description="measuring", total=total, completed=done)

    def compiling(self, part: Part, done: int, steps: int, seconds_left: float | None) -> None:
        """Watcher."""
        self._show(f"{part.experiment.name} compiling", f"step {done} of {steps}", seconds_left)

    def before(self, run: PlannedRun, seconds_left: float | None) -> None:
        """Watcher."""
        part = run.part
        name = f"round {run.round}/{part.rounds}" if run.round > 0 else "warm-up"
        if run.round > part.rounds:
            name = "further rounds"
        values = " ".join(str(value) for value in run.cell.values())
        self._show(
            f"{part.experiment.name} {name}", f"{run.contestant.name} {values}", seconds_left
        )

    def after(self, run: PlannedRun, outcome: Outcome) -> None:
        """Watcher."""
        if self._task is not None:
            self._bar.advance(self._task)
        if outcome.status in ("out_of_memory", "refused"):
            self._print("[yellow]†[/]", run, outcome.reason)
        elif outcome.status != "ok":
            self._print("[red]✗[/]", run, f"{outcome.status}: {outcome.reason}")

    def _show(self, place: str, now: str, seconds_left: float | None) -> None:
        """Updates the bar; without a terminal prints a line when the measurement comes to another
        place."""
        if self._task is not None:
            self._bar.update(self._task, description=place, left=clock(seconds_left), now=now)
        if not self._console.is_terminal and self._last_line != place:
            self._last_line = place
            left = "" if seconds_left is None else f", {clock(seconds_left)} left"
            self._console.print(f"{place}{left}")

    def _print(self, mark: str, run: PlannedRun, message: str) -> None:
        values = " ".join(f"{name}={value}" for name, value in run.cell.items())
        program = f"{run.part.experiment.name}/{run.contestant.name}"
        self._console.print(f"{mark} {program} {values}: {escape(message)}", highlight=False)
