# SPDX-License-Identifier: Apache-2.0
"""Compiling: an experiment's programs when its turn comes, failures of a build, expected durations.

A fake cmake makes fake contenders, so nothing is compiled.
"""

import json
import sys
from pathlib import Path

import pytest

from gyrelab import building, experiments, journal, paths, planning, results, runner
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
dry = targets[-1] == "-n"
if dry:
    targets, options = targets[: targets.index("--")], targets[targets.index("--") :]
    if options != ["--", "-f", "planned.ninja", "-n"] or not (tree / "planned.ninja").exists():
        sys.exit(print("[1/2] Re-running CMake..."))
if not targets:
    sys.exit("CMake Error: Invalid value used with --target")
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
    monkeypatch.setattr(building, "_count_processors", lambda: 2)
    programs.expect({"timers": ["gyre", "asio"], "hop": ["gyre_fifo", "mutex"]}, {"hop": 7.0})
    assert programs.seconds_left() == pytest.approx(building.COMPILE_SECONDS + 7)
    clock = iter([0.0, *(2 * building.COMPILE_SECONDS * step / 2 for step in (1, 2))])
    monkeypatch.setattr(building.time, "monotonic", lambda: next(clock))
    programs.prepare("timers", ["gyre", "asio"], lambda *_: None)  # twice as slow as expected
    assert programs.seconds_left() == pytest.approx(2 * 7)


def test_first_estimate_knows_the_speed_of_a_first_compilation(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = building.CompiledPrograms(tree)
    monkeypatch.setattr(building, "_count_processors", lambda: 1)
    room = "Building CXX object gyre/base/CMakeFiles/gyre_base.dir/slab.cpp.o"
    contender = "Building CXX object lab/experiments/hop/CMakeFiles/lab_hop_asio.dir/asio.cpp.o"
    programs._waiting = {
        step: building._estimate_seconds(step, {"hop": 5.0}) for step in (room, contender)
    }
    assert programs.seconds_left() == pytest.approx(1.6 + 5.0)
    assert (programs.own_seconds("hop"), programs.own_seconds("sync")) == (5.0, 0.0)
    built = []

    def build(command: list[str], doing: str, step: building.Step) -> list[str]:
        built.append(command[-1])
        step(1, 1, room)
        return []

    monkeypatch.setattr(building, "_run_build", build)
    clock = iter([0.0, 3 * 1.6])  # three times as slow as expected
    monkeypatch.setattr(building.time, "monotonic", lambda: next(clock))
    programs.calibrate()
    assert built == ["gyre_base"]
    assert programs.seconds_left() == pytest.approx(3 * 5.0)
    programs.calibrate()  # nothing of it waits any more
    assert built == ["gyre_base"]


def test_experiment_whose_figures_come_soonest_is_the_first(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = experiments.load_all()
    programs = building.CompiledPrograms(tree)
    chosen = [known["hop"], known["timers"]]
    parts = planning.choose(chosen, "quick", [], programs, None)
    slow = {"hop": 3.0, "timers": 300.0}
    monkeypatch.setattr(programs, "own_seconds", slow.__getitem__)
    assert [p.experiment.name for p in runner.early_figures_first(parts, programs)] == [
        "hop",
        "timers",
    ]
    slow["timers"] = 1.0
    turned = runner.early_figures_first(parts, programs)
    assert [part.experiment.name for part in turned] == ["timers", "hop"]
    assert planning.fingerprint("quick", turned) == planning.fingerprint("quick", parts)


def compiled_by(tree: Path, compiler: str, figure: float) -> None:
    """A contender of coroutine_chain as that compiler makes it."""
    file = fakes.make(tree, "coroutine_chain", "gyre_noinline", figure=figure)
    if compiler == "clang++":
        file.write_text(file.read_text().replace("GNU 12.2.0", "Clang 19.1.7"))


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Path) -> None:
    """Build trees of both compilers, to be used as they are."""
    monkeypatch.setenv("GYRE_LAB_NO_BUILD", "1")
    monkeypatch.setattr(paths, "names_build", lambda: False)
    monkeypatch.setattr(building, "find_clang", lambda: "clang++")
    compiled_by(build, "g++", 80)
    compiled_by(build.with_name("clang"), "clang++", 40)


def test_both_compilers_run_beside_each_other(lab: Lab, both: None, tmp_path: Path) -> None:
    words = ("run", "coroutine_chain", "--grid", "smoke", "--out", tmp_path / "r.json")
    assert lab(*words, "--compiler", "g++,clang++").status == 0
    measured = results.load(tmp_path / "r.json")
    assert not measured.failures("coroutine_chain")
    figures = {
        run["cell"]["compiler"]: run["metrics"]["ns_per_link"] for run in measured.document["runs"]
    }
    assert figures["g++"] > 1.5 * figures["clang++"]
    facts = measured.document["experiments"]["coroutine_chain"]["programs"]["gyre_noinline"]
    assert facts["build"]["compiler"] in ("GNU 12.2.0, Clang 19.1.7", "Clang 19.1.7, GNU 12.2.0")
    assert facts["sha256"].count("+") == 1


def test_program_of_the_other_compiler_is_not_believed(
    lab: Lab, both: None, build: Path, tmp_path: Path
) -> None:
    compiled_by(build.with_name("clang"), "g++", 80)
    words = ("run", "coroutine_chain", "--grid", "smoke", "--out", tmp_path / "r.json")
    assert lab(*words, "--compiler", "clang++").status == 0
    failures = results.load(tmp_path / "r.json").failures("coroutine_chain")
    assert {run["reason"] for run in failures} == {
        "the program was compiled by GNU 12.2.0, not by Clang"
    }


def test_quick_grid_has_one_compiler_and_the_full_one_both(both: None, build: Path) -> None:
    chain = experiments.load_all()["coroutine_chain"]
    programs = building.programs(None, both=True)
    for grid, compilers in (("quick", {"g++"}), ("full", {"g++", "clang++"})):
        (part,) = planning.choose([chain], grid, [], programs, None)
        assert {place.cell["compiler"] for place in part.places} == compilers


def test_build_tree_that_a_user_names_has_its_own_compiler(build: Path) -> None:
    compiled_by(build, "clang++", 40)
    (build / "CMakeCache.txt").write_text("CMAKE_CXX_COMPILER:STRING=clang++-19\n")
    chain = experiments.load_all()["coroutine_chain"]
    (part,) = planning.choose([chain], "quick", [], building.programs(build), None)
    assert {place.cell["compiler"] for place in part.places} == {"clang++"}


def test_clang_that_is_missing_is_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "find_clang", lambda: None)
    said = lab("run", "coroutine_chain", "--compiler", "clang++")
    assert said.status == 2
    assert "there is no clang++ here" in said.err
    assert "did you mean 'clang++'?" in lab("run", "--compiler", "clang").err


def test_older_files_get_the_compiler_of_their_programs(
    lab: Lab, both: None, tmp_path: Path
) -> None:
    file = tmp_path / "r.json"
    assert lab("run", "coroutine_chain", "--grid", "smoke", "--out", file).status == 0
    document = json.loads(file.read_text())
    facts = document["experiments"]["coroutine_chain"]
    for cell in (*facts["cells"], *(run["cell"] for run in document["runs"])):
        del cell["compiler"]
    file.write_text(json.dumps(document))
    measured = results.load(file)
    assert {cell["compiler"] for cell in measured.cells("coroutine_chain")} == {"g++"}
    assert {run["cell"]["compiler"] for run in measured.document["runs"]} == {"g++"}
