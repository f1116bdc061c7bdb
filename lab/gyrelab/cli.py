# SPDX-License-Identifier: Apache-2.0
"""The command line: reads the arguments, calls the modules, prints their results."""

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from gyrelab import (
    cells,
    comparison,
    doctor,
    experiments,
    paths,
    regressions,
    results,
    runner,
    trust,
)
from gyrelab import report as report_page
from gyrelab.cells import Value
from gyrelab.errors import LabError, UsageProblem, did_you_mean, pick
from gyrelab.experiments import GRIDS, Experiment
from gyrelab.figures import figure
from gyrelab.progress import ProgressView

app = typer.Typer(
    help="Measures each part of gyre beside its peers in the same run.",
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(highlight=False)
warnings = Console(stderr=True, highlight=False)

BuildDir = Annotated[
    Path | None,
    typer.Option(
        help="CMake build tree with the contenders (default: GYRE_LAB_BUILD or build/release)."
    ),
]


@app.command("list")
def list_experiments(build_dir: BuildDir = None) -> None:
    """Show the experiments, their contenders and grids, and which programs are built."""
    build = build_dir or paths.build()
    for experiment in experiments.load_all().values():
        console.print(f"\n[bold]{experiment.name}[/]  {experiment.question}")
        table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
        for _ in ("name", "built"):
            table.add_column(no_wrap=True, min_width=14)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for each in experiment.contenders:
            built = os.access(experiment.program(each.name, build), os.X_OK)
            table.add_row(each.name, "" if built else "[yellow]not built[/]", each.about)
        console.print(table)
        grids = (f"{g.name} {len(g.cells)} cells × {g.rounds}" for g in experiment.grids.values())
        console.print(f"  [dim]{', '.join(grids)} rounds[/]")


@app.command()
def run(
    experiment: Annotated[
        list[str] | None, typer.Argument(help="Experiments to measure; all by default.")
    ] = None,
    grid: Annotated[str, typer.Option(help=f"Grid of cells: {', '.join(GRIDS)}.")] = "quick",
    contenders: Annotated[
        str, typer.Option(help="Contenders, separated by commas; all by default.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Result file; by default a new one in results/.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Number of rounds; the grid's by default.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random order.")] = 1,
    fresh: Annotated[bool, typer.Option(help="Do not resume an interrupted run.")] = False,
    strict: Annotated[bool, typer.Option(help="Exit with status 1 when any run failed.")] = False,
    build_dir: BuildDir = None,
) -> None:
    """Measure. The same command resumes after an interruption."""
    chosen = _experiments(experiment or [])
    pick(grid, GRIDS, "grid")
    parts = runner.choose(chosen, grid, _names(contenders), build_dir or paths.build(), rounds)
    for part in parts:
        if part.not_built:
            warnings.print(
                f"[yellow]not built:[/] {part.experiment.name}: {', '.join(part.not_built)}"
            )
    target = out or _resumable(grid, parts, fresh) or runner.default_out(grid)
    measured = _measure(parts, grid, target, seed, fresh)
    console.print(f"results: {paths.shown(target)}")
    if _print_failures(measured) and strict:
        raise typer.Exit(1)


def _measure(
    parts: list[runner.Part], grid: str, target: Path, seed: int, fresh: bool
) -> results.Results:
    record = runner.open_journal(target, grid, parts, seed, fresh)
    total = len(runner.plan(parts, seed))
    try:
        with ProgressView(console) as view:
            return runner.measure(parts, record, view)
    except KeyboardInterrupt:
        kept = len(record.document["runs"])
        warnings.print(
            f"interrupted: {kept} of {total} runs are kept; repeat the command to resume"
        )
        raise typer.Exit(130) from None


def _resumable(grid: str, parts: list[runner.Part], fresh: bool) -> Path | None:
    return None if fresh else runner.unfinished(paths.results(), runner.fingerprint(grid, parts))


def _print_failures(measured: results.Results) -> bool:
    failures = [run for name in measured.experiments for run in measured.failures(name)]
    if failures:
        names = sorted({f"{run['experiment']}/{run['contender']}" for run in failures})
        warnings.print(f"[red]{len(failures)} runs failed:[/] {', '.join(names)}")
    return bool(failures)


@app.command()
def ratio(
    file: Annotated[Path, typer.Argument(help="A result file.")],
    experiment: Annotated[str, typer.Argument(help="An experiment in it.")],
    of: Annotated[str, typer.Option(help="Contenders; the slowest of them counts.")],
    over: Annotated[str, typer.Option(help="Contenders; the best of them counts.")],
    minimum: Annotated[
        float | None, typer.Option("--min", help="Exit with status 1 when the ratio is below this.")
    ] = None,
    where: Annotated[list[str] | None, typer.Option(help="Cells: PARAMETER=VALUE[,VALUE].")] = None,
    metric: Annotated[str | None, typer.Option(help="A metric; the main one by default.")] = None,
) -> None:
    """Compare the slowest of some contenders with the best of others: geometric mean over cells."""
    measured = results.load(file)
    subject = _measured_experiment(measured, experiment)
    ours, theirs = _names(of), _names(over)
    for name in (*ours, *theirs):
        subject.contender(name)
        if name not in measured.contenders(subject.name):
            built = (
                "was not built" if name in measured.not_built(subject.name) else "was not measured"
            )
            warnings.print(f"[yellow]{name} {built} in {measured.name}[/]")
    chosen = _where(subject, where or [])
    found = comparison.compare(
        measured, subject.name, subject.find_metric(metric), ours, theirs, chosen
    )
    for gap in found.gaps[:8]:
        warnings.print(f"[yellow]left out:[/] {gap}")
    if len(found.gaps) > 8:
        warnings.print(f"[yellow]left out:[/] … and {len(found.gaps) - 8} more")
    if found.ratio is None:
        raise LabError("no cell has figures for both --of and --over, so there is no ratio")
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0))
    for title in ("cell", "slowest", "best", "ratio", "95 % interval"):
        table.add_column(title)
    for each in found.cells:
        noisy = "  too noisy" if each.ratio.too_noisy else ""
        table.add_row(
            cells.key(each.cell),
            each.slowest,
            each.best,
            f"{each.ratio.value:.3f}",
            f"{each.ratio.low:.3f} to {each.ratio.high:.3f}{noisy}",
        )
    console.print(table)
    console.print(
        f"{of} over {over}: [bold]{found.ratio.value:.3f}[/] "
        f"({found.ratio.low:.3f} to {found.ratio.high:.3f}), geometric mean of {len(found.cells)} cells"
    )
    if minimum is not None and found.ratio.value < minimum:
        warnings.print(f"[red]below {minimum:g}[/]")
        raise typer.Exit(1)


