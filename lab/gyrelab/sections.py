# SPDX-License-Identifier: Apache-2.0
"""An experiment's section of the report: charts, tables, verdicts, published figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gyrelab import charts, claims, designs, growth, published
from gyrelab.cells import Cell, Value, key
from gyrelab.charts import Axes
from gyrelab.claims import Verdict
from gyrelab.experiments import Contender, Experiment, Metric
from gyrelab.figures import figure, times
from gyrelab.growth import Growth
from gyrelab.results import Results
from gyrelab.statistics import Ratio, median, quartiles, ratio


@dataclass(frozen=True)
class Entry:
    """One contender in one cell, as the table shows it."""

    median: float | None
    text: str
    ratio: Ratio | None = None
    trouble: str = ""
    by_cost: Ratio | None = None  # by CPU time per unit of work

    @property
    def too_noisy(self) -> bool:
        """Whether neither time nor CPU time shows a difference, or the lack of one."""
        noisy = [each.too_noisy for each in (self.ratio, self.by_cost) if each is not None]
        return bool(noisy) and all(noisy)


@dataclass(frozen=True)
class Panel:
    """A chart and its table: one value of the facet."""

    id: str
    title: str
    bars: bool
    chart: dict[str, Any]
    contenders: list[Contender]
    rows: list[tuple[str, list[Entry]]]
    overall: list[Entry]
    secondary: list[tuple[Metric, list[tuple[str, list[str]]]]]


@dataclass(frozen=True)
class Section:
    """An experiment in the report."""

    experiment: Experiment
    results: Results
    looks: dict[str, charts.Look]
    panels: list[Panel]
    verdicts: list[Verdict]
    published: "PublishedView | None"
    noisy: list[str]
    compared: int
    failures: list[str]
    deaths: list[str]
    refusals: list[str]
    not_built: list[str]
    rounds: str
    growths: list[Growth]

    def exports(self) -> list[tuple[str, dict[str, Any]]]:
        """Every chart by its name."""
        found = [(panel.id, panel.chart) for panel in self.panels]
        if self.published is not None:
            drawings = (*self.published.charts, *self.published.alone)
            found += [(name, chart) for name, _, chart in drawings]
        return found


@dataclass(frozen=True)
class PublishedView:
    """The published figures beside those measured here: charts on the same axes and a table."""

    charts: list["Drawing"]
    alone: list["Drawing"]  # of cells that were not measured
    setup: str
    stand_ins: list[str]  # the rows that designs have here, in words
    contenders: list[Contender]
    rows: list[tuple[str, list[tuple[str, str]]]]


# A cell with the published figures and the measured ones, by contender.
Pair = tuple[Cell, dict[str, float], dict[str, Entry]]
Drawing = tuple[str, str, dict[str, Any]]  # a chart's name, its title, and the chart


def make(results: Results, experiment: Experiment) -> Section:
    measured = results.contenders(experiment.name)
    taking_part = [each for each in experiment.contenders if each.name in measured]
    looks = charts.looks({each.name: each.kind for each in experiment.contenders})
    panels = [
        _panel(results, experiment, taking_part, looks, title, cells)
        for title, cells in _facets(results, experiment)
    ]
    entries = [
        (row, entry, contender)
        for panel in panels
        for row, entries in panel.rows
        for entry, contender in zip(entries, panel.contenders, strict=True)
        if entry.ratio is not None and contender.name != experiment.baseline
    ]
    noisy = [
        f"{contender.label} at {row}: ±{entry.ratio.half_width:.0%}, about "
        f"{entry.ratio.rounds_needed} rounds would suffice"
        if not math.isinf(entry.ratio.half_width)
        else f"{contender.label} at {row}: too few rounds"
        for row, entry, contender in entries
        if entry.ratio is not None and entry.too_noisy
    ]
    return Section(
        experiment=experiment,
        results=results,
        looks=looks,
        panels=panels,
        verdicts=claims.judge(results, experiment),
        published=_published(results, experiment, looks),
        noisy=noisy,
        compared=len(entries),
        failures=_end_lines(results.failures(experiment.name)),
        deaths=_end_lines(results.deaths(experiment.name)),
        refusals=_end_lines(results.refusals(experiment.name)),
        not_built=results.not_built(experiment.name),
        rounds=_rounds(results, experiment),
        growths=growth.measure_growths(results, experiment),
    )


def _rounds(results: Results, experiment: Experiment) -> str:
    """The number of rounds of the cells, in words: `5 rounds`, `5 to 23 rounds`."""
    counts = [
        max((run["round"] for run in results.runs(experiment.name, name, cell)), default=0)
        for cell in results.cells(experiment.name)
        for name in results.contenders(experiment.name)
    ]
    measured = [count for count in counts if count]
    low, high = (min(measured), max(measured)) if measured else (0, 0)
    if (low, high) == (1, 1):
        return "1 round"
    return f"{high} rounds" if low == high else f"{low} to {high} rounds"


def _facets(results: Results, experiment: Experiment) -> list[tuple[str, list[dict[str, Value]]]]:
    """The panels' titles and cells: by the facet, or by x itself when that is text."""
    by = experiment.facets or ((experiment.x,) if _text_axis(results, experiment) else ())
    found = results.cells(experiment.name)
    if not by:
        return [(experiment.title, found)]
    panels: dict[str, list[dict[str, Value]]] = {}
    for cell in found:
        panels.setdefault(_title(experiment, by, cell), []).append(cell)
    return list(panels.items())


