# SPDX-License-Identifier: Apache-2.0
"""Charts in Vega-Lite. Contenders differ in shape and dash; colour tells gyre's from others."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert
from altair.utils import schemapi

SHOWN = "shown"  # the signal that holds the labels of the visible contenders
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


_NARROW, _WIDE = 1.75, 3.0  # widths of lines
_HEADROOM = 1.4  # axis of a bar chart over its longest bar: room for the figure, even on a phone


@dataclass(frozen=True)
class Look:
    """A contender's colours, shape, dash and line width. `dark` replaces `light` on a dark page."""

    light: str
    dark: str
    shape: str
    dash: tuple[int, ...]
    width: float = _NARROW


# gyre's family is orange, peers are grey, floors pale; within a group shape and dash differ too.
_LOOKS = {
    "gyre": (
        Look("#d55e00", "#ff8533", "circle", (1, 0), _WIDE),
        Look("#8f3300", "#ffc194", "square", (8, 3), _WIDE),
        Look("#ee9a5a", "#b8622b", "triangle-up", (3, 3), _WIDE),
        Look("#b34700", "#ffa366", "diamond", (10, 3, 2, 3), _WIDE),
        Look("#6b2600", "#ffdcc2", "triangle-down", (6, 2), _WIDE),
        Look("#e07b2e", "#d97328", "cross", (2, 2), _WIDE),
    ),
    "peer": (
        Look("#33393f", "#e3e6e8", "triangle-right", (12, 4)),
        Look("#5b6670", "#bcc5cd", "triangle-left", (4, 4, 1, 4)),
        Look("#7d868e", "#98a1a9", "triangle-up", (4, 2)),
        Look("#4a4642", "#d3cdc6", "diamond", (1, 3)),
        Look("#6d6760", "#b0a99f", "cross", (14, 2)),
        Look("#45525c", "#a9bac7", "triangle-down", (8, 3, 2, 3, 2, 3)),
        Look("#8a837a", "#8f887f", "circle", (5, 5)),
        Look("#6a7a86", "#cad6de", "square", (2, 4)),
        Look("#565049", "#c0b8ae", "triangle-right", (3, 5)),
        Look("#3f4a52", "#d9e0e5", "wedge", (11, 2, 3, 2)),
    ),
    "floor": (
        Look("#9aa1a7", "#7d858c", "square", (2, 6)),
        Look("#a39d94", "#88827a", "circle", (7, 5)),
        Look("#8e99a2", "#6f7a84", "triangle-right", (1, 5)),
        Look("#b0aaa0", "#9d978e", "cross", (9, 6)),
    ),
}
# The contenders of one line never meet in an experiment; the first is gyre's default there.
_PREFERRED = {
    name: _LOOKS[kind][index]
    for (kind, index), names in {
        ("gyre", 0): ("gyre_fifo", "gyre", "gyre_stealing", "gyre_epoll"),
        ("gyre", 1): ("gyre_sharded", "gyre_coroutine", "gyre_epoll_coroutine", "gyre_blocking"),
        ("gyre", 2): ("gyre_epoll_spin", "gyre_spinning"),
        ("gyre", 3): ("gyre_uring",),
        ("gyre", 4): ("gyre_uring_coroutine",),
        ("gyre", 5): ("gyre_auto", "gyre_uring_spin"),
        ("peer", 0): ("asio",),
        ("peer", 1): ("libuv", "cppcoro"),
        ("peer", 2): ("libevent", "boost_lockfree", "tbb"),
        ("peer", 3): ("mutex",),
        ("peer", 4): ("moodycamel",),
        ("peer", 5): ("folly",),
        ("peer", 9): ("moodycamel_bounded",),
    }.items()
    for name in names
}


