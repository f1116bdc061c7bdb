# SPDX-License-Identifier: Apache-2.0
"""New experiments and contenders are valid from the start, and wrong names are refused."""

import re
from pathlib import Path

import pytest

from gyrelab import experiments, scaffold


@pytest.fixture(autouse=True)
def own_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GYRE_LAB_EXPERIMENTS", str(tmp_path))
    return tmp_path


def test_a_new_experiment_is_sound_and_holds_no_placeholder(own_experiments: Path) -> None:
    assert scaffold.main(["experiment", "posting"]) == 0
    folder = own_experiments / "posting"
    loaded = experiments.load(folder / "experiment.toml")
    assert [each.name for each in loaded.contenders] == ["gyre"]
    assert all(scaffold.PLACEHOLDER not in file.read_text() for file in folder.iterdir())
    assert "gyre_add_experiment(posting gyre " in (folder / "CMakeLists.txt").read_text()


def test_a_new_contender_is_described_built_and_told_its_concept(own_experiments: Path) -> None:
    scaffold.main(["experiment", "posting"])
    assert scaffold.main(["contender", "posting", "libuv", "--needs", "libuv"]) == 0
    folder = own_experiments / "posting"
    loaded = experiments.load(folder / "experiment.toml")
    assert [each.name for each in loaded.contenders] == ["gyre", "libuv"]
    assert "libuv.cpp LIBS gyre_deps::libuv" in (folder / "CMakeLists.txt").read_text()
    source = (folder / "libuv.cpp").read_text()
    assert "subject.run(count)" in source and re.search(r"^// +};$", source, re.MULTILINE)
    assert "contender_main<libuv_contender>" in source


@pytest.mark.parametrize(
    "arguments",
    [
        ["experiment", "No-Name"],
        ["experiment", "posting"],
        ["contender", "postin", "libuv"],
        ["contender", "posting", "gyre"],
        ["contender", "posting", "9"],
    ],
)
def test_wrong_names_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    scaffold.main(["experiment", "posting"])
    capsys.readouterr()
    assert scaffold.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"tools/new_{arguments[0]}: ")
