# SPDX-License-Identifier: Apache-2.0
"""Charts in Vega-Lite. Contenders differ in colour (Okabe and Ito, 2008), shape and dash."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert

SHOWN = "shown"  # the signal that holds the labels of the visible contenders
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Look:
    """A contender's colours, shape and dash. `dark` replaces `light` on a dark page."""

    light: str
    dark: str
    shape: str
    dash: tuple[int, ...]


_LOOKS = (
    Look("#d55e00", "#ff8533", "circle", (1, 0)),
    Look("#b88000", "#f0b429", "square", (8, 3)),
    Look("#4d4d4d", "#d0d0d0", "triangle-up", (3, 3)),
    Look("#b0568c", "#e59bc4", "diamond", (10, 3, 2, 3)),
    Look("#008060", "#2fc79b", "triangle-down", (6, 2)),
    Look("#0067a3", "#4ba3e3", "cross", (2, 2)),
    Look("#2f8fc4", "#8fd0f7", "triangle-right", (12, 4)),
    Look("#7a7000", "#e8dd5a", "triangle-left", (4, 4, 1, 4)),
    Look("#8c5a3c", "#cf9a78", "circle", (4, 2)),
    Look("#8e8e8a", "#a3a39e", "square", (1, 3)),
    Look("#a8005f", "#ff6fb5", "triangle-up", (14, 2)),
    Look("#6a3fa0", "#b592f0", "diamond", (8, 3, 2, 3, 2, 3)),
    Look("#00707a", "#3fd0dc", "cross", (5, 5)),
    Look("#5b6b7a", "#9fb2c4", "triangle-down", (2, 4)),
    Look("#6b705c", "#b7bfa3", "triangle-right", (2, 6)),
)
# The contenders of one line never meet in an experiment.
_PREFERRED = {
    name: index
    for index, names in {
        0: ("gyre_fifo", "gyre", "gyre_stealing", "gyre_epoll"),
        1: ("gyre_sharded", "gyre_epoll_coroutine"),
        2: ("mutex",),
        3: ("boost_lockfree", "libevent"),
        4: ("moodycamel",),
        5: ("asio",),
        6: ("libuv",),
        10: ("gyre_uring",),
        11: ("gyre_uring_coroutine",),
        12: ("gyre_auto", "gyre_uring_spin"),
        13: ("uring_plain",),
        14: ("uring_multishot",),
    }.items()
    for name in names
}


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each contender; known contenders look the same in every experiment.

    Two builds of one contender, NAME and NAME_noinline, look the same.
    """
    builds = {name: name.removesuffix("_noinline") for name in names}
    chosen = {name: _PREFERRED[name] for name in builds.values() if name in _PREFERRED}
    free = [index for index in range(len(_LOOKS)) if index not in chosen.values()]
    for name in builds.values():
        if name not in chosen:
            chosen[name] = free.pop(0) if free else 0
    return {name: _LOOKS[chosen[of]] for name, of in builds.items()}


def dark_colours() -> dict[str, str]:
    """The replacement of each colour on a dark page."""
    return {look.light: look.dark for look in _LOOKS}


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
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
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
    colour, _, _ = _encodings(labels, legend=False)
    best_first = sorted(rows, key=lambda row: row["y"], reverse=axes.better == "higher")
    order = [row["contender"] for row in best_first]
    y = alt.Y("contender:N", sort=order, title=None, axis=alt.Axis(labelLimit=160))
    x = alt.X(
        "y:Q",
        title=axes.y_title,
        scale=alt.Scale(zero=True),
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
    return chart.add_params(alt.param(name=SHOWN, value=list(labels))).to_dict()


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


def export(specification: dict[str, Any], path: Path) -> None:
    """Writes the chart as `path`.svg and `path`.png, for a light background."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {**specification, "background": "white", "padding": 16, "config": theme()}
    path.with_suffix(".svg").write_text(vl_convert.vegalite_to_svg(plain), encoding="utf-8")
    path.with_suffix(".png").write_bytes(vl_convert.vegalite_to_png(plain, scale=2))


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
