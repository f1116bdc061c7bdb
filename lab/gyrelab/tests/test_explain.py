# SPDX-License-Identifier: Apache-2.0
"""`explain`: its cells, its figures, absent tools, the page and the report's link to it."""

import sys
from pathlib import Path

import pytest

from gyrelab import experiments, explain, report
from gyrelab.errors import UsageProblem
from gyrelab.tests import fakes, synthetic
from gyrelab.tests.conftest import Lab
from gyrelab.tests.test_stacks import RECORDED
from gyrelab.tests.test_syscalls import PERF, STRACE

_TOOL = """#!{python} -IS
import subprocess, sys
words = sys.argv[1:]
if {forbidden}:
    sys.exit("Access to performance monitoring is limited")
if words[0] == "script":
    print({script!r}, end="")
    sys.exit(0)
out = words[words.index("--output" if "--output" in words else "-o") + 1]
open(out, "w").write({summary!r})
first = words.index("--") + 1 if "--" in words else words.index("-o") + 2
sys.exit(subprocess.run(words[first:]).returncode)
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH, with no tool in it."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def fake_tool(folder: Path, name: str, summary: str, forbidden: bool = False) -> None:
    path = folder / name
    path.write_text(
        _TOOL.format(python=sys.executable, forbidden=forbidden, script=RECORDED, summary=summary)
    )
    path.chmod(0o755)


def test_explains_with_all_tools_and_links_the_page(
    lab: Lab, build: Path, tools: Path, tmp_path: Path
) -> None:
    fakes.make(build, "hop", "gyre_fifo")
    fake_tool(tools, "perf", PERF)
    page = tmp_path / "report" / "index.html"
    report.write(dict.fromkeys(["hop"], synthetic.results(("hop",))), page)
    assert "explain-" not in page.read_text()
    said = lab("explain", "hop", "loops=2", "form=call", "--grid", "quick")
    assert said.status == 0, said.err
    lines = {line.partition("  ")[0]: line.split() for line in said.out.splitlines()}
    assert lines["mmap"][1:] == ["30", "0.300"]
    assert lines["allocations per task"][-1] == "0.500"
    assert "gyre::detail::pool_worker::take_back" in lines
    assert "missing" not in said.out
    [written] = page.parent.glob("explain-hop-gyre_fifo-*.html")
    assert written.read_text().count("<svg") == 2  # client and server
    assert f'href="{written.name}"' in page.read_text()
    assert "<table" in written.read_text()
    report.write(dict.fromkeys(["hop"], synthetic.results(("hop",))), page)
    assert f'href="{written.name}"' in page.read_text()


def test_each_absent_tool_is_one_line_and_the_rest_is_told(
    lab: Lab, build: Path, tools: Path
) -> None:
    fakes.make(build, "hop", "asio")
    said = lab("explain", "hop", "loops=2 callable", "--contender", "asio")
    assert said.status == 0
    missing = [line for line in said.out.splitlines() if line.startswith("missing:")]
    assert len(missing) == 2
    assert "perf is not installed" in missing[0]
    assert "perf is not installed; strace is not installed" in missing[1]
    assert "context switches, voluntary" in said.out
    assert "allocations per task" in said.out


def test_forbidden_perf_is_told_and_strace_takes_its_place(
    lab: Lab, build: Path, tools: Path
) -> None:
    fakes.make(build, "hop", "gyre_fifo")
    fake_tool(tools, "perf", "", forbidden=True)
    fake_tool(tools, "strace", STRACE)
    said = lab("explain", "hop", "loops=2", "callable")
    assert "perf cannot sample here" in said.out
    assert "Access to performance monitoring is limited" in said.out
    assert "system calls (by strace)" in said.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hop", "loops=3"], "no cell of hop has loops=3: loops is 2, 8"),
        (["hop", "lops=2"], "no parameter of hop 'lops': did you mean 'loops'?"),
        (["hop", "loops=2"], "form=callable|intrusive"),
        (["hop", "loops=2 callable", "--contender", "asoi"], "did you mean 'asio'?"),
        (["hop", "loops=2 callable", "--grid", "quik"], "did you mean 'quick'?"),
        (["hpo"], "no experiment 'hpo': did you mean 'hop'?"),
        (["fork_join", "fib", "workers=2", "--contender", "calls"], "calls does not run in"),
    ],
)
def test_wrong_names_give_one_line(lab: Lab, words: list[str], message: str) -> None:
    said = lab("explain", *words)
    assert said.status == 2
    assert message in said.err
    assert said.err.strip().count("\n") == 0


def test_program_that_is_not_built_or_fails_is_told(lab: Lab, build: Path, tools: Path) -> None:
    said = lab("explain", "hop", "loops=2", "callable")
    assert said.status == 1
    assert "not built: " in said.err
    assert "hop/gyre_fifo" in said.err
    fakes.make(build, "hop", "gyre_fifo", mode="lose")
    said = lab("explain", "hop", "loops=2", "callable")
    assert said.status == 1
    assert "gyre_fifo: failed: tasks_run 99, expected 100" in said.err


def test_cell_of_another_compiler_than_the_programs_is_told(lab: Lab, build: Path) -> None:
    fakes.make(build, "fork_join", "gyre")
    said = lab("explain", "fork_join", "fib", "workers=1", "compiler=clang++", "--grid", "full")
    assert said.status == 1
    assert "no programs of clang++ in " in said.err


def test_cells_are_found_by_parts_in_the_first_grid_that_has_them() -> None:
    hop = experiments.load_all()["hop"]
    quick = explain.find_cell(hop, ["lo=2", "callable"], None)
    assert quick in hop.grids["quick"].cells
    full = explain.find_cell(hop, ["lo=2 callable"], "full")
    assert full in hop.grids["full"].cells
    assert full["loops"] == quick["loops"] == 2
    with pytest.raises(UsageProblem, match="1000000"):
        explain.find_cell(hop, ["hops=7"], None)
