# SPDX-License-Identifier: Apache-2.0
"""An experiment, read from its experiment.toml: contenders, grids, claims, published series.

docs/lab/experiment-toml.md is the manual of the file.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gyrelab import paths, reports
from gyrelab.cells import NEIGHBOURS, Cell, Filter, Value, key, matches, unique
from gyrelab.errors import UsageProblem, did_you_mean, pick
from gyrelab.toml_table import Table

GRIDS = ("smoke", "quick", "full", "published")
KINDS = ("gyre", "peer", "floor")
TERMS = ("percent", "times", "share")
_NOINLINE = "_noinline"  # in the names of the build whose links are behind calls


@dataclass(frozen=True)
class Metric:
    """A figure that the contenders report."""

    name: str
    label: str
    unit: str
    better: str
    counted: bool = False  # only in warm-up rounds, as counting slows the program down


@dataclass(frozen=True)
class Contender:
    """One program of the experiment, and the cells in which it can run."""

    name: str
    label: str
    about: str
    kind: str
    needs: tuple[str, ...]
    stands_for: str | None  # the library whose row this design takes where that is not built
    only: Filter
    skip: Filter

    def runs_in(self, cell: Cell) -> bool:
        """Whether this contender can run in the cell."""
        return matches(cell, self.only) and not (self.skip and matches(cell, self.skip))


@dataclass(frozen=True)
class Parameter:
    """A dimension of the grid."""

    name: str
    label: str
    values: tuple[Value, ...]
    value_labels: dict[str, str]

    def shown(self, value: Value) -> str:
        """The value as the report writes it."""
        return self.value_labels.get(str(value), f"{value:,}" if isinstance(value, int) else value)


@dataclass(frozen=True)
class Grid:
    """The cells to measure, if any, and the number of rounds."""

    name: str
    rounds: int
    warmup_rounds: int
    run_seconds: float | None  # mean duration of a run on two processors, for the first estimate
    cells: tuple[dict[str, Value], ...]
    named: dict[str, tuple[str, ...]]  # by a cell's key: the only contenders that run there


@dataclass(frozen=True)
class Claim:
    """A conclusion and the ratio behind it."""

    id: str
    sentence: str
    source: str
    of: tuple[str, ...]
    over: tuple[str, ...]
    where: Filter
    low: float
    high: float
    ratio: str
    scope: str
    metric: str
    per_doubling: str | None  # the ratio is the factor for each doubling of this parameter
    across: Filter  # one parameter and two values: the ratio is that of the first to the second
    prefer: Filter  # where cells of these values were measured, they alone decide
    otherwise: dict[str, str]  # contenders in the place of those of which nothing was measured
    share_of: str | None  # the figure is a share of this metric, in percent, and no ratio
    report: str | None  # the published report that states the conclusion
    conclusion: str  # in the report's own terms
    stated: str  # the report's figure in its own terms
    terms: str  # how the conclusion states a figure: one of TERMS


@dataclass(frozen=True)
class Published:
    """A series of published/figures.json and its conversion to this experiment's metric."""

    series: str
    report: str | None  # None: all reports
    title: str
    x: str
    where: Filter
    factor: float
    divide_by_x: bool
    collapse: dict[str, Value] | None
    names: dict[str, str]  # contenders' names in the series that differ from those here


@dataclass(frozen=True)
class Advice:
    """The answer at the top of the report: its candidates, their rivals, and the cells compared."""

    question: str
    candidates: tuple[str, ...]
    against: tuple[str, ...]
    where: Filter
    reasons: dict[str, str]


@dataclass(frozen=True)
class Contest:
    """The experiment in one figure: the first of `of` against the best peer, over all cells.

    No experiment.toml can leave out rivals or cells.
    """

    of: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    """All of one experiment.toml."""

    name: str
    title: str
    question: str
    description: str
    baseline: str
    metric: Metric
    secondary: tuple[Metric, ...]
    cost: Metric | None  # the secondary metric that judges cells too: CPU time per unit of work
    contenders: tuple[Contender, ...]
    parameters: dict[str, Parameter]
    x: str
    facets: tuple[str, ...]
    log_scale: bool
    timeout_seconds: float
    compile_seconds: float | None  # CPU time of a source, where it is not the usual one
    pin: tuple[int, ...]
    memory_limit_mib: int  # 0: none
    grids: dict[str, Grid]
    claims: tuple[Claim, ...]
    published: tuple[Published, ...]
    contest: Contest
    advice: Advice | None
    raw: dict[str, Any] = field(repr=False)

    @property
    def counts(self) -> bool:
        """Whether programs count something in warm-up rounds."""
        return any(each.counted for each in self.secondary)

    def contender(self, name: str) -> Contender:
        """The contender of that name, or a UsageProblem."""
        pick(name, [each.name for each in self.contenders], f"contender of {self.name}")
        return next(each for each in self.contenders if each.name == name)

    def rivals(self, name: str) -> list[str]:
        """The peers of a contender, in the same build of an experiment that has two."""
        behind_calls = _NOINLINE in name
        return [
            each.name
            for each in self.contenders
            if each.kind == "peer" and (_NOINLINE in each.name) == behind_calls
        ]

    def find_metric(self, name: str | None) -> Metric:
        """The metric of that name; the main one for None."""
        known = {each.name: each for each in (self.metric, *self.secondary)}
        return known[pick(name or self.metric.name, known, f"metric of {self.name}")]

    def program(self, contender: str, build: Path) -> Path:
        """The contender's program in the build tree."""
        return build / "lab" / self.name / contender


