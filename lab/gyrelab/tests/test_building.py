# SPDX-License-Identifier: Apache-2.0
"""Compiling: an experiment's programs when its turn comes, failures of a build, expected durations.

A fake cmake makes fake contenders, so nothing is compiled.
"""

import sys
from pathlib import Path

import pytest

from gyrelab import building, journal, paths, results
from gyrelab.tests import fakes
from gyrelab.tests.conftest import Lab

BUILT = ("timers/gyre", "timers/asio", "hop/gyre_fifo", "hop/mutex")

CMAKE = """#!{python} -IS
# Moves the programs of the targets from the folder `sources` into the build tree.
import pathlib, sys
words, tree = sys.argv[1:], pathlib.Path({tree!r})
here = pathlib.Path({here!r})
if "--target" not in words or "build.ninja" in words:
    (tree / "lab").mkdir(parents=True, exist_ok=True)
    (tree / "build.ninja").touch()
    (tree / "lab" / "programs.txt").write_text("\\n".join({built!r}) + "\\n")
    sys.exit(0)
targets = words[words.index("--target") + 1 :]
dry = targets[-2:] == ["--", "-n"]
targets = targets[:-2] if dry else targets
names = {{"lab_" + name.replace("/", "_"): name for name in {built!r}}}
missing = [each for each in targets if not (tree / "lab" / names[each]).exists()]
for number, target in enumerate(missing, 1):
    name = names[target]
    print(f"[{{number}}/{{len(missing)}}] Building CXX object lab/experiments/{{name}}.cpp.o")
    if dry:
        continue
    if name in (here / "broken").read_text().split():
        print(f"FAILED: {{name}}.cpp.o\\nerror: no member named 'nonsense'\\nninja: build stopped")
        sys.exit(1)
    with (here / "log").open("a") as log:
        log.write(name + "\\n")
    file = tree / "lab" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    (here / "sources" / "lab" / name).rename(file)
"""


@pytest.fixture
def tree(build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository's build tree, not configured yet, whose cmake is the fake one."""
    for name in BUILT:
        fakes.make(tmp_path / "sources", *name.split("/"))
    (tmp_path / "broken").touch()
    (tmp_path / "log").touch()
    fake = tmp_path / "bin" / "cmake"
    fake.parent.mkdir()
    fake.write_text(
        CMAKE.format(python=sys.executable, tree=str(build), here=str(tmp_path), built=BUILT)
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    monkeypatch.setattr(paths, "names_build", lambda: False)
    monkeypatch.delenv("GYRE_LAB_NO_BUILD", raising=False)
    return build


def test_only_the_programs_to_be_measured_are_compiled(
    lab: Lab, tree: Path, tmp_path: Path
) -> None:
    words = ("run", "timers", "--contenders", "gyre", "--grid", "smoke")
    assert lab(*words, "--out", tmp_path / "r.json").status == 0
    assert (tmp_path / "log").read_text().split() == ["timers/gyre"]


def test_experiment_is_compiled_when_its_turn_comes(lab: Lab, tree: Path, tmp_path: Path) -> None:
    said = lab("run", "timers", "hop", "--grid", "smoke", "--out", tmp_path / "r.json")
    assert said.status == 0
    places = ("timers compiling", "timers round 1/1", "hop compiling", "hop round 1/1")
    at = [said.out.index(place) for place in places]
    assert at == sorted(at)
    assert sorted((tmp_path / "log").read_text().split()) == sorted(BUILT)
    measured = results.load(tmp_path / "r.json")
    assert measured.experiments == ["timers", "hop"]
    assert measured.not_built("timers") == ["libevent", "libuv"]


def test_failed_build_shows_its_output_and_keeps_the_runs(
    lab: Lab, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken").write_text("hop/mutex")
    words = ("run", "timers", "hop", "--grid", "smoke", "--out", tmp_path / "r.json")
    said = lab(*words)
    assert said.status == 1
    assert "error: no member named 'nonsense'" in said.err
    assert "Building CXX object" not in said.err
    assert said.err.splitlines()[-1] == "lab: compiling hop failed"
    kept = journal.read(journal.beside(tmp_path / "r.json"))["runs"]
    assert {run["experiment"] for run in kept} == {"timers"}

    (tmp_path / "broken").write_text("")
    said = lab(*words)
    assert said.status == 0
    assert f"resuming: {len(kept)} of" in said.out
    made = results.load(tmp_path / "r.json").document["runs"]
    assert [run["metrics"] for run in made[: len(kept)]] == [run["metrics"] for run in kept]


def test_journal_whose_program_was_compiled_anew_is_put_aside(
    lab: Lab, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken").write_text("hop/mutex")
    words = ("run", "timers", "hop", "--grid", "smoke", "--out", tmp_path / "r.json")
    assert lab(*words).status == 1
    fakes.make(tree, "timers", "gyre", figure=20)
    (tmp_path / "broken").write_text("")
    said = lab(*words)
    assert said.status == 0
    assert "resuming" not in said.out
    assert (tmp_path / "r.json.journal.stale").exists()


def test_nothing_is_compiled_when_not_wanted(
    lab: Lab, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.make(tmp_path / "other", "timers", "gyre")
    assert lab("run", "timers", "--grid", "smoke", "--build-dir", tmp_path / "other").status == 0
    monkeypatch.setenv("GYRE_LAB_NO_BUILD", "1")
    assert "no contender is built" in lab("run", "timers", "--grid", "smoke").err
    assert (tmp_path / "log").read_text() == ""


def test_report_is_written_after_the_first_experiment(lab: Lab, tree: Path, tmp_path: Path) -> None:
    page = tmp_path / "report" / "index.html"
    (tmp_path / "broken").write_text("hop/mutex")
    words = ("run", "timers", "hop", "--grid", "smoke", "--out", tmp_path / "r.json")
    assert lab(*words, "--report", page).status == 1
    text = page.read_text()
    assert 'id="timers"' in text
    assert 'id="hop"' not in text


def test_estimate_of_compiling_follows_the_machine(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = building.CompiledPrograms(tree)
    monkeypatch.setattr(building, "_processors", lambda: 2)
    programs.expect({"timers": ["gyre", "asio"], "hop": ["gyre_fifo", "mutex"]}, {"hop": 7.0})
    assert programs.seconds_left() == pytest.approx(building.COMPILE_SECONDS + 7)
    clock = iter([0.0, *(2 * building.COMPILE_SECONDS * step / 2 for step in (1, 2))])
    monkeypatch.setattr(building.time, "monotonic", lambda: next(clock))
    programs.prepare("timers", ["gyre", "asio"], lambda *_: None)  # twice as slow as expected
    assert programs.seconds_left() == pytest.approx(2 * 7)
