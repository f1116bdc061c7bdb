# SPDX-License-Identifier: Apache-2.0
"""Designs: contenders written afresh from a library's description, for machines that lack the library.

A design takes the library's row where the library was not built; everywhere else it is left out.
"""

from collections.abc import Collection, Sequence

from gyrelab.experiments import Contender, Experiment


def find_row(experiment: Experiment, name: str, measured: Collection[str]) -> str:
    """The contender in the row of `name`: itself, or the measured design that stands for it."""
    if name in measured:
        return name
    designs = (each.name for each in experiment.contenders if each.stands_for == name)
    return next((design for design in designs if design in measured), name)


def drop_idle(built: Sequence[Contender], named: Collection[str]) -> list[Contender]:
    """The built contenders without designs whose library is built, unless `named` asks for them."""
    names = {each.name for each in built}
    return [each for each in built if each.stands_for not in names or each.name in named]