def _title(experiment: Experiment, by: Sequence[str], cell: Cell) -> str:
    """The title of a panel: the values that its cells have in common."""
    return ", ".join(experiment.parameters[name].shown(cell[name]) for name in by)


def _draws_bars(results: Results, experiment: Experiment, found: list[dict[str, Value]]) -> bool:
    """Whether x is text or a single number, neither of which makes a line."""
    single = len({cell[experiment.x] for cell in found}) == 1
    return single or _text_axis(results, experiment)


def _text_axis(results: Results, experiment: Experiment) -> bool:
    return isinstance(results.cells(experiment.name)[0][experiment.x], str)


def _panel(
    results: Results,
    experiment: Experiment,
    contenders: list[Contender],
    looks: dict[str, charts.Look],
    title: str,
    found: list[dict[str, Value]],
) -> Panel:
    present = [
        c for c in contenders if any(results.runs(experiment.name, c.name, f) for f in found)
    ]
    metric, parameter = experiment.metric, experiment.parameters[experiment.x]
    rows = [
        (
            parameter.shown(cell[experiment.x]),
            [_entry(results, experiment, c, cell) for c in present],
        )
        for cell in found
    ]
    labels = {each.label: looks[each.name] for each in present}
    points = [
        _point(results, experiment, contender, cell, entry)
        for cell, (_, entries) in zip(found, rows, strict=True)
        for contender, entry in zip(present, entries, strict=True)
        if entry.median is not None
    ]
    axes = Axes(
        parameter.label,
        f"{metric.label}, {metric.unit}",
        experiment.log_scale,
        better=metric.better,
    )
    full = f"{experiment.title}: {title}" if title != experiment.title else title
    bars = _draws_bars(results, experiment, found)
    draw = charts.bars if bars else charts.lines
    return Panel(
        id=f"{experiment.name}-{_slug(title)}",
        title=title,
        bars=bars,
        chart=charts.finished(draw(points, labels, axes, full), list(labels)),
        contenders=present,
        rows=rows,
        overall=[_overall(results, experiment, c, found) for c in present]
        if len(found) > 1
        else [],
        secondary=[
            _secondary(results, experiment, m, present, found) for m in experiment.secondary
        ],
    )


