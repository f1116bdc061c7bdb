# SPDX-License-Identifier: Apache-2.0
"""The command line: its answers, exit statuses, and hints for mistakes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gyrelab import journal, paths
from gyrelab.tests import fakes, synthetic
from gyrelab.tests.conftest import Lab


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A result file of all experiments."""
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(synthetic.results().document), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "no command 'rnu': did you mean 'run'?"),
        (["run", "pots_task"], "no experiment 'pots_task': did you mean 'post_task'?"),
        (["run", "redis_get"], "redis_get is not in the grid quick; choose --grid smoke or full"),
        (["run", "--grid", "quik"], "no grid 'quik': did you mean 'quick'?"),
        (["run", "--contenders", "muttex"], "no contender 'muttex': did you mean 'mutex'?"),
        (["run", "--gird", "quick"], "--grid"),
        (["run", "--contenders", ","], "--contenders ',' names nothing: write NAME[,NAME]"),
        (["run", "--contenders", ""], "--contenders '' names nothing"),
        (["ratio", "FILE", "hop", "--of", ",", "--over", "asio"], "--of ',' names nothing"),
        (
            ["ratio", "FILE", "hop", "--of", "mutex", "--over", "asio", "--where", "form=,"],
            "--where form= ',' names nothing",
        ),
        (
            ["report", "FILE", "-o", "/dev/null/page.html"],
            "cannot write: /dev/null is not a folder",
        ),
        (["report", "FILE", "-o", "/"], "is a folder; name a file in it"),
        (["run", "--rounds", "none"], "--rounds"),
        (["ratio", "FILE"], "Missing argument"),
        (
            ["ratio", "FILE", "post_tusk", "--of", "mutex", "--over", "asio"],
            "did you mean 'post_task'?",
        ),
        (
            ["ratio", "FILE", "hop", "--of", "gyre_fif", "--over", "asio"],
            "did you mean 'gyre_fifo'?",
        ),
        (
            ["ratio", "FILE", "hop", "--of", "mutex", "--over", "asio", "--where", "fom=callable"],
            "'form'",
        ),
        (
            ["ratio", "FILE", "hop", "--of", "mutex", "--over", "asio", "--where", "form=calable"],
            "'callable'",
        ),
        (
            ["ratio", "FILE", "hop", "--of", "mutex", "--over", "asio", "--where", "form"],
            "PARAMETER=VALUE",
        ),
        (
            ["ratio", "FILE", "hop", "--of", "mutex", "--over", "asio", "--metric", "p50ns"],
            "'p50_ns'",
        ),
        (["ratio", "none.json", "hop", "--of", "mutex", "--over", "asio"], "no such file"),
        (["report", "none.json"], "no such file"),
        (["report"], "no results yet"),
        (["compare", "FILE", "none.json"], "no such file"),
        (["compare", "FILE", "FILE", "--relative-to", "mutx"], "did you mean 'mutex'?"),
        (["trust", "--small", "--full"], "choose one"),
    ],
)
def test_wrong_argument_gives_one_helpful_line(
    lab: Lab, measured: Path, words: list[str], message: str
) -> None:
    said = lab(*(measured if word == "FILE" else word for word in words))
    assert said.status == 2
    assert message in said.err
    assert said.err.strip().count("\n") == 0


def test_damaged_result_file_is_told(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"schema": 1}')
    said = lab("report", tmp_path / "bad.json")
    assert said.status == 2
    assert "bad.json: $: 'grid' is a required property" in said.err


