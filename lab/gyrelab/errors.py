# SPDX-License-Identifier: Apache-2.0
"""Errors that the command line shows as one line, and their 'did you mean' hints."""

from collections.abc import Iterable
from difflib import get_close_matches


class LabError(Exception):
    """An error that ends the lab with `exit_status`; `details` are printed before its line."""

    exit_status = 1
    details = ""


class UsageProblem(LabError):
    """A wrong argument or a wrong file given by the user."""

    exit_status = 2


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint of a message about an unknown name: the closest known name, or all of them."""
    names = list(known)
    lowered = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{lowered[close[0]]}'?"
    return f"known: {', '.join(names)}" if names else "none is known"


def pick(name: str, known: Iterable[str], kind: str) -> str:
    """`name` when it is known; otherwise a UsageProblem that names the closest."""
    names = list(known)
    if name not in names:
        raise UsageProblem(f"no {kind} '{name}': {did_you_mean(name, names)}")
    return name
