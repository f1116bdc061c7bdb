# SPDX-License-Identifier: Apache-2.0
"""The commands of the command line: each calls the modules and prints their results.

Modules that load large packages (altair, scipy.stats) are imported where they are used.
"""

import functools
import os
import tempfile
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gyrelab import (
    building,
    cells,
    comparison,
    experiments,
    journal,
    paths,
    planning,
    regressions,
    results,
    runner,
)
from gyrelab.building import COMPILERS, Programs
from gyrelab.cells import Value
from gyrelab.errors import LabError, UsageProblem, did_you_mean, pick
from gyrelab.experiments import GRIDS, Experiment
from gyrelab.figures import figure
from gyrelab.progress import ProgressView

console = Console(highlight=False)
warnings = Console(stderr=True, highlight=False)


def list_experiments(build: Path) -> None:
    """Prints the experiments, their contenders and grids, and which programs are built."""
    for experiment in experiments.load_all().values():
        console.print(f"\n[bold]{experiment.name}[/]  {experiment.question}")
        table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
        longest = max(len(each.name) for each in experiment.contenders)
        for width in (longest, len("not built")):
            table.add_column(no_wrap=True, min_width=width)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for each in experiment.contenders:
            built = os.access(experiment.program(each.name, build), os.X_OK)
            table.add_row(each.name, "" if built else "[yellow]not built[/]", each.about)
        console.print(table)
        grids = (
            f"{g.name} {len(g.cells)} cells × {g.rounds}"
            for g in experiment.grids.values()
            if g.cells
        )
        console.print(f"  [dim]{', '.join(grids)} rounds[/]")


def run(
    names: list[str],
    grid: str,
    contenders: str | None,
    out: Path | None,
    rounds: int | None,
    seed: int,
    fresh: bool,
    strict: bool,
    page: Path | None,
    build: Path | None,
    compiler: str | None,
) -> None:
    """Measures, and writes the report when `page` names it."""
    pick(grid, GRIDS, "grid")
    wanted = [] if contenders is None else _names("--contenders", contenders)
    chosen = _experiments(names)
    experiments.check_contenders(chosen, wanted)
    if names:
        experiments.check_grid(chosen, grid)
    for file in (out, page):
        if file is not None:
            paths.check_writable(file)
    if out is not None and page is not None and out.resolve() == page.resolve():
        raise UsageProblem(f"{paths.shown(out)}: the results and the report need a file each")
    compilers = [] if compiler is None else _compilers(compiler)
    in_grid = {str(c.get(cells.COMPILER)) for e in chosen for c in e.grids[grid].cells}
    programs = building.programs(build, "clang++" in (compilers or in_grid))
    parts = planning.choose(chosen, grid, wanted, programs, rounds, compilers)
    for part in parts:
        if part.not_built:
            warnings.print(
                f"[yellow]not built:[/] {part.experiment.name}: {', '.join(part.not_built)}"
            )
    with ProgressView(console) as view:
        runner.announce(parts, programs)
        programs.calibrate()
        if not names:
            parts = runner.early_figures_first(parts, programs)
        prepare = functools.partial(runner.prepare, programs=programs, watcher=view)
        resumed = None if out or fresh else runner.unfinished(paths.results(), grid, parts, prepare)
        target = out or resumed or runner.default_out(grid)
        paths.check_writable(target)
        record = runner.open_journal(target, grid, parts, seed, fresh, prepare)
        measured = _measure(parts, record, view, programs, page)
    console.print(f"results: {escape(paths.shown(target))}")
    if page is not None:
        _write_page({name: measured for name in measured.experiments}, page)
    if _print_failures(measured) and strict:
        raise typer.Exit(1)


def _measure(
    parts: list[planning.Part],
    record: journal.Journal,
    view: ProgressView,
    programs: Programs,
    page: Path | None,
) -> results.Results:
    def after_part(part: planning.Part) -> None:
        if page is not None and part is parts[0]:
            so_far = results.Results(record.document, record.name)
            try:
                _write_page({name: so_far for name in so_far.experiments}, page)
            except UsageProblem as error:
                warnings.print(f"[yellow]no report yet:[/] {escape(str(error))}")

    try:
        return runner.measure(parts, record, view, programs, after_part)
    except (KeyboardInterrupt, building.BuildFailure) as error:
        kept = len(record.document["runs"])
        warnings.print(f"interrupted: {kept:,} runs are kept; repeat the command to resume")
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(130) from None
        raise


