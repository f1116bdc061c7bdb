# SPDX-License-Identifier: Apache-2.0
"""Verdicts, published figures, and the advice at the top of the report."""

import math
import re
from collections.abc import Callable

import pytest

from gyrelab import cells, claims, experiments, published, summary
from gyrelab.statistics import Ratio
from gyrelab.tests import synthetic

Figures = Callable[[str, cells.Cell], dict[str, float]]


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (2.1, 2.9, claims.HOLDS),
        (1.0, 1.9, claims.FAILS),
        (3.1, 4.0, claims.FAILS),
        (1.9, 2.5, claims.UNDECIDED),
        (2.5, 3.2, claims.UNDECIDED),
        (0.0, float("inf"), claims.UNDECIDED),
    ],
)
def test_interval_against_the_claimed_range(low: float, high: float, answer: str) -> None:
    assert claims.judge_range(Ratio(2.5, low, high, 7), 2.0, 3.0) == answer


def test_verdicts_follow_the_figures() -> None:
    measured = synthetic.results(("post_task",), rounds=7, faster={"gyre_sharded": 1.2})
    verdicts = {v.claim.id: v for v in claims.judge(measured, measured.experiment("post_task"))}
    assert verdicts["fifo_over_queues"].answer == claims.HOLDS
    assert verdicts["sharded_over_queues"].answer == claims.HOLDS
    assert verdicts["moodycamel_over_mutex"].answer == claims.FAILS
    assert "below" in verdicts["moodycamel_over_mutex"].note
    everywhere = verdicts["both_ahead_up_to_two"]
    assert everywhere.answer == claims.HOLDS
    assert everywhere.note.startswith("lowest at callable=16 neighbours=0 producers=")


def test_mean_tells_its_lowest_cell() -> None:
    measured = synthetic.results(("post_task",), rounds=7)
    for run in measured.document["runs"]:
        cell = run["cell"]
        if run["contender"] == "gyre_fifo" and cell["producers"] == 8 and cell["callable"] == 16:
            run["metrics"]["ns_per_task"] *= 2
    verdicts = {v.claim.id: v for v in claims.judge(measured, measured.experiment("post_task"))}
    note = verdicts["fifo_over_queues"].note
    assert re.search(r"mean of \d+ cells, \d\.\d\d at .*producers=8", note)
    assert "mean of" not in verdicts["both_ahead_up_to_two"].note
    assert "mean of" not in verdicts["moodycamel_over_mutex"].note


def test_one_lost_cell_breaks_a_claim_on_every_cell() -> None:
    measured = synthetic.results(("post_task",), rounds=7)
    for run in measured.document["runs"]:
        if run["contender"] == "libuv" and run["cell"]["producers"] == 1:
            run["metrics"]["ns_per_task"] = 1.0 + run["round"] / 100
    verdicts = {v.claim.id: v for v in claims.judge(measured, measured.experiment("post_task"))}
    assert verdicts["both_ahead_up_to_two"].answer == claims.FAILS
    assert "producers=1" in verdicts["both_ahead_up_to_two"].note
    assert "1 outside of " in verdicts["both_ahead_up_to_two"].note


def test_a_cell_that_is_level_but_for_noise_leaves_a_claim_on_every_cell_undecided() -> None:
    measured = synthetic.results(("post_task",), rounds=7)
    figures = {}
    for run in measured.document["runs"]:
        if run["cell"]["producers"] == 1:
            figures[run["contender"], run["round"], run["cell"]["wakeup"]] = run["metrics"]
    for (contender, turn, wakeup), metrics in figures.items():
        if contender == "libuv":
            slower = max(
                figures[name, turn, wakeup]["ns_per_task"] for name in ("gyre_fifo", "gyre_sharded")
            )
            metrics["ns_per_task"] = slower * (0.98 if turn % 2 else 1.02)
    verdicts = {v.claim.id: v for v in claims.judge(measured, measured.experiment("post_task"))}
    everywhere = verdicts["both_ahead_up_to_two"]
    assert everywhere.answer == claims.UNDECIDED
    assert everywhere.ratio is not None
    assert everywhere.ratio.low < 1 < everywhere.ratio.high
    assert "producers=1" in everywhere.note
    assert "1 undecided of " in everywhere.note


