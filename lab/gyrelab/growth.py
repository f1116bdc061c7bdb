# SPDX-License-Identifier: Apache-2.0
"""How a figure grows with a parameter: the exponent of a power law, fitted on logarithms."""

import math
from dataclasses import dataclass

import numpy as np

from gyrelab import statistics
from gyrelab.cells import NEIGHBOURS, Value, key
from gyrelab.experiments import Contender, Experiment, Parameter
from gyrelab.results import Results

Cell = dict[str, Value]
FLAT = 0.1  # an exponent whose interval includes 0 and stays within ±0.1 is called flat


@dataclass(frozen=True)
class Exponent:
    """The fitted exponent of one contender, with its 95 % interval."""

    contender: Contender
    value: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """The exponent as a sentence without a subject: `grows as n^0.98 (0.95 to 1.01)`."""
        if math.isinf(self.high):
            return f"n^{self.value:.2f} (too few rounds)"
        interval = f"({self.low:.2f} to {self.high:.2f})"
        if self.low <= 0 <= self.high:
            flat = max(-self.low, self.high) <= FLAT
            return (
                f"{'is flat' if flat else 'shows no clear growth'}: n^{self.value:.2f} {interval}"
            )
        return f"{'grows' if self.value > 0 else 'falls'} as n^{self.value:.2f} {interval}"


@dataclass(frozen=True)
class Growth:
    """The exponents over one parameter in cells that agree in the others."""

    parameter: Parameter
    where: str
    least: int
    most: int
    exponents: list[Exponent]


def measure_growths(results: Results, experiment: Experiment) -> list[Growth]:
    """The growth of the main metric over each numeric parameter with several measured values."""
    found = []
    cells = results.cells(experiment.name)
    for parameter in experiment.parameters.values():
        for where, group in group_cells(experiment, cells, parameter.name).items():
            exponents = [
                exponent
                for contender in experiment.contenders
                if (
                    exponent := _fit_exponent(results, experiment, contender, group, parameter.name)
                )
            ]
            if exponents:
                values = [cell[parameter.name] for cell in group]
                found.append(Growth(parameter, where, min(values), max(values), exponents))
    return found


def group_cells(experiment: Experiment, cells: list[Cell], name: str) -> dict[str, list[Cell]]:
    """The cells by the values of the other parameters; groups with one value of `name` are out.

    A parameter that only follows from `name`, such as each producer's share of a total, does not
    divide the cells.
    """
    if name == NEIGHBOURS or not all(isinstance(cell[name], int) for cell in cells):
        return {}  # the count of neighbours begins with none, which has no logarithm
    if name != experiment.x and _follows(cells, name, experiment.x):
        return {}
    others = [each for each in experiment.parameters if each != name]
    fixed = [each for each in others if not _follows(cells, each, name)]
    varied = [each for each in fixed if len({cell[each] for cell in cells}) > 1]
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        where = ", ".join(
            _describe_parameter(experiment.parameters[each], cell[each]) for each in varied
        )
        groups.setdefault(where, []).append(cell)
    return {
        where: group
        for where, group in groups.items()
        if len({cell[name] for cell in group}) == len(group) > 1
    }


def _follows(cells: list[Cell], follower: str, name: str) -> bool:
    """Whether `follower` has one value for each value of `name` among cells of equal texts."""
    seen: dict[tuple[str, Value], set[Value]] = {}
    for cell in cells:
        texts = key({each: value for each, value in cell.items() if isinstance(value, str)})
        seen.setdefault((texts, cell[name]), set()).add(cell[follower])
    numeric = all(isinstance(cell[follower], int) for cell in cells)
    return numeric and all(len(values) == 1 for values in seen.values())


def _describe_parameter(parameter: Parameter, value: Value) -> str:
    shown = parameter.shown(value)
    labelled = isinstance(value, str) or str(value) in parameter.value_labels
    return shown if labelled else f"{parameter.label} {shown}"


def _fit_exponent(
    results: Results, experiment: Experiment, contender: Contender, cells: list[Cell], name: str
) -> Exponent | None:
    """The slope of log figure over log n, fitted in each round by itself; None without figures.

    A round's cells ran within moments of each other, so that rounds are the independent samples.
    """
    series = [
        results.series(experiment.name, contender.name, cell, experiment.metric.name)
        for cell in cells
    ]
    rounds = set.intersection(*(set(each) for each in series))
    sizes = np.log([float(cell[name]) for cell in cells])
    slopes = [
        float(np.polyfit(sizes, np.log([each[turn] for each in series]), 1)[0])
        for turn in sorted(rounds)
        if all(each[turn] > 0 for each in series)
    ]
    if not slopes:
        return None
    value, low, high = statistics.interval([np.asarray(slopes)])
    return Exponent(contender, value, low, high)