def _print_failures(measured: results.Results) -> bool:
    failures = [run for name in measured.experiments for run in measured.failures(name)]
    if failures:
        names = sorted({f"{run['experiment']}/{run['contender']}" for run in failures})
        warnings.print(f"[red]{len(failures)} runs failed:[/] {', '.join(names)}")
    return bool(failures)


def ratio(
    file: Path,
    experiment: str,
    of: str,
    over: str,
    minimum: float | None,
    where: list[str],
    metric: str | None,
) -> None:
    """Prints the ratio of the slowest of `of` to the best of `over`, by cell and over all."""
    measured = results.load(file)
    subject = _measured_experiment(measured, experiment)
    ours, theirs = _names("--of", of), _names("--over", over)
    for name in (*ours, *theirs):
        subject.contender(name)
        if name not in measured.contenders(subject.name):
            built = (
                "was not built" if name in measured.not_built(subject.name) else "was not measured"
            )
            warnings.print(f"[yellow]{name} {built} in {measured.name}[/]")
    chosen = _where(subject, where)
    found = comparison.compare(
        measured, subject.name, subject.find_metric(metric), ours, theirs, chosen
    )
    for gap in found.gaps[:8]:
        warnings.print(f"[yellow]left out:[/] {escape(gap)}")
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


def report(files: list[Path], out: Path) -> None:
    """Writes the report."""
    paths.check_writable(out)
    chosen: dict[str, results.Results] = {}
    for path in files or [results.newest()]:
        measured = results.load(path)
        if not measured.complete:
            warnings.print(
                f"[yellow]{measured.name} was interrupted; the report covers the finished runs[/]"
            )
        chosen |= dict.fromkeys(measured.experiments, measured)
    _write_page(chosen, out)


def _write_page(chosen: dict[str, results.Results], out: Path) -> None:
    from gyrelab import report as page

    try:
        written = page.write(chosen, out)
    except OSError as error:
        raise UsageProblem(f"{paths.shown(out)}: cannot write: {error.strerror}") from error
    console.print(f"report: {escape(paths.shown(written))}")


def explain(
    name: str,
    words: list[str],
    contender: str | None,
    grid: str | None,
    page: Path,
    build: Path | None,
) -> None:
    """Prints where the time of one contender goes, and writes its page."""
    from gyrelab import explain as explaining
    from gyrelab import explained

    [experiment] = _experiments([name])
    cell = explaining.find_cell(experiment, words, grid)
    chosen = explaining.find_contender(experiment, contender, cell)
    paths.check_writable(page)
    programs = _programs_of(cell, build)
    file = programs.path(experiment.name, chosen.name)
    if not programs.has(experiment.name, chosen.name):
        raise LabError(f"not built: {paths.shown(file)}")
    with console.status("compiling") as status:
        programs.prepare(
            experiment.name,
            [chosen.name],
            lambda done, steps: status.update(f"compiling: {done} of {steps} steps"),
        )
        found = explaining.explain(experiment, chosen, cell, file, status.update)
    console.print(f"[bold]{chosen.name}[/] in {experiment.name}: {cells.key(cell)}")
    shares = [(each, f"{share:.1%}", "") for each, share in explained.functions(found)]
    counted_by = f"system calls (by {found.calls.by})" if found.calls else ""
    for title, rows in (
        ("run", explained.facts(found)),
        (counted_by, explained.calls(found)),
        ("functions with most samples", shares),
    ):
        if rows:
            console.print(_table(title, rows, "" if rows is shares else f"per {found.unit}"))
    for line in found.missing:
        console.print(f"[yellow]missing:[/] {escape(line)}", soft_wrap=True)
    console.print(f"page: {escape(paths.shown(explained.write(found, page)))}")


def _programs_of(cell: dict[str, Value], build: Path | None) -> Programs:
    wanted = cell.get(cells.COMPILER)
    programs = building.programs(build, wanted == "clang++")
    if wanted is None:
        return programs
    if wanted not in programs.compilers:
        raise LabError(f"no programs of {wanted} in {paths.shown(programs.tree)}")
    return programs.built_by(str(wanted))