def test_claim_is_judged_against_the_rivals_that_were_built() -> None:
    measured = synthetic.results(("post_task",), absent=("moodycamel", "libuv"))
    verdicts = {v.claim.id: v for v in claims.judge(measured, measured.experiment("post_task"))}
    assert verdicts["moodycamel_over_mutex"].answer == claims.UNDECIDED
    assert verdicts["moodycamel_over_mutex"].note == "not measured: moodycamel"
    everywhere = verdicts["both_ahead_up_to_two"]
    assert everywhere.answer == claims.PARTLY
    assert "not built: moodycamel, libuv" in everywhere.note
    assert claims.count_answers([everywhere]) == {"all": 1, "holds": 0, "partly": 1, "open": 0}


def test_claim_without_a_rival_that_was_built_but_not_chosen_is_undecided() -> None:
    measured = synthetic.results(("post_task",), absent=("moodycamel", "libuv"))
    measured.document["experiments"]["post_task"]["not_built"] = []
    verdicts = {v.claim.id: v for v in claims.judge(measured, measured.experiment("post_task"))}
    assert verdicts["both_ahead_up_to_two"].answer == claims.UNDECIDED
    assert "not measured: moodycamel, libuv" in verdicts["both_ahead_up_to_two"].note


def test_lead_that_grows_with_a_parameter_is_stated_per_doubling() -> None:
    measured = synthetic.results(("post_task",), rounds=7)
    for run in measured.document["runs"]:
        if run["contender"] in ("mutex", "moodycamel"):
            exponent = 0.5 + run["round"] / 10_000 if run["contender"] == "mutex" else 0
            run["metrics"]["ns_per_task"] = 100 * run["cell"]["producers"] ** exponent
    verdicts = {v.claim.id: v for v in claims.judge(measured, measured.experiment("post_task"))}
    lead = verdicts["moodycamel_lead_grows"]
    assert lead.answer == claims.HOLDS
    assert lead.ratio is not None
    assert lead.ratio.value == pytest.approx(2**0.5, rel=0.001)
    assert lead.published == pytest.approx(1.12, rel=0.01)
    assert lead.note == "for each doubling of producers"


def test_growth_of_a_figure_needs_two_values_of_its_parameter() -> None:
    threads = experiments.load_all()["throughput_threads"]
    for grid, answer in (("smoke", claims.UNDECIDED), ("full", claims.FAILS)):
        measured = synthetic.results(("throughput_threads",), rounds=5, grid=grid)
        verdicts = {each.claim.id: each for each in claims.judge(measured, threads)}
        assert verdicts["evpp_scales"].answer == answer


def test_claim_about_a_contender_that_died_is_undecided_and_says_so() -> None:
    measured = synthetic.results(("post_task",), rounds=7)
    for run in measured.document["runs"]:
        if run["contender"] == "moodycamel":
            run.update(status="out_of_memory", reason="out of memory after 2.00 s", metrics={})
    verdicts = {v.claim.id: v for v in claims.judge(measured, measured.experiment("post_task"))}
    assert verdicts["moodycamel_over_mutex"].answer == claims.UNDECIDED
    assert verdicts["moodycamel_over_mutex"].note == "moodycamel ran out of memory"
    assert verdicts["fifo_over_queues"].answer == claims.HOLDS


def test_published_seconds_become_nanoseconds_per_task() -> None:
    points = published.points(experiments.load_all()["post_task"])
    assert len(points) == 3 * 7 + 3
    four = next(p for p in points if p.contender == "mutex" and p.cell.get("producers") == 4)
    assert four.value == pytest.approx(5.45523e9 / 4e6)
    one = next(
        p for p in points if p.contender == "boost_lockfree" and p.cell.get("producers") == 1
    )
    assert one.value == pytest.approx(845.0, rel=0.01)


def test_published_claims_agree_with_the_published_figures() -> None:
    found = 0
    for experiment in experiments.load_all().values():
        for claim in experiment.claims:
            stated = published.ratio(experiment, claim)
            if claim.source == "published" and stated is not None:
                found += 1
                assert claim.low <= stated <= claim.high, f"{experiment.name}: {claim.id}"
    assert found > 30


def test_advice_names_the_fastest_queue_and_its_lead() -> None:
    measured = synthetic.results(("hop", "post_task"), rounds=7)
    pairs = [(measured.experiment(name), measured) for name in measured.experiments]
    answer = summary.advice(pairs)
    assert answer is not None
    assert answer.best.contender.name == "gyre_sharded"
    assert answer.state == "clear"
    assert answer.best.ratio is not None
    assert answer.best.ratio.value == pytest.approx(62 / 8, rel=0.05)
    assert answer.alternative is not None
    assert answer.alternative.contender.name == "gyre_fifo"
    assert [each.contender.name for each in answer.standings][:2] == ["gyre_sharded", "gyre_fifo"]