def load_all() -> dict[str, Experiment]:
    """Every experiment of the repository by name."""
    files = sorted(paths.experiments().glob("*/experiment.toml"))
    found = [load(file) for file in files]
    # post_task answers the first question a reader has, so it comes first.
    found.sort(key=lambda each: (each.advice is None, each.name))
    return {each.name: each for each in found}


def check_contenders(chosen: Sequence[Experiment], contenders: Sequence[str]) -> None:
    """A UsageProblem when one of the names is no contender of these experiments."""
    known = list(
        dict.fromkeys(each.name for experiment in chosen for each in experiment.contenders)
    )
    for name in contenders:
        if name not in known:
            raise UsageProblem(f"no contender '{name}': {did_you_mean(name, known)}")


def check_grid(chosen: Sequence[Experiment], grid: str) -> None:
    """A UsageProblem when one of these experiments is not in the grid."""
    for experiment in chosen:
        if not experiment.grids[grid].cells:
            others = [each.name for each in experiment.grids.values() if each.cells]
            raise UsageProblem(
                f"{experiment.name} is not in the grid {grid}; choose --grid {' or '.join(others)}"
            )


def load(path: Path) -> Experiment:
    """Reads and checks one experiment.toml."""
    experiment = parse(Table.load(path, paths.shown(path)))
    if experiment.name != path.parent.name:
        raise UsageProblem(
            f"{paths.shown(path)}: name: '{experiment.name}' must be the folder's name, "
            f"'{path.parent.name}'"
        )
    return experiment


def parse(top: Table) -> Experiment:
    """Checks a whole experiment.toml and returns its Experiment."""
    parameters = _parameters(top.table("parameters"))
    metric = _metric(top.table("metric"))
    secondary = tuple(_metric(each, True) for each in top.tables("secondary", []))
    rows = top.tables("contenders")
    names = [each.text("name") for each in rows]
    contenders = tuple(_contender(each, names, parameters) for each in rows)
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise top.wrong("contenders", f"'{repeated}' appears twice")
    metrics = [metric.name, *(each.name for each in secondary)]
    chart = top.table("chart")
    run = top.table("run", {})
    warmup_rounds = run.whole("warmup_rounds", 1)
    pin = tuple(run.items("pin", []))
    if not all(isinstance(core, int) and core >= 0 for core in pin):
        raise run.wrong("pin", "must be a list of processor numbers, such as [0, 1]")
    x = chart.choice("x", parameters)
    experiment = Experiment(
        name=top.text("name"),
        title=top.text("title"),
        question=top.text("question"),
        description=top.text("description"),
        baseline=top.choice("baseline", names),
        metric=metric,
        secondary=secondary,
        cost=_cost(top, secondary),
        contenders=contenders,
        parameters=parameters,
        x=x,
        facets=_facets(chart, parameters),
        log_scale=chart.choice("scale", ("log", "linear"), "log") == "log",
        timeout_seconds=run.number("timeout_seconds", 60),
        compile_seconds=run.number("compile_seconds", None),
        pin=pin,
        memory_limit_mib=run.whole("memory_limit_mib", 0),
        grids=_grids(top.table("grids"), parameters, warmup_rounds, names),
        claims=tuple(_claim(each, names, parameters, metrics) for each in top.tables("claims", [])),
        published=tuple(_published(each, parameters) for each in top.tables("published", [])),
        contest=_contest(top, contenders),
        advice=_advice(top.table("advice"), names, parameters) if "advice" in top else None,
        raw=top.raw,
    )
    for table in (chart, run, top):
        table.done()
    return experiment


