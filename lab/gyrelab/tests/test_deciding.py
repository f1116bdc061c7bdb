# SPDX-License-Identifier: Apache-2.0
"""The quick grid measures what decides something, and nothing else."""

from pathlib import Path

import pytest

from gyrelab import cells, deciding, experiments, planning
from gyrelab.building import Programs
from gyrelab.tests import fakes

ALL = experiments.load_all()
OWN = {"connections": 100, "message_bytes": 4_096, "client": "own", "duration_ms": 80}


@pytest.mark.parametrize("name", [name for name, each in ALL.items() if each.claims])
def test_every_quick_cell_decides_a_claim(name: str) -> None:
    experiment = ALL[name]
    for cell in experiment.grids["quick"].cells:
        assert any(cells.matches(cell, claim.where) for claim in experiment.claims), cell


def test_contender_that_no_claim_is_about_leaves_the_quick_grid() -> None:
    io_event = ALL["io_event"]
    [kept, renewed] = io_event.grids["quick"].cells
    for cell in (kept, renewed):
        names = deciding.select_contenders(io_event, "quick", cell)
        assert names is not None
        assert {"gyre_epoll", "gyre_epoll_coroutine", "libevent", "evpp_design"} <= set(names)
        assert not {"gyre_uring", "gyre_uring_coroutine", "epoll"} & set(names)
    assert deciding.select_contenders(io_event, "full", kept) is None


def test_cell_of_published_claims_has_their_contenders_alone() -> None:
    names = deciding.select_contenders(ALL["throughput"], "quick", OWN)
    assert names == {"evpp", "evpp_design", "muduo", "muduo_design", "asio", "libevent"}


def test_published_claims_of_seeds_can_be_decided_in_the_quick_grid() -> None:
    open_ones = []
    for experiment in ALL.values():
        grid = experiment.grids["quick"].cells
        for claim in experiment.claims:
            where = [cell for cell in grid if cells.matches(cell, claim.where)]
            values = {cell[claim.per_doubling] for cell in where} if claim.per_doubling else {1, 2}
            both = all(
                {cell[name] for cell in where} >= set(pair) for name, pair in claim.across.items()
            )
            if claim.source == "published" and not (where and len(values) > 1 and both):
                open_ones.append(f"{experiment.name}: {claim.id}")
    assert open_ones == []


def test_named_contenders_run_in_every_cell(build: Path) -> None:
    fakes.make_all(build)
    (all_cells,) = planning.choose([ALL["throughput"]], "quick", ["gyre_epoll"], Programs(build), 5)
    assert len(all_cells.places) == len(ALL["throughput"].grids["quick"].cells)
    (quick,) = planning.choose([ALL["throughput"]], "quick", [], Programs(build), 5)
    own = next(place for place in quick.places if place.cell == OWN)
    assert "gyre_epoll" not in {each.name for each in own.contestants}
    (pool,) = planning.choose([ALL["pool"]], "quick", [], Programs(build), 5)
    long = [place for place in pool.places if place.cell["period_ms"] == 300]
    assert {each.name for place in long for each in place.contestants} == {
        "published_blocking",
        "published_spinning",
    }
