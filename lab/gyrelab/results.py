# SPDX-License-Identifier: Apache-2.0
"""Result files: their contents, and the figures of one contender in one cell."""

import json
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jsonschema

from gyrelab import cells, experiments, journal, paths, statistics
from gyrelab.cells import Cell, Value
from gyrelab.errors import UsageProblem
from gyrelab.experiments import Experiment, Metric
from gyrelab.toml_table import Table

SCHEMA = 1
Series = dict[int, float]  # round -> figure


@cache
def schema() -> jsonschema.Draft202012Validator:
    """The validator of a result file."""
    text = (paths.SCHEMAS / "results.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


class Results:
    """A result file, or the journal of an unfinished one."""

    def __init__(self, document: dict[str, Any], name: str = "results") -> None:
        self.document, self.name = document, name

    @property
    def complete(self) -> bool:
        """Whether every planned run is done."""
        return self.document["finished"] is not None

    @property
    def experiments(self) -> list[str]:
        """The measured experiments, in order of measurement."""
        return list(self.document["experiments"])

    def experiment(self, name: str) -> Experiment:
        """The experiment as the repository describes it now, or as measured if it was removed."""
        file = paths.experiments() / name / "experiment.toml"
        if file.exists():
            return experiments.load(file)
        definition = self.document["experiments"][name]["definition"]
        return experiments.parse(Table(definition, f"{self.name}: definition of {name}"))

    def cells(self, experiment: str) -> list[dict[str, Value]]:
        """The cells of the experiment's grid."""
        return self.document["experiments"][experiment]["cells"]

    def contenders(self, experiment: str) -> list[str]:
        """The contenders that took part."""
        return list(self.document["experiments"][experiment]["programs"])

    def not_built(self, experiment: str) -> list[str]:
        """The contenders whose programs were not built."""
        return self.document["experiments"][experiment]["not_built"]

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str, bool], list[dict[str, Any]]]:
        found: dict[tuple[str, str, str, bool], list[dict[str, Any]]] = {}
        for run in self.document["runs"]:
            place = (run["experiment"], run["contender"], cells.key(run["cell"]), run["round"] > 0)
            found.setdefault(place, []).append(run)
        return found

    def runs(
        self, experiment: str, contender: str, cell: Cell, measured: bool = True
    ) -> list[dict[str, Any]]:
        """The measured runs, or those of the warm-up."""
        return self._by_place.get((experiment, contender, cells.key(cell), measured), [])

    def series(self, experiment: str, contender: str, cell: Cell, metric: str) -> Series:
        """The metric by round, from the successful runs that report it; a counted one by warm-up
        round."""
        measured = metric not in self._counted[experiment]
        return {
            run["round"]: run["metrics"][metric]
            for run in self.runs(experiment, contender, cell, measured)
            if run["status"] == "ok" and metric in run.get("metrics", {})
        }

    @cached_property
    def _counted(self) -> dict[str, set[str]]:
        """The metrics of each experiment that warm-up rounds counted when this file was made."""
        found = {}
        for name, facts in self.document["experiments"].items():
            secondary = facts["definition"].get("secondary", [])
            found[name] = {each["name"] for each in secondary if each.get("counted")}
        return found

    def log_ratios(
        self, experiment: Experiment, contender: str, cell: Cell, metric: Metric, rival: str = ""
    ) -> list[float]:
        """The contender's log-ratios to the rival (default: the baseline), one a round; none if either
        has no figure."""
        names = (contender, rival or experiment.baseline)
        series = (self.series(experiment.name, each, cell, metric.name) for each in names)
        return statistics.log_ratios(*series, metric.better)

    def failures(self, experiment: str) -> list[dict[str, Any]]:
        """The runs that failed, warm-up included."""
        expected = ("ok", "out_of_memory", "refused")
        return self._runs_that(experiment, lambda status: status not in expected)

    def deaths(self, experiment: str) -> list[dict[str, Any]]:
        """The runs that ended at the memory limit, warm-up included: results, not failures."""
        return self._runs_that(experiment, lambda status: status == "out_of_memory")

    def refusals(self, experiment: str) -> list[dict[str, Any]]:
        """The runs that this machine could not make, warm-up included."""
        return self._runs_that(experiment, lambda status: status == "refused")

    def _runs_that(self, experiment: str, end: Callable[[str], bool]) -> list[dict[str, Any]]:
        runs: Iterable[dict[str, Any]] = self.document["runs"]
        return [run for run in runs if run["experiment"] == experiment and end(run["status"])]


def _add_compilers(document: dict[str, Any]) -> None:
    """Names the compiler in the cells of a file that was made before it became a parameter."""
    all_known = experiments.load_all()
    for name, facts in document["experiments"].items():
        known = all_known.get(name)
        there = all(cells.COMPILER in cell for cell in facts["cells"])
        if known is None or cells.COMPILER not in known.parameters or there:
            continue
        builds = [each.get("build", {}) for each in facts["programs"].values()]
        clang = any(str(build.get("compiler")).startswith("Clang") for build in builds)
        for cell in _cells_of(document, name):
            cell[cells.COMPILER] = "clang++" if clang else "g++"


def _add_neighbours(document: dict[str, Any]) -> None:
    """Completes the cells of a file that was made before busy processes became a parameter."""
    all_known = experiments.load_all()
    for name in document["experiments"]:
        if name in all_known and cells.NEIGHBOURS in all_known[name].parameters:
            for cell in _cells_of(document, name):
                cell.setdefault(cells.NEIGHBOURS, 0)


def _cells_of(document: dict[str, Any], experiment: str) -> list[dict[str, Any]]:
    """The experiment's cells, and those of its runs."""
    runs = (run for run in document["runs"] if run["experiment"] == experiment)
    return [*document["experiments"][experiment]["cells"], *(run["cell"] for run in runs)]


def load(path: Path) -> Results:
    """Reads a result file or a journal and checks it against the schema."""
    name = paths.shown(path)
    try:
        if path.name.endswith(journal.SUFFIX):
            document = journal.read(path)
        elif not path.exists() and journal.beside(path).exists():
            document = journal.read(journal.beside(path))
        else:
            document = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageProblem(f"{name}: not a result file: {error}") from error
    except IsADirectoryError as error:
        raise UsageProblem(f"{name}: is a folder, not a result file") from error
    except FileNotFoundError as error:
        raise UsageProblem(f"{name}: no such file; `tools/lab run` makes result files") from error
    except OSError as error:
        raise UsageProblem(f"{name}: {error.strerror}") from error
    problem = next(schema().iter_errors(document), None)
    if problem is not None:
        raise UsageProblem(f"{name}: {problem.json_path}: {problem.message}"[:200])
    _add_compilers(document)
    _add_neighbours(document)
    return Results(document, name)


def newest() -> Path:
    """The result file written last, or the newest journal when there is no other."""
    folder = paths.results()
    for pattern in ("*.json", f"*{journal.SUFFIX}"):
        files = sorted(folder.glob(pattern), key=lambda file: file.stat().st_mtime)
        if files:
            return files[-1]
    raise UsageProblem(f"{paths.shown(folder)}: no results yet; `tools/lab run` makes the first")