def _facets(chart: Table, parameters: dict[str, Parameter]) -> tuple[str, ...]:
    """The parameters of `chart.facet`: none, one, or several."""
    if isinstance(chart.raw.get("facet"), list):
        return tuple(chart.words("facet", parameters))
    name = chart.choice("facet", parameters, None)
    return (name,) if name else ()


def _metric(table: Table, secondary: bool = False) -> Metric:
    metric = Metric(
        table.text("name"),
        table.text("label"),
        table.text("unit", ""),
        table.choice("better", ("lower", "higher")),
        secondary and table.flag("counted", False),
    )
    table.done()
    return metric


def _cost(top: Table, secondary: tuple[Metric, ...]) -> Metric | None:
    known = {each.name: each for each in secondary}
    name = top.choice("cost", known, None)
    return known[name] if name else None


def _parameters(table: Table) -> dict[str, Parameter]:
    found = {}
    for name in table.keys():
        row = table.table(name)
        values = tuple(row.items("values", []))
        if not all(isinstance(value, int | str) for value in values):
            raise row.wrong("values", "each must be a whole number or text")
        labels = row.table("value_labels", {})
        found[name] = Parameter(
            name, row.text("label"), values, {key: labels.text(key) for key in labels.keys()}
        )
        row.done()
    if not found:
        raise table.wrong("", "an experiment needs at least one parameter")
    return found


def _filter(table: Table, key: str, parameters: dict[str, Parameter]) -> Filter:
    chosen = table.table(key, {})
    for name in chosen.keys():
        if name not in parameters:
            raise chosen.wrong(name, f"no such parameter; {did_you_mean(name, parameters)}")
    return {name: _values(chosen, name, parameters[name]) for name in chosen.keys()}


def _values(table: Table, key: str, parameter: Parameter) -> list[Value]:
    value_or_list = table.value(key)
    values = value_or_list if isinstance(value_or_list, list) else [value_or_list]
    for value in values:
        if not isinstance(value, int | str) or isinstance(value, bool):
            raise table.wrong(key, f"{value!r} is not allowed; it must be a whole number or text")
        if parameter.values and value not in parameter.values:
            allowed = ", ".join(map(str, parameter.values))
            raise table.wrong(key, f"{value!r} is not allowed; it must be one of {allowed}")
    return values


def _contender(table: Table, names: list[str], parameters: dict[str, Parameter]) -> Contender:
    contender = Contender(
        name=table.text("name"),
        label=table.text("label"),
        about=table.text("about"),
        kind=table.choice("kind", KINDS),
        needs=tuple(table.words("needs", default=[])),
        stands_for=table.choice("stands_for", names, None),
        only=_filter(table, "only", parameters),
        skip=_filter(table, "skip", parameters),
    )
    table.done()
    return contender


def _grids(
    table: Table, parameters: dict[str, Parameter], warmup_rounds: int, contenders: list[str]
) -> dict[str, Grid]:
    found = {}
    for name in GRIDS:
        row = table.table(name)
        products: list[list[dict[str, Value]]] = []
        named: dict[str, tuple[str, ...]] = {}
        for each in row.tables("cells"):
            only = each.words("contenders", contenders, [])
            products.append(_cells(each, parameters))
            named.update({key(cell): tuple(only) for cell in products[-1] if only})
        found[name] = Grid(
            name,
            row.whole("rounds", least=1),
            row.whole("warmup_rounds", warmup_rounds),
            row.number("run_seconds", None),
            tuple(unique(itertools.chain.from_iterable(products))),
            named,
        )
        row.done()
    table.done()
    return found


def _cells(table: Table, parameters: dict[str, Parameter]) -> list[dict[str, Value]]:
    choices: list[list[Any]] = []
    for name, parameter in parameters.items():
        if name == NEIGHBOURS and name not in table:
            choices.append([0])
            continue
        if name not in table:
            raise table.wrong(name, f"missing; a cell needs {', '.join(parameters)}")
        value = table.value(name)
        choices.append([value] if isinstance(value, dict) else _values(table, name, parameter))
    table.done()
    product = (dict(zip(parameters, values, strict=True)) for values in itertools.product(*choices))
    return [_with_shares(cell, table) for cell in product]