def looks(kinds: Mapping[str, str]) -> dict[str, Look]:
    """A look for each contender of these kinds; known ones look the same in every experiment.

    Two builds of one contender, NAME and NAME_noinline, look the same, and so do a library and its
    design, one of which usually runs.
    """
    builds = {name: name.removesuffix("_noinline").removesuffix("_design") for name in kinds}
    chosen = {name: _PREFERRED[name] for name in builds.values() if name in _PREFERRED}
    every = [look for drawn in _LOOKS.values() for look in drawn]
    for full, name in builds.items():
        if name not in chosen:
            free = [look for look in (*_LOOKS[kinds[full]], *every) if look not in chosen.values()]
            chosen[name] = free[0] if free else every[0]
    return {full: chosen[name] for full, name in builds.items()}


def dark_colours() -> dict[str, str]:
    """The replacement of each colour on a dark page."""
    return {look.light: look.dark for drawn in _LOOKS.values() for look in drawn}


@dataclass(frozen=True)
class Axes:
    """The axes of a chart."""

    x_title: str
    y_title: str
    log: bool
    y_domain: tuple[float, float] | None = None
    better: str = "lower"


def lines(
    rows: list[dict[str, Any]], labels: dict[str, Look], axes: Axes, title: str = ""
) -> alt.LayerChart:
    """A line chart: one line a contender, whiskers over the interquartile range of its runs.

    Each row has contender (a label), x, y, low, high and the tooltip's texts.
    """
    domain, ticks = _vertical(rows, axes)
    scale = alt.Scale(type="log" if axes.log else "linear", domain=domain, nice=False)
    x = alt.X("x:O", title=axes.x_title, axis=alt.Axis(labelAngle=0, grid=False))
    y = alt.Y("y:Q", title=axes.y_title, scale=scale, axis=alt.Axis(values=ticks, format=",~r"))
    base = _base(rows)
    colour, shape, dash = _encodings(labels)
    whisker = base.mark_rule(strokeWidth=1.5, opacity=0.7).encode(
        x=x, y=alt.Y("low:Q", title=axes.y_title), y2="high:Q", color=colour
    )
    line = base.mark_line().encode(
        x=x, y=y, color=colour, strokeDash=dash, strokeWidth=_widths(labels)
    )
    point = base.mark_point(size=70, filled=True, opacity=1).encode(
        x=x, y=y, color=colour, shape=shape
    )
    target = base.mark_circle(size=600, opacity=0).encode(x=x, y=y, tooltip=_tooltip(rows))
    return _finish(alt.layer(whisker, line, point, target), title)


def bars(
    rows: list[dict[str, Any]], labels: dict[str, Look], axes: Axes, title: str = ""
) -> alt.LayerChart:
    """A bar chart: one bar a contender, with a whisker over the interquartile range of its runs."""
    base = _base(rows)
    longest = max((max(row["y"], row["high"]) for row in rows), default=1.0)
    colour, _, _ = _encodings(labels, legend=False)
    best_first = sorted(rows, key=lambda row: row["y"], reverse=axes.better == "higher")
    order = [row["contender"] for row in best_first]
    y = alt.Y("contender:N", sort=order, title=None, axis=alt.Axis(labelLimit=0))
    x = alt.X(
        "y:Q",
        title=axes.y_title,
        scale=alt.Scale(domain=[0, _HEADROOM * longest], nice=False),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    bar = base.mark_bar(cornerRadiusEnd=4, height={"band": 0.62}).encode(
        x=x, y=y, color=colour, tooltip=_tooltip(rows)
    )
    whisker = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", y=y)
    number = base.mark_text(align="left", dx=8, fontSize=12).encode(
        x="high:Q", y=y, text="figure:N"
    )
    return _finish(alt.layer(bar, whisker, number), title)


def _base(rows: list[dict[str, Any]]) -> alt.Chart:
    chart = alt.Chart(alt.Data(values=rows))
    return chart.transform_filter(f"indexof({SHOWN}, datum.contender) >= 0")


def _encodings(
    labels: dict[str, Look], legend: bool = True
) -> tuple[alt.Color, alt.Shape, alt.StrokeDash]:
    names = list(labels)
    drawn = [labels[name] for name in names]
    box: Any = (
        alt.Legend(title=None, symbolOpacity=1, symbolStrokeWidth=0, symbolSize=100)
        if legend
        else None
    )
    return (
        alt.Color(
            "contender:N",
            legend=box,
            scale=alt.Scale(domain=names, range=[look.light for look in drawn]),
        ),
        alt.Shape(
            "contender:N",
            legend=box,
            scale=alt.Scale(domain=names, range=[look.shape for look in drawn]),
        ),
        alt.StrokeDash(
            "contender:N",
            legend=None,
            scale=alt.Scale(domain=names, range=[list(look.dash) for look in drawn]),
        ),
    )


def _widths(labels: dict[str, Look]) -> Any:
    """Wide lines for gyre's contenders, narrow ones for others."""
    wide = [name for name, look in labels.items() if look.width > _NARROW]
    test = alt.FieldOneOfPredicate("contender", wide)
    return alt.condition(test, alt.value(_WIDE), alt.value(_NARROW))


def _vertical(rows: list[dict[str, Any]], axes: Axes) -> tuple[list[float], list[float]]:
    """The vertical axis, which extends a little beyond the least and greatest value, and its ticks."""
    least, most = axes.y_domain or (
        min((min(row["y"], row["low"]) for row in rows), default=1.0),
        max((max(row["y"], row["high"]) for row in rows), default=10.0),
    )
    if not axes.log:
        return [0, most * 1.05], np.linspace(0, most, 6).round(2).tolist()
    low, high = least / 1.15, most * 1.15
    steps = (1, 2, 5) if high / low > 4 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10**power for power in powers for step in steps]
    return [low, high], [tick for tick in ticks if low <= tick <= high]