def _table(title: str, rows: list[tuple[str, str, str]], last: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(title, overflow="fold")
    table.add_column("", justify="right")
    table.add_column(last, justify="right")
    for name, total, each in rows:
        table.add_row(escape(name), total, each)
    return table


def compare(before: Path, after: Path, tolerance: float, relative_to: str | None) -> None:
    """Prints the changes between two result files beyond noise."""
    old, new = results.load(before), results.load(after)
    if relative_to is not None:
        known = dict.fromkeys(c for each in new.experiments for c in new.contenders(each))
        pick(relative_to, known, f"contender in {new.name}")
    _warn_about_machines(old, new)
    changes, left_out = regressions.compare(old, new, relative_to)
    for line in left_out[:5]:
        warnings.print(f"[yellow]left out:[/] {escape(line)}")
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


def examine_machine() -> None:
    """Prints whether the machine is quiet enough to measure."""
    from gyrelab import doctor

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


def test_the_lab(small: bool, full: bool, build: Path | None) -> None:
    """Prints the findings of the lab's self-test."""
    from gyrelab import trust

    if small and full:
        raise UsageProblem("--small and --full exclude each other; choose one")
    size = trust.FULL if full else trust.SMALL
    known = experiments.load_all()
    subject = known[pick("post_task", known, "experiment")]
    programs = building.programs(build)
    _compile_all(list(known.values()), programs)
    tree = programs.tree
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        with ProgressView(console) as view:
            trials = [trust.false_alarms(subject, tree, size, Path(folder), view)]
        for name, contender in size.slowed:
            with ProgressView(console) as view:
                trials.append(trust.handicap(known[name], contender, tree, Path(folder), view))
        with console.status("sabotage"):
            trials.append(trust.sabotage(list(known.values()), tree))
    for trial in trials:
        passed &= trial.passed
        mark = "[green]✓[/]" if trial.passed else "[red]✗[/]"
        console.print(f"{mark} [bold]{trial.title}[/]: {trial.found}", soft_wrap=True)
    if not passed:
        raise typer.Exit(1)


def _compilers(listed: str) -> list[str]:
    names = _names("--compiler", listed)
    for name in names:
        pick(name, COMPILERS, "compiler")
    if "clang++" in names and building.find_clang() is None:
        raise UsageProblem("--compiler: there is no clang++ here; `tools/setup all` installs it")
    return names


def _compile_all(chosen: list[Experiment], programs: Programs) -> None:
    """Compiles the contenders that can be built."""
    for experiment in chosen:
        names = [c.name for c in experiment.contenders if programs.has(experiment.name, c.name)]
        with console.status(f"compiling {experiment.name}"):
            programs.prepare(experiment.name, names, lambda *_: None)


def _experiments(names: list[str]) -> list[Experiment]:
    known = experiments.load_all()
    if not known:
        raise LabError(f"no experiments in {paths.shown(paths.experiments())}")
    return [known[pick(name, known, "experiment")] for name in dict.fromkeys(names or known)]


def _measured_experiment(measured: results.Results, name: str) -> Experiment:
    pick(name, measured.experiments, f"experiment in {measured.name}")
    return measured.experiment(name)


def _names(option: str, listed: str) -> list[str]:
    names = [name for name in (part.strip() for part in listed.split(",")) if name]
    if not names:
        raise UsageProblem(f"{option} '{listed}' names nothing: write NAME[,NAME]")
    return names


def _where(experiment: Experiment, conditions: list[str]) -> dict[str, list[Value]]:
    chosen: dict[str, list[Value]] = {}
    for condition in conditions:
        name, equals, listed = condition.partition("=")
        if not equals or not listed:
            raise UsageProblem(f"--where '{condition}': write PARAMETER=VALUE[,VALUE]")
        pick(name, experiment.parameters, f"parameter of {experiment.name}")
        allowed = experiment.parameters[name].values
        words = _names(f"--where {name}=", listed)
        values: list[Value] = [int(v) if v.isdecimal() else v for v in words]
        for value in values:
            if allowed and value not in allowed:
                hint = did_you_mean(str(value), map(str, allowed))
                raise UsageProblem(f"--where '{condition}': no {name} '{value}': {hint}")
        chosen[name] = values
    return chosen
