# SPDX-License-Identifier: Apache-2.0
"""The table at the top of the page: the published reports' conclusions, in their own terms."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gyrelab import reports
from gyrelab.claims import FAILS, HOLDS, UNDECIDED, Verdict
from gyrelab.experiments import Experiment
from gyrelab.reports import Report
from gyrelab.statistics import Ratio


@dataclass(frozen=True)
class Row:
    """One conclusion: the report's figure, ours with its interval, and the verdict."""

    experiment: Experiment
    conclusion: str
    stated: str
    drawn: str  # the ratio of the report's own figures; empty without any
    here: str
    answer: str
    reasons: list[str]  # what the verdict rests on, and what is missing


@dataclass(frozen=True)
class Group:
    """The conclusions of one report."""

    report: Report
    rows: list[Row]


def group_by_report(judged: Iterable[tuple[Experiment, Sequence[Verdict]]]) -> list[Group]:
    """The conclusions by report; reports of which nothing was measured are left out."""
    rows: dict[str, list[Row]] = {}
    for experiment, verdicts in judged:
        for verdict in verdicts:
            if verdict.claim.report is not None:
                rows.setdefault(verdict.claim.report, []).append(_make_row(experiment, verdict))
    return [Group(each, rows[each.id]) for each in reports.load_all() if each.id in rows]


def count_verdicts(groups: Sequence[Group]) -> dict[str, int]:
    """The number of conclusions in all, and of each verdict."""
    answers = [row.answer for each in groups for row in each.rows]
    return {
        "all": len(answers),
        "holds": answers.count(HOLDS),
        "fails": answers.count(FAILS),
        "open": answers.count(UNDECIDED),
    }


def _make_row(experiment: Experiment, verdict: Verdict) -> Row:
    claim, shown = verdict.claim, verdict.decisive
    reasons = ["by CPU time"] if shown is not verdict else []
    reasons += [each for each in (verdict.judged_on, shown.note) if each]
    return Row(
        experiment,
        claim.conclusion,
        claim.stated,
        "" if verdict.published is None else format_in_terms(verdict.published, claim.terms),
        _format_interval(shown.ratio, claim.terms) if shown.ratio else "–",
        shown.answer,
        reasons,
    )


def format_in_terms(ratio: float, terms: str) -> str:
    """A ratio as the report would write it: `+31 %`, `3.19×`; a share: `0.4 %`."""
    if terms == "times":
        return f"{ratio:.2f}×"
    if terms == "share":
        return f"{ratio:.2g} %"
    percent = 100 * (ratio - 1)
    digits = 0 if abs(percent) >= 9.95 else 1
    return f"{percent:+.{digits}f} %".replace("-", "−")


def _format_interval(ratio: Ratio, terms: str) -> str:
    if math.isinf(ratio.high):
        return f"{format_in_terms(ratio.value, terms)} (too few rounds)"
    ends = [format_in_terms(end, terms) for end in (ratio.low, ratio.high)]
    return f"{format_in_terms(ratio.value, terms)} ({ends[0].removesuffix(' %')} to {ends[1]})"
