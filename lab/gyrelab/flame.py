# SPDX-License-Identifier: Apache-2.0
"""A flame graph as SVG (Brendan Gregg, 2011): a bar's width is its share of the samples, and the bar
below it is its caller."""

import zlib
from collections import Counter
from dataclasses import dataclass, field
from html import escape

from gyrelab.stacks import brief

_WIDTH = 1200
_ROW = 18
_LETTER = 6.6  # the mean width of a letter
_LEAST = 0.5  # narrower bars are not drawn


@dataclass
class _Node:
    count: int = 0
    callees: dict[str, "_Node"] = field(default_factory=dict)

    def depth(self) -> int:
        return 1 + max((each.depth() for each in self.callees.values()), default=0)


def draw(stacks: Counter[tuple[str, ...]], title: str) -> str:
    """The flame graph of these stacks; the text of each bar is its tooltip, too."""
    root = _Node()
    for stack, count in stacks.items():
        _add(root, stack, count)
    height = root.depth() * _ROW
    bars: list[str] = []
    _draw(root, title, 0, _WIDTH / max(root.count, 1), height - _ROW, root.count, bars)
    return (
        f'<svg class="flame" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="Flame graph: {escape(title)}" xmlns="http://www.w3.org/2000/svg" '
        f'font-family="monospace" font-size="11">{"".join(bars)}</svg>'
    )


def _add(node: _Node, stack: tuple[str, ...], count: int) -> None:
    node.count += count
    for name in stack:
        node = node.callees.setdefault(name, _Node())
        node.count += count


def _draw(
    node: _Node, name: str, x: float, scale: float, top: int, total: int, bars: list[str]
) -> None:
    width = node.count * scale
    if width < _LEAST:
        return
    share = f"{node.count / max(total, 1):.1%} of {total:,} samples"
    shown = brief(name)
    letters = int((width - 6) / _LETTER)
    text = shown if len(shown) <= letters else shown[: letters - 1] + "…" if letters > 3 else ""
    bars.append(
        f'<g><title>{escape(name)}: {share}</title><rect x="{x:.1f}" y="{top}" '
        f'width="{width:.1f}" height="{_ROW - 1}" rx="2" fill="{_colour(name)}"/>'
        f'<text x="{x + 3:.1f}" y="{top + 12}">{escape(text)}</text></g>'
    )
    for callee, each in sorted(node.callees.items()):
        _draw(each, callee, x, scale, top - _ROW, total, bars)
        x += each.count * scale


def _colour(name: str) -> str:
    """Orange for gyre, blue for the kernel, grey for all else; equal names have equal shades."""
    shade = zlib.crc32(name.encode()) % 12
    if name.endswith("_[k]"):
        return f"hsl(210 45% {68 + shade}%)"
    if "gyre::" in name:
        return f"hsl(28 90% {62 + shade}%)"
    return f"hsl(40 8% {76 + shade}%)"