def test_advice_says_when_two_are_level() -> None:
    measured = synthetic.results(("post_task",), rounds=5, noise=0.05, faster={"gyre_fifo": 15 / 8})
    answer = summary.advice([(measured.experiment("post_task"), measured)])
    assert answer is not None
    assert answer.state == "level"
    assert answer.runner_up is not None


def test_advice_is_silent_after_one_round() -> None:
    measured = synthetic.results(("post_task",), rounds=1)
    answer = summary.advice([(measured.experiment("post_task"), measured)])
    assert answer is not None
    assert answer.state == "unknown"


def test_alternative_is_taken_for_another_reason() -> None:
    measured = synthetic.results(("post_task",), faster={"moodycamel": 9})
    answer = summary.advice([(measured.experiment("post_task"), measured)])
    assert answer is not None
    assert answer.alternative is not None
    assert answer.alternative.reason != answer.best.reason
    assert answer.alternative.contender.name == "gyre_fifo"


def test_highlight_is_the_contest_the_experiment_names() -> None:
    measured = synthetic.results(("hop",), absent=("moodycamel",))
    found = summary.highlight(measured.experiment("hop"), measured)
    assert found.contender.name == "gyre_fifo"
    assert found.rivals == [
        "mutex + vector",
        "boost::lockfree",
        "asio",
        "asio, polling",
        "libuv",
    ]
    assert found.not_built == ("moodycamel",)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(48 / 15, rel=0.05)
    assert (found.verdict, found.decided) == ("ahead", "yes")
    assert [contender.name for contender, _ in found.variants] == ["gyre_sharded"]
    assert found.variants[0][1].value == pytest.approx(48 / 8, rel=0.05)


def test_highlight_tells_the_cell_in_which_gyre_does_worst() -> None:
    measured = synthetic.results(("coroutine_tools",))
    tools = measured.experiment("coroutine_tools")
    for run in measured.document["runs"]:
        if run["contender"] == "gyre" and run["cell"]["tool"] == "strand":
            run["metrics"][tools.metric.name] *= 2
    found = summary.highlight(tools, measured)
    assert found.ratio is not None
    assert found.worst_cell is not None
    where, ratio = found.worst_cell
    assert where == "tool=strand", "the number of operations is the same in all cells"
    assert ratio < found.ratio.value


def test_highlight_leaves_out_no_peer_and_no_cell() -> None:
    measured = synthetic.results(("coroutine_chain",), rounds=3)
    chain = measured.experiment("coroutine_chain")
    behind_calls = [c for c in chain.contenders if "_noinline" in c.name]
    found = summary.highlight(chain, measured)
    peers = [each.label for each in behind_calls if each.kind == "peer"]
    assert found.rivals == peers
    assert not found.variants, "the chain of a thousand is not in this grid"
    for experiment in experiments.load_all().values():
        builds = {True, False} if experiment.name.startswith("coroutine_c") else {False}
        compared = {name for of in experiment.contest.of for name in experiment.rivals(of)}
        assert compared >= {
            each.name
            for each in experiment.contenders
            if each.kind == "peer" and ("_noinline" in each.name) in builds
        }, experiment.name


_ALL_PEERS = re.compile(
    r"(every|any|best|no) (other |C\+\+ )?(peer|library|coroutine library)", re.I
)


def test_sentence_about_every_peer_is_tested_against_every_peer() -> None:
    found = 0
    for experiment in experiments.load_all().values():
        for claim in experiment.claims:
            if claim.source != "gyre" or not _ALL_PEERS.search(claim.sentence):
                continue
            found += 1
            ours = experiment.contender(claim.of[0])
            cells_of = [
                cell
                for cell in experiment.grids["full"].cells
                if cells.matches(cell, claim.where) and ours.runs_in(cell)
            ]
            rivals = {
                each.name
                for each in experiment.contenders
                if each.name in experiment.rivals(claim.of[0])
                if each.stands_for is None and any(each.runs_in(cell) for cell in cells_of)
            }
            assert rivals <= set(claim.over), f"{experiment.name}: {claim.id}"
    assert found > 20


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (Ratio(1.3, 1.1, 1.5, 5), "ahead"),
        (Ratio(0.8, 0.7, 0.9, 5), "behind"),
        (Ratio(1.01, 0.98, 1.04, 5), "level"),
        (Ratio(0.95, 0.89, 1.01, 5), "undecided"),  # 5 % behind is not called level
        (Ratio(1.2, 0.9, 1.6, 5), "undecided"),
        (Ratio(2.0, 0.0, math.inf, 2), "undecided"),
        (None, "not measured"),
    ],
)
def test_verdict_needs_an_interval_that_decides(ratio: Ratio | None, verdict: str) -> None:
    assert summary.judge_ratio(ratio) == verdict


