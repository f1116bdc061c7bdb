# SPDX-License-Identifier: Apache-2.0
"""Formatting of figures: three significant digits, digit groups, units of bytes."""

import math

from gyrelab.statistics import Ratio


def figure(value: float, unit: str = "") -> str:
    """`value` with three significant digits: 0.0123, 4.56, 12.3, 1,230; bytes as KiB or MiB."""
    if unit == "B":
        return _bytes(value)
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    if digits == 0:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}" if not value.is_integer() or value < 1 else f"{value:,.0f}"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{figure(value)} {unit}"
        value /= 1024
    return f"{figure(value)} GiB"


def times(ratio: Ratio) -> str:
    """A ratio with its interval: `2.31× (2.20 to 2.43)`."""
    if math.isinf(ratio.high):
        return f"{ratio.value:.2f}× (too few rounds)"
    return f"{ratio.value:.2f}× ({ratio.low:.2f} to {ratio.high:.2f})"


def spoken(ratio: Ratio, unit: str) -> Ratio:
    """The ratio as the page states it: of memory, how many times as much; else, times as good."""
    return ratio.inverse() if unit == "B" else ratio


def quality(unit: str) -> str:
    """The words after a spoken ratio of figures in `unit`."""
    return "as much memory" if unit == "B" else "as fast"
