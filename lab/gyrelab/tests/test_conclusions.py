# SPDX-License-Identifier: Apache-2.0
"""The published reports' conclusions at the top of the page."""

import pytest

from gyrelab import claims, conclusions, experiments, reports
from gyrelab.conclusions import Group
from gyrelab.tests import synthetic


def groups(*names: str, absent: tuple[str, ...] = (), rounds: int = 5) -> list[Group]:
    measured = synthetic.results(names, rounds=rounds, absent=absent)
    chosen = [measured.experiment(name) for name in names]
    return conclusions.group_by_report((each, claims.judge(measured, each)) for each in chosen)


def test_every_report_has_conclusions() -> None:
    stated = {c.report for each in experiments.load_all().values() for c in each.claims}
    assert stated - {None} == set(reports.list_ids())


def test_conclusions_stand_by_report_in_its_own_terms() -> None:
    queues, chinese = groups("post_task")
    assert (queues.report.id, chinese.report.id) == ("queues", "queues_chinese")
    first = queues.rows[0]
    assert (first.stated, first.drawn) == ("100 to 500 %", "+276 %")
    assert first.here.startswith("−") and first.here.endswith(" %)")
    assert (first.answer, first.reasons) == (claims.FAILS, ["below the published range"])
    counted = conclusions.count_verdicts([queues, chinese])
    assert counted["all"] == 7 == counted["holds"] + counted["fails"] + counted["open"]


def test_conclusion_names_the_design_that_was_measured() -> None:
    found = groups("throughput", absent=("evpp", "muduo"))
    row = next(row for each in found for row in each.rows if row.stated == "17 to 130 %")
    assert row.reasons[0] == "evpp (design), not the library"


def test_conclusion_about_something_that_is_not_there_is_undecided() -> None:
    found = groups("post_task", absent=("moodycamel",))
    assert found[0].rows[0].here == "–"
    assert found[0].rows[0].reasons == ["not measured: moodycamel"]
    assert found[0].rows[0].answer == claims.UNDECIDED


@pytest.mark.parametrize(
    ("ratio", "terms", "text"),
    [
        (1.314, "percent", "+31 %"),
        (0.954, "percent", "−4.6 %"),
        (6.0, "percent", "+500 %"),
        (3.194, "times", "3.19×"),
        (0.0, "share", "0 %"),
    ],
)
def test_ratio_is_told_as_the_report_would(ratio: float, terms: str, text: str) -> None:
    assert conclusions.format_in_terms(ratio, terms) == text