def test_cpu_time_gives_the_verdict_that_time_does_not() -> None:
    ping_pong = experiments.load_all()["ping_pong"]
    contender, wide = ping_pong.contender("gyre_epoll"), Ratio(1.2, 0.9, 1.6, 5)

    def found(by_cost: Ratio | None) -> summary.Highlight:
        return summary.Highlight(ping_pong, contender, ["asio"], wide, by_cost, [])

    assert (found(None).verdict, found(None).decided) == ("undecided", "no: ±33 %")
    cheaper = found(Ratio(1.2, 1.1, 1.3, 5))
    assert (cheaper.verdict, cheaper.decided) == ("ahead", "by CPU time")
    assert cheaper.deciding == cheaper.by_cost
    assert found(wide).verdict == "undecided"


def test_lead_names_the_cpu_time_that_pays_for_it() -> None:
    wakeup = experiments.load_all()["pool_wakeup"]
    contender, ahead = wakeup.contender("gyre_stealing"), Ratio(1.5, 1.4, 1.6, 9)

    def found(by_cost: Ratio | None) -> summary.Highlight:
        return summary.Highlight(wakeup, contender, ["asio"], ahead, by_cost, [])

    dearer = found(Ratio(0.5, 0.45, 0.55, 9))
    assert (dearer.verdict, dearer.decided) == ("ahead", "yes, with 2 times the CPU time")
    assert found(Ratio(1.2, 1.1, 1.3, 9)).decided == "yes"
    assert found(Ratio(0.97, 0.9, 1.05, 9)).decided == "yes"


def test_cpu_time_is_also_asked_where_time_says_level() -> None:
    ping_pong = experiments.load_all()["ping_pong"]
    contender, level = ping_pong.contender("gyre_epoll"), Ratio(1.0, 0.99, 1.01, 5)

    def found(by_cost: Ratio | None) -> summary.Highlight:
        return summary.Highlight(ping_pong, contender, ["asio"], level, by_cost, [])

    dearer = found(Ratio(0.9, 0.88, 0.92, 5))
    assert (dearer.verdict, dearer.decided, dearer.deciding) == (
        "behind",
        "by CPU time",
        dearer.by_cost,
    )
    assert (found(None).verdict, found(None).decided) == ("level", "yes")
    noisy = found(Ratio(0.9, 0.7, 1.2, 5))
    assert (noisy.verdict, noisy.decided, noisy.deciding) == ("level", "yes", level)


def test_claims_on_time_are_also_judged_by_cpu_time() -> None:
    measured = synthetic.results(("ping_pong",), rounds=5)
    ping_pong = measured.experiment("ping_pong")
    for run in measured.document["runs"]:
        run["metrics"]["server_cpu_seconds"] = 2.0 if run["contender"] == "gyre_epoll" else 1.0
    verdicts = {each.claim.id: each for each in claims.judge(measured, ping_pong)}
    by_cost = verdicts["callbacks_ahead"].by_cost
    assert by_cost is not None and by_cost.ratio is not None
    assert (by_cost.answer, by_cost.ratio.value) == (claims.FAILS, pytest.approx(0.5))


def with_figures(experiment: str, grid: str, of: Figures) -> dict[str, claims.Verdict]:
    """The verdicts when contenders have these figures of a metric, give or take 1 in 400."""
    measured = synthetic.results((experiment,), rounds=5, grid=grid)
    for run in measured.document["runs"]:
        for metric, value in of(run["contender"], run["cell"]).items():
            jitter = (run["round"] * sum(map(ord, run["contender"])) ** 2) % 11
            run["metrics"][metric] = value * (1 + jitter / 2000)
    verdicts = claims.judge(measured, measured.experiment(experiment))
    return {each.claim.id: each for each in verdicts}


def test_cpu_time_decides_a_published_claim_that_time_does_not() -> None:
    measured = synthetic.results(("ping_pong",), rounds=5, noise=0.5)
    for run in measured.document["runs"]:
        run["metrics"]["server_cpu_seconds"] = 1.0 if run["contender"] == "evpp" else 1.1
    found = {
        each.claim.id: each for each in claims.judge(measured, measured.experiment("ping_pong"))
    }["evpp_over_asio"]
    assert found.answer == claims.UNDECIDED
    assert (found.decisive, found.decisive.answer) == (found.by_cost, claims.HOLDS)