def _slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def _entry(results: Results, experiment: Experiment, contender: Contender, cell: Cell) -> Entry:
    name, metric = experiment.name, experiment.metric
    series = results.series(name, contender.name, cell, metric.name)
    runs = results.runs(name, contender.name, cell)
    bad = [run for run in runs if run["status"] != "ok"]
    status = bad[0]["status"].replace("_", " ") if bad else ""
    trouble = f"{len(bad)} of {len(runs)} runs {status}" if bad else ""
    if not series:
        known = {"out of memory": "out of memory", "refused": "not run", "": "–"}
        return Entry(None, known.get(status, "failed"), trouble=trouble)
    middle = median(list(series.values()))
    logs = results.log_ratios(experiment, contender.name, cell, metric)
    cost = experiment.cost
    costs = results.log_ratios(experiment, contender.name, cell, cost) if cost else []
    by_cost = ratio([costs]) if costs else None
    return Entry(middle, figure(middle), ratio([logs]) if logs else None, trouble, by_cost)


def _overall(
    results: Results, experiment: Experiment, contender: Contender, found: Sequence[Cell]
) -> Entry:
    name, metric = experiment.name, experiment.metric
    middles, strata, costs = [], [], []
    for cell in found:
        series = results.series(name, contender.name, cell, metric.name)
        logs = results.log_ratios(experiment, contender.name, cell, metric)
        cost = experiment.cost
        if cost and (both := results.log_ratios(experiment, contender.name, cell, cost)):
            costs.append(both)
        if series:
            middles.append(math.log(median(list(series.values()))))
        if logs:
            strata.append(logs)
    if len(middles) < len(found):
        return Entry(None, "–")
    mean = math.exp(sum(middles) / len(middles))
    by_cost = ratio(costs) if costs else None
    return Entry(mean, figure(mean), ratio(strata) if strata else None, by_cost=by_cost)


def _secondary(
    results: Results,
    experiment: Experiment,
    metric: Metric,
    contenders: list[Contender],
    found: Sequence[Cell],
) -> tuple[Metric, list[tuple[str, list[str]]]]:
    parameter = experiment.parameters[experiment.x]
    rows = []
    for cell in found:
        series = [results.series(experiment.name, c.name, cell, metric.name) for c in contenders]
        texts = [figure(median(list(s.values())), metric.unit) if s else "–" for s in series]
        rows.append((parameter.shown(cell[experiment.x]), texts))
    return metric, rows


def _point(
    results: Results, experiment: Experiment, contender: Contender, cell: Cell, entry: Entry
) -> dict[str, Any]:
    metric, parameter = experiment.metric, experiment.parameters[experiment.x]
    values = list(results.series(experiment.name, contender.name, cell, metric.name).values())
    low, high = quartiles(values)
    point = {
        "contender": contender.label,
        "x": cell[experiment.x],
        "y": entry.median,
        "low": low,
        "high": high,
        "figure": f"{figure(entry.median)} {metric.unit}",
        parameter.label: parameter.shown(cell[experiment.x]),
        "median": f"{figure(entry.median)} {metric.unit}",
        "interquartile range": f"{figure(low)} to {figure(high)} {metric.unit}",
        "runs": str(len(values)),
    }
    if entry.ratio is not None and contender.name != experiment.baseline:
        label = experiment.contender(experiment.baseline).label
        point[f"against {label}"] = times(entry.ratio)
    return point


