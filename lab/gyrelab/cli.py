# SPDX-License-Identifier: Apache-2.0
"""The command line: its arguments and errors. gyrelab.commands does the work.

gyrelab.commands is imported when a command runs, so that --help and mistakes are answered at once.
"""

import re
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gyrelab import paths
from gyrelab.errors import LabError, did_you_mean
from gyrelab.experiments import GRIDS

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from gyrelab import machine

    header = (paths.ROOT / "gyre/base/version.hpp").read_text(encoding="utf-8")
    version = re.search(r'GYRE_VERSION_STRING "(.*)"', header)
    revision = machine.revision()
    changed = " with changes" if revision["changed"] else ""
    number = version.group(1) if version else "unknown"
    typer.echo(f"gyre lab {number}, commit {revision['commit'][:12]}{changed}")
    raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Measures each part of gyre beside its peers in the same run."""


BuildDir = Annotated[
    Path | None,
    typer.Option(
        help="CMake build tree whose contenders are used as they are (default: GYRE_LAB_BUILD, or "
        "build/release, which is compiled)."
    ),
]


@app.command("list")
def list_experiments(build_dir: BuildDir = None) -> None:
    """Show the experiments, their contenders and grids, and which programs are built."""
    from gyrelab import commands

    commands.list_experiments(build_dir or paths.build())


@app.command()
def run(
    experiment: Annotated[
        list[str] | None, typer.Argument(help="Experiments to measure; all by default.")
    ] = None,
    grid: Annotated[str, typer.Option(help=f"Grid of cells: {', '.join(GRIDS)}.")] = "quick",
    contenders: Annotated[
        str | None, typer.Option(help="Contenders, separated by commas; all by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Result file; by default a new one in results/.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Number of rounds; the grid's by default.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random order.")] = 1,
    fresh: Annotated[bool, typer.Option(help="Do not resume an interrupted run.")] = False,
    strict: Annotated[bool, typer.Option(help="Exit with status 1 when any run failed.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--report", help="The report to write, after the first experiment and at the end."
        ),
    ] = None,
    build_dir: BuildDir = None,
    compiler: Annotated[
        str | None,
        typer.Option(
            help="g++, clang++ or both, separated by a comma, for experiments that have compilers; "
            "the grid's by default."
        ),
    ] = None,
) -> None:
    """Compile and measure, experiment by experiment. The same command resumes when interrupted."""
    from gyrelab import commands, journal, paths

    names = experiment or []
    with journal.only_measurement(paths.results()):
        commands.run(
            names, grid, contenders, out, rounds, seed, fresh, strict, page, build_dir, compiler
        )


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
    from gyrelab import commands

    commands.ratio(file, experiment, of, over, minimum, where or [], metric)


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
    from gyrelab import commands

    commands.report(file or [], out)


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
    from gyrelab import commands

    commands.compare(before, after, tolerance, relative_to)


@app.command()
def explain(
    experiment: Annotated[str, typer.Argument(help="An experiment.")],
    cell: Annotated[
        list[str] | None, typer.Argument(help="Parts of one cell: PARAMETER=VALUE or VALUE.")
    ] = None,
    contender: Annotated[
        str | None, typer.Option(help="A contender; by default the one that speaks for gyre.")
    ] = None,
    grid: Annotated[
        str | None, typer.Option(help="Grid of the cell; by default the first that has it.")
    ] = None,
    page: Annotated[
        Path, typer.Option("--report", help="The report; the explanation is put beside it.")
    ] = Path("report/index.html"),
    build_dir: BuildDir = None,
) -> None:
    """Show where one contender's time goes: flame graph, system calls, allocations, switches."""
    from gyrelab import commands

    commands.explain(experiment, cell or [], contender, grid, page, build_dir)


@app.command("doctor")
def examine_machine() -> None:
    """Check whether this machine is quiet enough to measure; exit with status 1 when it is not."""
    from gyrelab import commands

    commands.examine_machine()


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
    from gyrelab import commands

    commands.test_the_lab(small, full, build_dir)


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
        if error.details:
            print(error.details, file=sys.stderr)
        status = _fail(str(error), error.exit_status)
    except typer.exceptions.TyperException as error:
        status = _fail(_one_line(error), getattr(error, "exit_code", 2))
    except KeyboardInterrupt:
        status = 130
    except OSError as error:  # a full disk, a terminal that is gone
        status = _fail(f"{error.filename or 'output'}: {error.strerror}", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> int:
    if message:
        from rich.console import Console
        from rich.markup import escape

        line = f"[red]lab:[/] {escape(message)}"
        Console(stderr=True, highlight=False).print(line, soft_wrap=True)
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
