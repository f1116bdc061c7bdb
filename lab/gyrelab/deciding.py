# SPDX-License-Identifier: Apache-2.0
"""The contenders of a cell: in the quick grid, only those that a claim about the cell is about."""

from collections.abc import Collection

from gyrelab import cells
from gyrelab.cells import Cell
from gyrelab.experiments import Claim, Experiment

GRID = "quick"


def select_contenders(experiment: Experiment, grid: str, cell: Cell) -> Collection[str] | None:
    """The names of the contenders that are measured in the cell of the grid; None: all.

    A grid may name them. In the quick grid they are those of the claims about the cell; where a
    claim is about gyre, also the contenders of the headline and their rivals. A design stands for
    its library.
    """
    if named := experiment.grids[grid].named.get(cells.key(cell)):
        return _add_designs(experiment, set(named))
    if grid != GRID or not experiment.claims:
        return None
    claims = [each for each in experiment.claims if cells.matches(cell, each.where)]
    names = {name for claim in claims for name in _list_contenders(claim)}
    if any(claim.source == "gyre" for claim in claims):
        names.update(experiment.contest.of)
        names.update(name for of in experiment.contest.of for name in experiment.rivals(of))
    if names:
        names.add(experiment.baseline)
    return _add_designs(experiment, names)


def _list_contenders(claim: Claim) -> set[str]:
    return {*claim.of, *claim.over, *claim.otherwise.values()}


def _add_designs(experiment: Experiment, names: set[str]) -> set[str]:
    return names | {each.name for each in experiment.contenders if each.stands_for in names}