def _published(
    results: Results,
    experiment: Experiment,
    looks: dict[str, charts.Look],
) -> PublishedView | None:
    points = published.points(experiment)
    names = {point.contender for point in points}
    shown = [each for each in experiment.contenders if each.name in names]
    measured = results.contenders(experiment.name)
    rows = {
        each.name: experiment.contender(designs.find_row(experiment, each.name, measured))
        for each in shown
    }
    pairs: list[Pair] = []
    for cell in _published_cells(points, results.cells(experiment.name)):
        theirs = {p.contender: p.value for p in points if p.cell.items() <= cell.items()}
        entries = {
            name: _entry(results, experiment, rows[name], cell)
            for name in theirs
            if results.runs(experiment.name, rows[name].name, cell)
        }
        pairs.append((cell, theirs, entries))
    if not pairs:
        return None
    parameter = experiment.parameters[experiment.x]
    by = experiment.facets
    many = len({_title(experiment, by, cell) for cell, _, _ in pairs}) > 1
    groups: dict[str, list[Pair]] = {}
    table = []
    for pair in pairs:
        cell, theirs, entries = pair
        title = _title(experiment, by, cell) if many else ""
        groups.setdefault(title, []).append(pair)
        name = parameter.shown(cell[experiment.x])
        texts = [
            (
                figure(theirs[c.name]) if c.name in theirs else "–",
                entries[c.name].text if c.name in entries else "–",
            )
            for c in shown
        ]
        table.append((f"{title}: {name}" if title else name, texts))
    drawn: list[Drawing] = []
    alone: list[Drawing] = []
    for title, group in groups.items():
        views = _published_charts(results, experiment, rows, looks, title, group)
        (drawn if len(views) > 1 else alone).extend(views)
    setups = dict.fromkeys(point.setup for point in points)
    stand_ins = [
        f"{experiment.contender(name).label}'s figures are those of {row.label}"
        for name, row in rows.items()
        if row.name != name
    ]
    return PublishedView(drawn, alone, "; ".join(setups), stand_ins, shown, table)


def _published_cells(points: Sequence[published.Point], measured: Sequence[Cell]) -> list[Cell]:
    """The measured cells of each published figure, or where there are none the figure's own cell."""
    found: dict[str, Cell] = {}
    for point in points:
        matching = [cell for cell in measured if point.cell.items() <= cell.items()]
        found |= {key(cell): cell for cell in matching or [point.cell]}
    return list(found.values())


def _published_charts(
    results: Results,
    experiment: Experiment,
    rows: dict[str, Contender],
    looks: dict[str, charts.Look],
    of: str,
    pairs: list[Pair],
) -> list[Drawing]:
    """The published chart and, where something was measured, that on the same axes."""
    parameter, metric = experiment.parameters[experiment.x], experiment.metric
    shown = [experiment.contender(name) for name in rows]
    labels = {each.label: looks[each.name] for each in (*shown, *rows.values())}
    rows_theirs, rows_ours = [], []
    for cell, theirs, entries in pairs:
        for each in shown:
            value = theirs.get(each.name)
            if value is not None:
                rows_theirs.append(
                    {
                        "contender": each.label,
                        "x": cell[experiment.x],
                        "y": value,
                        "low": value,
                        "high": value,
                        parameter.label: parameter.shown(cell[experiment.x]),
                        "published": f"{figure(value)} {metric.unit}",
                    }
                )
            if each.name in entries and entries[each.name].median is not None:
                row = rows[each.name]
                rows_ours.append(_point(results, experiment, row, cell, entries[each.name]))
    everything = [row["y"] for row in (*rows_theirs, *rows_ours)]
    axes = Axes(
        parameter.label,
        f"{metric.label}, {metric.unit}",
        experiment.log_scale,
        (min(everything) * 0.8, max(everything) * 1.25),
    )
    found = []
    for part, title, points in (
        ("published", "As published", rows_theirs),
        ("published-cells-here", "On this machine", rows_ours),
    ):
        if not points:
            continue
        name = f"{experiment.name}-{part}" + (f"-{_slug(of)}" if of else "")
        full = f"{of}: {title}" if of else title
        chart = charts.lines(points, labels, axes, f"{experiment.title}: {full}")
        found.append((name, full, charts.finished(chart, list(labels))))
    return found


def _end_lines(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The ends of these runs; equal ends share one line."""
    seen: dict[str, int] = {}
    for run in runs:
        text = f"{run['contender']} at {key(run['cell'])}: {_end(run)}"
        seen[text] = seen.get(text, 0) + 1
    return [f"{text} ({count} runs)" if count > 1 else text for text, count in seen.items()]


def _end(run: dict[str, Any]) -> str:
    reason = run.get("reason", "")
    is_expected = run["status"] in ("out_of_memory", "refused")
    return reason if is_expected else f"{run['status']}: {reason}"