@app.command()
def report(
    file: Annotated[
        list[Path] | None, typer.Argument(help="Result files; the newest by default.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report/index.html"
    ),
) -> None:
    """Write the report: one HTML file, and its charts as SVG and PNG beside it."""
    chosen: dict[str, results.Results] = {}
    for path in file or [results.newest()]:
        measured = results.load(path)
        if not measured.complete:
            warnings.print(
                f"[yellow]{measured.name} was interrupted; the report covers the finished runs[/]"
            )
        chosen |= dict.fromkeys(measured.experiments, measured)
    written = report_page.write(chosen, out)
    console.print(f"report: {paths.shown(written)}")


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="The result file to compare with.")],
    after: Annotated[Path, typer.Argument(help="The newer result file.")],
    tolerance: Annotated[
        float, typer.Option(help="Largest change, in percent, that is no regression.", min=0)
    ] = 2,
    relative_to: Annotated[
        str | None, typer.Option(help="Contender by whose figures all others are divided.")
    ] = None,
) -> None:
    """List changes between two result files; exit with status 1 on a regression beyond noise."""
    old, new = results.load(before), results.load(after)
    if relative_to is not None:
        known = dict.fromkeys(c for each in new.experiments for c in new.contenders(each))
        pick(relative_to, known, f"contender in {new.name}")
    _warn_about_machines(old, new)
    changes, left_out = regressions.compare(old, new, relative_to)
    for line in left_out[:5]:
        warnings.print(f"[yellow]left out:[/] {line}")
    if len(left_out) > 5:
        warnings.print(f"[yellow]left out:[/] … and {len(left_out) - 5} more")
    if not changes:
        raise UsageProblem(f"{old.name} and {new.name} have no contender and cell in common")
    worse = regressions.regressions(changes, tolerance / 100)
    better = [change for change in changes if change.certain and change.worse < 1 - tolerance / 100]
    for change in sorted(better, key=lambda change: change.worse):
        console.print(f"[green]better[/] {_change(change)}")
    for change in worse:
        console.print(f"[red]worse[/]  {_change(change)}")
    console.print(
        f"{len(changes)} compared: {len(better)} better, {len(worse)} worse, the rest within noise"
    )
    if worse:
        raise typer.Exit(1)


def _change(change: regressions.Change) -> str:
    return f"{change.place}: {figure(change.before)} → {figure(change.after)} ({change.worse - 1:+.1%})"


def _warn_about_machines(old: results.Results, new: results.Results) -> None:
    for fact in ("processor", "cores", "kernel", "governor"):
        one, two = (each.document["machine"][fact] for each in (old, new))
        if one != two:
            warnings.print(f"[yellow]{fact} differs:[/] {one} before, {two} after")