def _with_shares(cell: dict[str, Any], table: Table) -> dict[str, Value]:
    """Replaces `{ total = N, divided_by = "producers" }` by the share of one producer."""
    for name, value in cell.items():
        if isinstance(value, dict):
            rule = table.table(name)
            total = rule.whole("total", least=1)
            others = [each for each in cell if isinstance(cell[each], int)]
            cell[name] = max(1, total // cell[rule.choice("divided_by", others)])
            rule.done()
    return cell


def _claim(
    table: Table, names: list[str], parameters: dict[str, Parameter], metrics: list[str]
) -> Claim:
    if sum(bound in table for bound in ("range", "at_least", "at_most")) != 1:
        raise table.wrong(
            "range", "a claim needs one of range = [low, high], at_least = low and at_most = high"
        )
    if "range" in table:
        bounds = table.items("range")
        numbers = all(isinstance(bound, int | float) for bound in bounds)
        if len(bounds) != 2 or not numbers or not 0 < bounds[0] <= bounds[1]:
            raise table.wrong(
                "range", f"{bounds} is not allowed; it must be [low, high], 0 < low ≤ high"
            )
        low, high = map(float, bounds)
    elif "at_least" in table:
        low, high = table.number("at_least"), float("inf")
    else:
        low, high = 0.0, table.number("at_most")
    claim = Claim(
        id=table.text("id"),
        sentence=table.text("sentence"),
        source=table.choice("source", ("published", "gyre")),
        of=tuple(table.words("of", names)),
        over=tuple(table.words("over", names, [])),
        where=_filter(table, "where", parameters),
        low=low,
        high=high,
        ratio=table.choice("ratio", ("speed", "value"), "speed"),
        scope=table.choice("scope", ("mean", "every_cell"), "mean"),
        metric=table.choice("metric", metrics, metrics[0]),
        per_doubling=table.choice("per_doubling", parameters, None),
        across=_filter(table, "across", parameters),
        prefer=_filter(table, "prefer", parameters),
        otherwise=_otherwise(table, names),
        share_of=table.choice("share_of", metrics, None),
        report=table.choice("report", reports.list_ids(), None),
        conclusion=table.text("conclusion", ""),
        stated=table.text("stated", ""),
        terms=table.choice("terms", TERMS, "percent"),
    )
    if (claim.source == "published") != bool(claim.report and claim.conclusion and claim.stated):
        raise table.wrong(
            "report", "published claims, and no others, need `report`, `conclusion` and `stated`"
        )
    if not claim.of or not (claim.over or claim.per_doubling or claim.across or claim.share_of):
        raise table.wrong("of", "`of` and `over` must each name at least one contender")
    if claim.across and [len(values) for values in claim.across.values()] != [2]:
        raise table.wrong("across", "must name one parameter with two values")
    if claim.across and (len(claim.of) > 1 or len(claim.over) > 1):
        raise table.wrong("across", "needs one contender in `of`, and at most one in `over`")
    if claim.per_doubling and (len(claim.of) > 1 or len(claim.over) > 1):
        raise table.wrong("per_doubling", "needs one contender in `of`, and at most one in `over`")
    table.done()
    return claim


def _otherwise(table: Table, names: list[str]) -> dict[str, str]:
    rows = table.table("otherwise", {})
    return {key: rows.choice(key, names) for key in rows.keys()}


def _published(table: Table, parameters: dict[str, Parameter]) -> Published:
    collapse = _filter(table, "collapse_to", parameters)
    renamed = table.table("names", {})
    published = Published(
        series=table.text("series"),
        report=table.text("report", None) if "report" in table else None,
        title=table.text("title"),
        x=table.text("x"),
        where=_filter(table, "where", parameters),
        factor=table.number("factor"),
        divide_by_x=table.flag("divide_by_x", False),
        collapse={name: values[0] for name, values in collapse.items()} or None,
        names={key: renamed.text(key) for key in renamed.keys()},
    )
    if published.collapse is None and published.x not in parameters:
        raise table.wrong(
            "x", f"'{published.x}' is not a parameter; name a parameter, or add collapse_to"
        )
    table.done()
    return published


def _contest(top: Table, contenders: tuple[Contender, ...]) -> Contest:
    """The contest of `[highlight]`; by default of all of gyre's contenders."""
    table = top.table("highlight", {})
    ours = [each.name for each in contenders if each.kind == "gyre"]
    contest = Contest(tuple(table.words("of", ours, ours)))
    table.done()
    return contest


def _advice(table: Table, names: list[str], parameters: dict[str, Parameter]) -> Advice:
    reasons = table.table("reasons", {})
    advice = Advice(
        question=table.text("question"),
        candidates=tuple(table.words("candidates", names)),
        against=tuple(table.words("against", names)),
        where=_filter(table, "where", parameters),
        reasons={name: reasons.text(name) for name in reasons.keys()},
    )
    table.done()
    return advice
