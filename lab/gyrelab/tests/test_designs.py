# SPDX-License-Identifier: Apache-2.0
"""Designs in the rows of libraries that were not built."""

from pathlib import Path

from gyrelab import charts, claims, designs, experiments, planning, sections, summary
from gyrelab.building import Programs
from gyrelab.claims import Verdict
from gyrelab.results import Results
from gyrelab.tests import fakes, synthetic


def verdicts(measured: Results, name: str) -> dict[str, Verdict]:
    return {each.claim.id: each for each in claims.judge(measured, measured.experiment(name))}


def test_every_design_stands_for_a_library_of_its_experiment() -> None:
    found = 0
    for experiment in experiments.load_all().values():
        for each in experiment.contenders:
            if each.stands_for is not None:
                found += 1
                assert "design" in each.label
                assert experiment.contender(each.stands_for).stands_for is None
    assert found > 0


def test_design_is_judged_where_the_library_was_not_built() -> None:
    measured = synthetic.results(("throughput",), absent=("evpp", "muduo"))
    found = verdicts(measured, "throughput")["evpp_equals_muduo"]
    assert found.answer == claims.HOLDS
    assert found.claim.of == ("evpp",)
    assert found.judged_on == "evpp (design), not the library; muduo (design), not the library"


def test_library_is_judged_where_it_was_built() -> None:
    measured = synthetic.results(("throughput",), faster={"evpp_design": 3})
    found = verdicts(measured, "throughput")["evpp_equals_muduo"]
    assert found.answer == claims.HOLDS
    assert found.judged_on == ""


def test_claim_is_undecided_without_the_library_and_its_design() -> None:
    measured = synthetic.results(("throughput",), absent=("evpp", "evpp_design"))
    found = verdicts(measured, "throughput")["evpp_equals_muduo"]
    assert (found.answer, found.note) == (claims.UNDECIDED, "not measured: evpp")


def test_cell_in_which_a_design_cannot_run_leaves_no_gap() -> None:
    absent = tuple(f"{name}_noinline" for name in ("async_simple", "cppcoro", "folly"))
    measured = synthetic.results(
        ("coroutine_collect_all",), absent=absent, faster={"gyre_noinline": 3}
    )
    found = verdicts(measured, "coroutine_collect_all")["level_with_peers"]
    assert found.answer == claims.PARTLY
    assert "folly (design), not the library" in found.judged_on


def test_library_takes_the_row_of_its_design_unless_the_design_is_named(build: Path) -> None:
    fakes.make_all(build)
    io_event = experiments.load_all()["io_event"]

    def measured(*named: str) -> set[str]:
        (part,) = planning.choose([io_event], "smoke", named, Programs(build), None)
        assert part.not_built == (() if named or "evpp" in there else ("evpp",))
        return {each.name for each in part.contestants}

    there = {"evpp"}
    assert {"evpp", "muduo"} <= measured()
    assert not {"evpp_design", "muduo_design"} & measured()
    assert measured("evpp", "evpp_design") == {"evpp", "evpp_design"}
    (build / "lab" / "io_event" / "evpp").unlink()
    there.clear()
    assert "evpp_design" in measured()
    assert "muduo_design" not in measured()


def test_design_is_a_rival_in_the_overview() -> None:
    measured = synthetic.results(("throughput",), absent=("evpp", "muduo"))
    found = summary.highlight(measured.experiment("throughput"), measured)
    assert len(found.rivals) == len(set(found.rivals))
    assert found.rivals[:2] == ["evpp (design)", "muduo (design)"]


def test_library_and_design_look_the_same() -> None:
    looks = charts.looks({"evpp": "peer", "muduo": "peer", "evpp_design": "peer"})
    assert looks["evpp"] == looks["evpp_design"] != looks["muduo"]


def test_published_figures_stand_beside_those_of_the_design() -> None:
    measured = synthetic.results(("throughput",), rounds=2, grid="full", absent=("evpp", "muduo"))
    section = sections.make(measured, measured.experiment("throughput"))
    assert section.published is not None
    assert "evpp's figures are those of evpp (design)" in section.published.stand_ins
    assert not section.published.alone
    column = [each.name for each in section.published.contenders].index("evpp")
    assert all(ours != "–" for _, texts in section.published.rows for _, ours in [texts[column]])


def test_published_figures_are_drawn_where_no_such_cell_was_measured() -> None:
    measured = synthetic.results(("ping_pong",), grid="quick")
    section = sections.make(measured, measured.experiment("ping_pong"))
    assert section.published is not None
    assert not section.published.charts
    titles = [title for _, title, _ in section.published.alone]
    assert titles[0] == "Each its own client, 100 sessions: As published"
    assert len(titles) == 3
    names = [name for name, _ in section.exports()]
    assert len(names) == len(set(names))


def test_design_stands_in_only_where_it_was_measured() -> None:
    throughput = experiments.load_all()["throughput"]
    assert designs.find_row(throughput, "evpp", ["evpp_design", "asio"]) == "evpp_design"
    assert designs.find_row(throughput, "evpp", ["evpp_design", "evpp"]) == "evpp"
    assert designs.find_row(throughput, "evpp", ["asio"]) == "evpp"