@app.command("doctor")
def examine_machine() -> None:
    """Check whether this machine is quiet enough to measure; exit with status 1 when it is not."""
    with console.status("measuring noise"):
        findings = doctor.examine()
    marks = {doctor.GOOD: "[green]✓[/]", doctor.FAIR: "[yellow]~[/]", doctor.POOR: "[red]✗[/]"}
    for each in findings:
        console.print(f"{marks[each.state]} [bold]{each.subject}[/]: {each.found}", soft_wrap=True)
        if each.advice:
            console.print(f"    {each.advice}", style="dim", soft_wrap=True)
    poor = [each.subject for each in findings if each.state == doctor.POOR]
    if poor:
        console.print(f"this machine is not fit to measure: {', '.join(poor)}")
        raise typer.Exit(1)
    console.print("ready to measure")


@app.command("trust")
def test_the_lab(
    small: Annotated[
        bool, typer.Option("--small", help="Take half a minute (the default).")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="All numbers of producers, three contenders.")
    ] = False,
    build_dir: BuildDir = None,
) -> None:
    """Test the lab itself: A against A, a known handicap, lost and repeated tasks."""
    if small and full:
        raise UsageProblem("--small and --full exclude each other; choose one")
    size = trust.FULL if full else trust.SMALL
    build = build_dir or paths.build()
    known = experiments.load_all()
    subject = known[pick("post_task", known, "experiment")]
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        with ProgressView(console) as view:
            trials = [trust.false_alarms(subject, build, size, Path(folder), view)]
        for name, contender in size.slowed:
            with ProgressView(console) as view:
                trials.append(trust.handicap(known[name], contender, build, Path(folder), view))
        with console.status("sabotage"):
            trials.append(trust.sabotage(list(known.values()), build))
    for trial in trials:
        passed &= trial.passed
        mark = "[green]✓[/]" if trial.passed else "[red]✗[/]"
        console.print(f"{mark} [bold]{trial.title}[/]: {trial.found}", soft_wrap=True)
    if not passed:
        raise typer.Exit(1)


def _experiments(names: list[str]) -> list[Experiment]:
    known = experiments.load_all()
    if not known:
        raise LabError(f"no experiments in {paths.shown(paths.experiments())}")
    return [known[pick(name, known, "experiment")] for name in dict.fromkeys(names or known)]


def _measured_experiment(measured: results.Results, name: str) -> Experiment:
    pick(name, measured.experiments, f"experiment in {measured.name}")
    return measured.experiment(name)


def _names(listed: str) -> list[str]:
    return [name for name in (part.strip() for part in listed.split(",")) if name]


def _where(experiment: Experiment, conditions: list[str]) -> dict[str, list[Value]]:
    chosen: dict[str, list[Value]] = {}
    for condition in conditions:
        name, equals, listed = condition.partition("=")
        if not equals or not listed:
            raise UsageProblem(f"--where '{condition}': write PARAMETER=VALUE[,VALUE]")
        pick(name, experiment.parameters, f"parameter of {experiment.name}")
        allowed = experiment.parameters[name].values
        values: list[Value] = [int(v) if v.isdecimal() else v for v in _names(listed)]
        for value in values:
            if allowed and value not in allowed:
                hint = did_you_mean(str(value), map(str, allowed))
                raise UsageProblem(f"--where '{condition}': no {name} '{value}': {hint}")
        chosen[name] = values
    return chosen


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _honour_signals() -> None:
    """Let Ctrl-C and SIGTERM interrupt, even if a parent left them ignored or blocked (nohup, a job
    in the background)."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))


def main() -> NoReturn:
    """Runs the command line; a LabError or a wrong argument becomes one line on standard error."""
    _honour_signals()
    command = typer.main.get_command(app)
    try:
        status = command.main(prog_name="lab", standalone_mode=False)
    except LabError as error:
        status = _fail(str(error), error.exit_status)
    except typer.exceptions.TyperException as error:
        status = _fail(_one_line(error), getattr(error, "exit_code", 2))
    except KeyboardInterrupt:
        status = 130
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> int:
    if message:
        warnings.print(f"[red]lab:[/] {message}", soft_wrap=True)
    return status


def _one_line(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    name = type(error).__name__
    if name == "NoArgsIsHelpError":  # the help is printed already
        return ""
    if context is not None and "No such command" in message:
        wanted = message.split("'")[1]
        return f"no command '{wanted}': {did_you_mean(wanted, context.command.commands)}"
    where = f" (see `{context.command_path} --help`)" if context is not None else ""
    return f"{message.rstrip('.')}{where}"