def test_published_lead_does_not_hold_where_the_two_are_level() -> None:
    few = tuple(c.name for c in experiments.load_all()["throughput"].contenders)
    absent = tuple(name for name in few if name not in ("evpp", "muduo"))
    measured = synthetic.results(("throughput",), rounds=6, grid="full", absent=absent)
    for run in measured.document["runs"]:
        faster = 0.003 if run["round"] % 2 else -0.003
        rate = 1 + faster if run["contender"] == "evpp" else 1.0
        run["metrics"] = {"mib_per_second": rate}
    verdicts = claims.judge(measured, measured.experiment("throughput"))
    found = {each.claim.id: each for each in verdicts}
    large = found["evpp_over_muduo_with_large_messages"]
    assert (large.answer, large.note) == (claims.FAILS, "level, within 5 %")
    assert found["evpp_equals_muduo"].answer == claims.HOLDS


def test_claim_compares_two_values_of_a_parameter() -> None:
    def figures(contender: str, cell: cells.Cell) -> dict[str, float]:
        return {"mib_per_second": 1500.0 if cell["connections"] == 100 else 1000.0}

    found = with_figures("throughput_threads", "full", figures)["evpp_hundred_over_thousand"]
    assert found.answer == claims.HOLDS
    assert found.ratio is not None and found.ratio.value == pytest.approx(1.5, rel=0.01)
    assert found.published == pytest.approx(1.6, abs=0.05)
    reverse = with_figures(
        "throughput_threads",
        "full",
        lambda _, cell: {"mib_per_second": float(cell["connections"])},
    )
    assert reverse["muduo_hundred_over_thousand"].answer == claims.FAILS


def test_lead_that_shrinks_with_another_parameter_is_a_ratio_of_ratios() -> None:
    def figures(contender: str, cell: cells.Cell) -> dict[str, float]:
        short = cell["think"] == "below_8_ms" and contender == "published_blocking"
        return {"tasks_per_second": 1200.0 if short else 1000.0}

    found = with_figures("pool", "full", figures)["lead_shrinks_with_think_time"]
    assert found.ratio is not None and found.ratio.value == pytest.approx(1.2, rel=0.01)
    assert found.answer == claims.HOLDS


@pytest.mark.parametrize(("left", "answer"), [(0.0, claims.HOLDS), (30.0, claims.FAILS)])
def test_share_of_zero_is_a_figure(left: float, answer: str) -> None:
    def figures(contender: str, cell: cells.Cell) -> dict[str, float]:
        return {"left": left, "submitted": 1000.0}

    found = with_figures("pool", "full", figures)["nothing_left_with_think_time"]
    assert found.answer == answer
    assert found.ratio is not None and found.ratio.value == pytest.approx(left / 10, rel=0.01)


def test_claim_is_judged_on_the_other_build_where_its_own_was_not_measured() -> None:
    visible = ("async_simple", "cppcoro", "folly")
    absent = (*visible, *(f"{name}_design" for name in visible))
    measured = synthetic.results(
        ("coroutine_chain",), absent=absent, faster={"folly_noinline": 0.25}
    )
    verdicts = claims.judge(measured, measured.experiment("coroutine_chain"))
    found = {each.claim.id: each for each in verdicts}["cppcoro_over_folly"]
    assert found.answer == claims.HOLDS
    assert found.judged_on.startswith("measured: cppcoro_noinline, folly_noinline; compiler g++")


def test_claim_prefers_the_compiler_of_its_report() -> None:
    gcc = with_figures("coroutine_collect_all", "quick", lambda *_: {})
    assert gcc["cppcoro_over_folly"].judged_on == "compiler g++, not clang++"
    both = with_figures(
        "coroutine_collect_all",
        "full",
        lambda name, cell: {
            "ns_per_link": 300.0 if name == "folly" and cell["compiler"] == "clang++" else 100.0
        },
    )["cppcoro_over_folly"]
    assert (both.judged_on, both.answer) == ("", claims.HOLDS)


def test_published_growth_does_not_hold_where_the_lead_stays_as_it_is() -> None:
    measured = synthetic.results(("post_task",), rounds=6)
    for run in measured.document["runs"]:
        growth = 0.003 if run["round"] % 2 else -0.003
        lead = 2 * run["cell"]["producers"] ** growth if run["contender"] == "moodycamel" else 1.0
        nanoseconds = 200 / lead
        run["metrics"] = {"ns_per_task": nanoseconds}
    verdicts = claims.judge(measured, measured.experiment("post_task"))
    found = {each.claim.id: each for each in verdicts}["moodycamel_lead_grows"]
    assert (found.answer, found.note) == (
        claims.FAILS,
        "for each doubling of producers; level, within 5 %",
    )
