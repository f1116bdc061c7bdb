# SPDX-License-Identifier: Apache-2.0
"""experiment.toml: the repository's files are valid, and errors name the place and the reason."""

import re
from pathlib import Path

import pytest

from gyrelab import experiments, published
from gyrelab.errors import UsageProblem

GOOD = """
name = "sample"
title = "Sample"
question = "Which?"
description = "What is done."
baseline = "one"
metric = { name = "ns", label = "Time", unit = "ns", better = "lower" }
chart = { x = "threads" }
contenders = [
  { name = "one", label = "One", about = "first", kind = "gyre" },
  { name = "two", label = "Two", about = "second", kind = "peer", skip = { threads = 4 } },
]
[parameters.threads]
label = "Threads"
values = [1, 2, 4]
[parameters.tasks]
label = "Tasks"
[grids.smoke]
rounds = 1
cells = [{ threads = 1, tasks = 10 }]
[grids.quick]
rounds = 5
cells = [{ threads = [1, 2, 4], tasks = { total = 100, divided_by = "threads" } }]
[grids.full]
rounds = 11
cells = [{ threads = [1, 2], tasks = [10, 20] }]
[grids.published]
rounds = 10
cells = [{ threads = 1, tasks = 10 }]
[[claims]]
id = "faster"
sentence = "One is faster."
source = "gyre"
of = ["one"]
over = ["two"]
at_least = 1.5
"""

# They take longer to compile, or for a round, than other experiments to measure.
LONG = {
    *("nats_request", "postgres_pipeline", "postgres_select", "redis_get", "work_queue"),
    *("http2_attacked", "http2_body", "websocket_broadcast", "websocket_echo"),
}