def _tooltip(rows: list[dict[str, Any]]) -> list[alt.Tooltip]:
    hidden = {"x", "y", "low", "high", "figure"}
    names = dict.fromkeys(name for row in rows for name in row if name not in hidden)
    return [alt.Tooltip(f"{name}:N", title=name.replace("_", " ")) for name in names]


def _finish(chart: alt.LayerChart, title: str) -> alt.LayerChart:
    return chart.properties(width=620, height=340, title=title)


def finished(chart: alt.LayerChart, labels: Sequence[str]) -> dict[str, Any]:
    """The chart's specification, with the signal that the legend's toggles set."""
    shown = chart.add_params(alt.param(name=SHOWN, value=list(labels)))
    return shown.to_dict(validate=schemapi.DEBUG_MODE)


def for_page(specification: dict[str, Any]) -> dict[str, Any]:
    """The chart for the page: as wide as the page, without legend and title, which the page has."""
    layers = [_without_legends(layer) for layer in specification["layer"]]
    page = {
        **specification,
        "layer": layers,
        "width": "container",
        "autosize": {"type": "fit", "contains": "padding"},
    }
    page.pop("title", None)
    return page


def _without_legends(layer: dict[str, Any]) -> dict[str, Any]:
    encoding = {
        channel: {**field, "legend": None} if channel in ("color", "shape", "strokeDash") else field
        for channel, field in layer["encoding"].items()
    }
    return {**layer, "encoding": encoding}


def unchecked() -> AbstractContextManager[None]:
    """Draws without comparing each part of a chart with the schema of Vega-Lite, which takes longer."""
    return schemapi.debug_mode(False)


def export(specification: dict[str, Any], path: Path) -> None:
    """Writes the chart as `path`.svg and `path`.png, for a light background."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {**specification, "background": "white", "padding": 16, "config": theme()}
    svg = vl_convert.vegalite_to_svg(plain)
    path.with_suffix(".svg").write_text(svg, encoding="utf-8")
    path.with_suffix(".png").write_bytes(vl_convert.svg_to_png(svg, scale=2))


def theme() -> dict[str, Any]:
    """The style of exported charts; the page has the same in its style variables."""
    return {
        "font": FONT,
        "axis": {
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "gridColor": "#e4e4e0",
            "domainColor": "#b5b5b0",
            "tickColor": "#b5b5b0",
        },
        "title": {"fontSize": 15, "anchor": "start", "offset": 12},
        "legend": {"labelFontSize": 12},
        "view": {"stroke": None},
    }


def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, so that the page needs no network."""
    return vl_convert.javascript_bundle().replace("</script", "<\\/script")
