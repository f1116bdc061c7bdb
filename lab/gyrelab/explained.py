# SPDX-License-Identifier: Apache-2.0
"""The page of an explanation, `explain-….html` beside the report, and the report's links to it."""

import re
from collections import Counter
from html import escape
from pathlib import Path

from markupsafe import Markup

from gyrelab import cells, flame, pages
from gyrelab.explain import Explanation
from gyrelab.figures import figure
from gyrelab.stacks import brief

_LINKS = re.compile(r'(<div class="explained" data-experiment="(\w+)">).*?(</div>)', re.DOTALL)
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_MOST = 12  # functions and system calls listed

Row = tuple[str, str, str]


def _per_unit(count: float, units: int) -> str:
    value = count / max(units, 1)
    return "< 0.001" if 0 < value < 0.001 else figure(value)


def facts(found: Explanation) -> list[Row]:
    """Rows of a name, the figure for the whole run, and the figure per unit."""
    usage = found.usage

    def row(name: str, count: float) -> Row:
        return name, f"{count:,.0f}", _per_unit(count, found.units)

    rows = [
        (found.unit, f"{found.units:,}", ""),
        (
            "CPU time",
            f"{usage.cpu_seconds:.3f} s",
            f"{usage.cpu_seconds * 1e9 / found.units:,.1f} ns",
        ),
        row("context switches, voluntary", usage.voluntary_switches),
        row("context switches, involuntary", usage.involuntary_switches),
        row("page faults, minor", usage.minor_faults),
        row("page faults, major", usage.major_faults),
    ]
    for name, value in found.allocations.items():
        rows.append((name.replace("_", " "), "", figure(value)))
    return rows


def calls(found: Explanation) -> list[Row]:
    """The most frequent system calls: name, number, number per unit; the last row is their sum."""
    if found.calls is None:
        return []
    counted, units = found.calls.counted, found.calls.units

    def row(name: str, count: int) -> Row:
        return name, f"{count:,}", _per_unit(count, units)

    kept = counted.most_common(_MOST)
    rest = counted.total() - sum(count for _, count in kept)
    rows = [row(name, count) for name, count in kept]
    return [*rows, *([row("rarer ones", rest)] if rest else []), row("all", counted.total())]


def functions(found: Explanation) -> list[tuple[str, float]]:
    """The functions in which most samples were taken, and their share of all samples."""
    if found.samples is None:
        return []
    named: Counter[str] = Counter()
    for name, count in found.samples.self_counts().items():
        named[brief(name)] += count
    return [(name, count / found.samples.total) for name, count in named.most_common(_MOST)]


def write(found: Explanation, report: Path) -> Path:
    """Writes the page into the report's folder, and links it in the report if that exists."""
    values = "-".join(f"{name}-{value}" for name, value in found.cell.items())
    path = report.parent / f"explain-{found.experiment.name}-{found.contender.name}-{values}.html"
    template = pages.environment().get_template("explain.html.j2")
    page = template.render(
        found=found,
        cell=cells.key(found.cell),
        facts=facts(found),
        calls=calls(found),
        functions=functions(found),
        graphs=[(role, Markup(flame.draw(stack, role))) for role, stack in found.processes()],
        report=report.name if report.exists() else None,
    )
    path.write_text(page, encoding="utf-8")
    if report.exists():
        link(report)
    return path


def link(report: Path) -> None:
    """Lists the explanations that lie beside the report in the section of each experiment."""
    page = report.read_text(encoding="utf-8")

    def links(place: re.Match[str]) -> str:
        pages = sorted(report.parent.glob(f"explain-{place[2]}-*.html"))
        listed = "".join(f'<li><a href="{escape(p.name)}">{_title(p)}</a></li>' for p in pages)
        shown = f"<p>Explained: where the time goes</p><ul>{listed}</ul>" if listed else ""
        return f"{place[1]}{shown}{place[3]}"

    report.write_text(_LINKS.sub(links, page), encoding="utf-8")


def _title(page: Path) -> str:
    title = _TITLE.search(page.read_text(encoding="utf-8"))
    return title[1] if title else escape(page.stem)