def load(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> experiments.Experiment:
    """The experiment of `text`, in a folder named sample below the working directory."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sample" / "experiment.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return experiments.load(file)


def test_every_experiment_of_the_repository_is_sound() -> None:
    found = experiments.load_all()
    assert {"post_task", "hop", "timers"} <= set(found)
    for experiment in found.values():
        assert all(g.cells for g in experiment.grids.values() if g.name != "quick")
        for contender in experiment.contenders:
            cells = experiment.grids["smoke"].cells
            if experiment.name == "coroutine_chain" and not contender.name.endswith("_noinline"):
                cells = experiment.grids["full"].cells  # takes too long to compile
            assert any(contender.runs_in(cell) for cell in cells)
        # These have very many cells, each measured for seconds.
        long = experiment.name in ("throughput", "throughput_threads")
        assert experiment.grids["full"].rounds >= (3 if long else 11)
        assert experiment.grids["quick"].rounds >= 5


def test_post_task_covers_the_published_cells() -> None:
    post_task = experiments.load_all()["post_task"]
    for grid in ("full", "published"):
        assert {cell["producers"] for cell in post_task.grids[grid].cells} == {
            1,
            2,
            4,
            6,
            8,
            12,
            16,
            20,
        }
        assert {cell["tasks"] for cell in post_task.grids[grid].cells} == {1_000_000}
        assert 16 in {cell["callable"] for cell in post_task.grids[grid].cells}
        assert {cell["wakeup"] for cell in post_task.grids[grid].cells} == {"coalesced", "per_task"}
    sizes = {
        grid: {cell["callable"] for cell in post_task.grids[grid].cells}
        for grid in ("quick", "full")
    }
    assert sizes["full"] == {8, 16, 24, 32, 64, 120}
    assert sizes["quick"] == {8, 16, 32, 120}
    per_task = {"producers": 2, "tasks": 10, "wakeup": "per_task", "callable": 16}
    assert not post_task.contender("asio").runs_in(per_task)
    assert post_task.contender("mutex").runs_in(per_task)


def test_pool_covers_the_fifteen_published_cases_and_limits_memory() -> None:
    pool = experiments.load_all()["pool"]
    cases = {(cell["think"], cell["period_ms"]) for cell in pool.grids["published"].cells}
    thinks = {"yield", "below_8_ms", "below_32_ms", "below_128_ms", "below_1024_ms"}
    published = {(think, minutes) for think in thinks for minutes in (30_000, 60_000, 180_000)}
    assert len(published) == 15
    assert published <= cases
    assert pool.memory_limit_mib == 2048
    assert pool.grids["published"].rounds == 10


def test_experiments_that_take_long_are_not_in_the_quick_grid() -> None:
    """They would take longer to compile than that grid may take."""
    found = experiments.load_all()
    empty = {name for name, each in found.items() if not each.grids["quick"].cells}
    assert empty == LONG
    with pytest.raises(UsageProblem, match="redis_get is not in the grid quick; choose --grid"):
        experiments.check_grid([found["hop"], found["redis_get"]], "quick")


def test_network_experiments_cover_the_published_cells() -> None:
    found = experiments.load_all()
    echo = [cell for cell in found["throughput"].grids["full"].cells if cell["client"] == "own"]
    assert {cell["connections"] for cell in echo} == {1, 10, 100, 1_000, 10_000}
    sizes = {1_024, 2_048, 4_096, 8_192, 16_384, 81_920, 409_600}
    assert {cell["message_bytes"] for cell in echo} == sizes
    assert len(echo) == 5 * len(sizes)
    threads = found["throughput_threads"].grids["published"].cells
    assert {cell["threads"] for cell in threads} == {2, 3, 4, 6, 8}
    assert {cell["connections"] for cell in threads} == {100, 1_000}
    sessions = found["ping_pong"].grids["published"].cells
    assert {cell["threads"] for cell in sessions} == {1, 2, 3, 4, 6, 8}
    assert {cell["turns"] for cell in sessions} == {8_192}
    pipes = found["io_event"].grids["published"]
    assert {cell["pipes"] for cell in pipes.cells} == {500, 1_000, 10_000, 30_000}
    assert pipes.rounds == 10


def test_published_series_tell_the_cells_they_are_of() -> None:
    throughput = experiments.load_all()["throughput"]
    found = [
        (point.title, point.value)
        for point in published.points(throughput)
        if point.contender == "muduo"
        and point.cell == {"client": "own", "connections": 1_000, "message_bytes": 409_600}
    ]
    assert found == [("evpp and muduo", 1131.383)]
    claim = next(each for each in throughput.claims if each.id == "evpp_equals_muduo")
    ratio = published.ratio(throughput, claim)
    assert ratio is not None
    assert 0.9 < ratio < 1.1


def test_facet_is_one_parameter_or_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(tmp_path, GOOD, monkeypatch).facets == ()
    for given, facets in (('"tasks"', ("tasks",)), ('["tasks", "threads"]', ("tasks", "threads"))):
        text = GOOD.replace('{ x = "threads" }', f'{{ x = "threads", facet = {given} }}')
        assert load(tmp_path, text, monkeypatch).facets == facets


def test_cells_are_products_and_totals_are_shared_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = load(tmp_path, GOOD, monkeypatch)
    assert len(sample.grids["full"].cells) == 4
    assert [cell["tasks"] for cell in sample.grids["quick"].cells] == [100, 50, 25]
    assert not sample.contender("two").runs_in({"threads": 4, "tasks": 25})


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        (
            'better = "lower"',
            'better = "lowr"',
            "metric.better: 'lowr' is not allowed; did you mean 'lower'?",
        ),
        ('kind = "gyre"', 'kind = "hero"', "contenders[1].kind: 'hero' is not allowed"),
        ('title = "Sample"', "title = 3", "title: 3 is not allowed; it must be text"),
        ('title = "Sample"', "", "title: missing; it must be text"),
        ('question = "Which?"', 'question = ""', "question: is empty"),
        (
            'baseline = "one"',
            'baseline = "on"',
            "baseline: 'on' is not allowed; did you mean 'one'?",
        ),
        (
            'chart = { x = "threads" }',
            'chart = { x = "threads", colour = "red" }',
            "chart.colour: unknown key",
        ),
        ("rounds = 5", "rounds = 0", "grids.quick.rounds: 0 is not allowed; it must be at least 1"),
        (
            "threads = [1, 2, 4]",
            "threads = [1, 3]",
            "threads: 3 is not allowed; it must be one of 1, 2, 4",
        ),
        (
            "skip = { threads = 4 }",
            "skip = { thread = 4 }",
            "contenders[2].skip.thread: no such parameter; did you mean 'threads'?",
        ),
        ('of = ["one"]', 'of = ["three"]', "claims[1].of: 'three' is not allowed"),
        ("at_least = 1.5", "range = [3, 2]", "claims[1].range: [3, 2] is not allowed"),
        (
            "at_least = 1.5",
            "",
            "a claim needs one of range = [low, high], at_least = low and at_most = high",
        ),
        ('name = "two"', 'name = "one"', "'one' appears twice"),
        ("[grids.full]", "[grids.fill]", "grids.full: missing"),
        ('name = "sample"', 'name = "other"', "name: 'other' must be the folder's name, 'sample'"),
        ('name = "sample"', "name = ", "not TOML"),
    ],
)
def test_wrong_file_names_file_key_and_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str, becomes: str, message: str
) -> None:
    assert was in GOOD
    with pytest.raises(UsageProblem) as raised:
        load(tmp_path, GOOD.replace(was, becomes, 1), monkeypatch)
    assert str(raised.value).startswith("sample/experiment.toml: ")
    assert message in str(raised.value)


def test_dependencies_page_names_every_experiment_of_a_peer():
    """The peers that are packages of their own, by the first words of their rows."""
    rows = {
        "libuv": "libuv",
        "libevent": "libevent",
        "muduo": "muduo",
        "evpp": "evpp",
        "usockets": "uSockets",
        "tbb": "oneTBB",
        "bs_thread_pool": "BS::thread_pool",
    }
    root = Path(__file__).parents[3]
    page = (root / "docs/design/dependencies.md").read_text().splitlines()
    shared = (root / "lab/CMakeLists.txt").read_text()
    network = shared.partition("function(gyre_add_network_experiment")[2].partition("endfunction")[
        0
    ]
    for listing in (root / "lab/experiments").glob("*/CMakeLists.txt"):
        text = listing.read_text()
        if "gyre_add_network_experiment" in text:
            text += network
        for peer in set(re.findall(r"gyre_deps::(\w+)", text)) & set(rows):
            (row,) = (line for line in page if line.startswith(f"| {rows[peer]} |"))
            assert f"`{listing.parent.name}`" in row, f"{peer} in {listing.parent.name}"
