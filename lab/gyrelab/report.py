# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that needs no network, and its charts as SVG and PNG."""

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from gyrelab import charts, claims, conclusions, explained, pages, sections, summary
from gyrelab.figures import figure, quality, spoken, times
from gyrelab.results import Results


def write(chosen: dict[str, Results], out: Path) -> Path:
    """Writes the page, and the charts into `charts/` beside it. `chosen`: experiment -> results."""
    with charts.unchecked():
        shown = [
            sections.make(results, results.experiment(name)) for name, results in chosen.items()
        ]
    out.parent.mkdir(parents=True, exist_ok=True)
    for section in shown:
        for name, chart in section.exports():
            charts.export(chart, out.parent / "charts" / name)
    environment = pages.environment()
    environment.filters["log"] = math.log
    environment.globals.update(
        times=times, figure=figure, spoken=spoken, quality=quality, infinity=math.inf
    )
    groups = conclusions.group_by_report((each.experiment, each.verdicts) for each in shown)
    highlights = [summary.highlight(each.experiment, each.results) for each in shown]
    page = environment.get_template("report.html.j2").render(
        sections=shown,
        reports=groups,
        conclusions=conclusions.count_verdicts(groups),
        advice=summary.advice([(s.experiment, s.results) for s in shown]),
        highlights=highlights,
        counts=summary.counts(highlights),
        claims={
            section.experiment.name: claims.count_answers(section.verdicts) for section in shown
        },
        machines=_describe_machines(shown),
        specifications=_make_script_json(_collect_specifications(shown)),
        dark=_make_script_json(charts.dark_colours()),
        javascript=Markup(charts.javascript()),
        written=f"{datetime.now():%-d %B %Y}",
    )
    out.write_text(page, encoding="utf-8")
    explained.link(out)
    return out


def _make_script_json(value: Any) -> Markup:
    return Markup(json.dumps(value).replace("</", "<\\/"))


def _collect_specifications(shown: list[sections.Section]) -> dict[str, Any]:
    return {name: charts.for_page(chart) for section in shown for name, chart in section.exports()}


def _describe_machines(shown: list[sections.Section]) -> list[dict[str, Any]]:
    """The machine, programs and load of each result file."""
    files = {id(section.results): section.results for section in shown}
    return [_describe_machine(results) for results in files.values()]


def _describe_machine(results: Results) -> dict[str, Any]:
    document = results.document
    machine, load = document["machine"], document["load"]
    builds = [
        program.get("build", {})
        for experiment in document["experiments"].values()
        for program in experiment["programs"].values()
    ]
    libraries = {
        name: version for build in builds for name, version in build.get("libraries", {}).items()
    }
    commit = document["revision"]["commit"][:12]
    memory = f", {machine['memory_bytes'] / 2**30:.0f} GiB" if "memory_bytes" in machine else ""
    after = load["after"][0] if load["after"] else None
    facts = {
        "Processor": f"{machine['processor']}, {machine['cores']} cores{memory}",
        "System": f"{machine.get('system', '')}, {machine['kernel']}"
        + (", virtual machine" if machine.get("virtual") else ""),
        "Governor": {"none": "not visible to the system"}.get(
            machine["governor"], machine["governor"]
        ),
        "Compiler": ", ".join(dict.fromkeys(b["compiler"] for b in builds if "compiler" in b))
        or "unknown",
        "Flags": ", ".join(dict.fromkeys(b["flags"] for b in builds if "flags" in b)) or "unknown",
        "Libraries": ", ".join(f"{name} {version}" for name, version in sorted(libraries.items()))
        or "none",
        "Load": f"{load['before'][0]:g} before"
        + (f", {after:g} after" if after is not None else ""),
        "Revision": commit + (" with changes" if document["revision"]["changed"] else ""),
        "Measured": f"{document['started'].replace('T', ' ').removesuffix('+00:00')} UTC, grid {document['grid']}, "
        f"{len(document['runs'])} runs" + ("" if results.complete else " so far (interrupted)"),
    }
    return {"file": Path(results.name).name, "facts": facts}