def test_result_file_nested_without_end_is_told(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    said = lab("report", tmp_path / "deep.json")
    assert said.status == 2
    assert "deep.json: not a result file" in said.err


def test_result_that_cannot_be_written_is_told_before_the_first_run(
    lab: Lab, build: Path, tmp_path: Path
) -> None:
    file = fakes.make(build, "timers", "gyre")
    (tmp_path / "file").touch()
    for out in (tmp_path / "file" / "r.json", tmp_path):
        said = lab("run", "timers", "--grid", "smoke", "--out", out)
        assert (said.status, said.err.strip().count("\n")) == (2, 0)
        assert f"lab: {paths.shown(out)}: " in said.err
    assert not file.with_name("gyre.runs").exists()


@pytest.mark.parametrize(
    ("mode", "shown"),
    [("markup", "no [/usr/lib/libfoo.so] for [red]"), ("realtime", "killed by signal 40")],
)
def test_words_of_a_failed_program_are_shown_as_they_are(
    lab: Lab, build: Path, mode: str, shown: str
) -> None:
    fakes.make(build, "timers", "gyre", mode=mode)
    said = lab("run", "timers", "--grid", "smoke", "--strict")
    assert said.status == 1
    assert shown in said.out


def test_measurement_beside_another_is_refused(lab: Lab, build: Path) -> None:
    fakes.make(build, "timers", "gyre")
    with journal.only_measurement(paths.results()):
        said = lab("run", "timers", "--grid", "smoke")
    assert said.status == 1
    assert "another measurement is under way" in said.err
    assert lab("run", "timers", "--grid", "smoke").status == 0


def test_results_and_report_need_a_file_each(lab: Lab, build: Path, tmp_path: Path) -> None:
    fakes.make(build, "timers", "gyre")
    file = tmp_path / "one"
    said = lab("run", "timers", "--grid", "smoke", "--out", file, "--report", file)
    assert said.status == 2
    assert "need a file each" in said.err
    assert not file.exists()


def test_version_names_the_release_and_the_commit(lab: Lab) -> None:
    said = lab("--version")
    assert said.status == 0
    assert re.fullmatch(r"gyre lab \d+\.\d+\.\d+, commit [0-9a-f]+( with changes)?\n", said.out)


def test_help_loads_no_package_that_takes_long() -> None:
    code = "import sys; sys.argv = ['lab', '--help']\nfrom gyrelab import cli\ntry:\n  cli.main()\n"
    code += "finally:\n  print('LOADED', *sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    usage, _, loaded = done.stdout.partition("LOADED")
    assert "compare" in usage
    heavy = {"numpy", "scipy", "altair", "vl_convert", "jsonschema", "jinja2", "gyrelab.commands"}
    assert not heavy & set(loaded.split())


def test_list_tells_what_is_built(lab: Lab, build: Path) -> None:
    fakes.make(build, "post_task", "mutex")
    said = lab("list")
    lines = {line.split()[0]: line for line in said.out.splitlines() if line.startswith("  ")}
    assert "not built" not in next(
        line for line in said.out.splitlines() if "std::mutex around" in line
    )
    assert "not built" in lines["libevent"]


def test_run_without_any_program_says_how_to_build(lab: Lab) -> None:
    said = lab("run")
    assert said.status == 1
    assert "cmake --build" in said.err


def test_run_of_a_contender_that_is_not_built_says_so(lab: Lab, build: Path) -> None:
    fakes.make(build, "post_task", "mutex")
    said = lab("run", "--contenders", "asio")
    assert said.status == 1
    assert "not built: asio" in said.err
    said = lab("run", "post_task", "--contenders", "mutex,asio", "--grid", "smoke")
    assert said.status == 0
    assert "asio" in said.err


def test_ratio_is_the_slowest_against_the_best(lab: Lab, measured: Path) -> None:
    words = ["ratio", measured, "post_task", "--of", "gyre_fifo,gyre_sharded"]
    words += ["--over", "mutex,boost_lockfree,moodycamel", "--where", "wakeup=coalesced"]
    words += ["--where", "callable=16"]
    said = lab(*words, "--min", "4")
    assert said.status == 0
    assert "geometric mean of 7 cells" in said.out
    assert "4.1" in said.out.splitlines()[-1]  # 62 over 15
    assert lab(*words, "--min", "4.5").status == 1


def test_ratio_leaves_out_what_was_not_measured(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps(synthetic.results(("post_task",), absent=("moodycamel",)).document))
    said = lab("ratio", file, "post_task", "--of", "gyre_fifo", "--over", "mutex,moodycamel")
    assert said.status == 0
    assert "moodycamel was not built" in said.err
    said = lab("ratio", file, "post_task", "--of", "gyre_fifo", "--over", "moodycamel")
    assert said.status == 1
    assert "no ratio" in said.err


def test_compare_exits_with_one_on_a_regression_only(
    lab: Lab, measured: Path, tmp_path: Path
) -> None:
    again, slower = tmp_path / "again.json", tmp_path / "slower.json"
    again.write_text(json.dumps(synthetic.results(seed=2).document))
    slower.write_text(json.dumps(synthetic.results(seed=3, faster={"gyre_fifo": 0.7}).document))
    assert lab("compare", measured, again).status == 0
    said = lab("compare", measured, slower)
    assert said.status == 1
    assert all("gyre_fifo" in line for line in said.out.splitlines() if line.startswith("worse"))
    assert lab("compare", slower, measured).status == 0
    assert lab("compare", measured, slower, "--tolerance", "60").status == 0


def test_compare_relative_to_a_contender_takes_out_the_machine(
    lab: Lab, measured: Path, tmp_path: Path
) -> None:
    throttled = tmp_path / "throttled.json"
    everyone = dict.fromkeys(fakes.FIGURES, 0.8)
    throttled.write_text(json.dumps(synthetic.results(("hop",), seed=4, faster=everyone).document))
    assert lab("compare", measured, throttled).status == 1
    assert lab("compare", measured, throttled, "--relative-to", "asio").status == 0
