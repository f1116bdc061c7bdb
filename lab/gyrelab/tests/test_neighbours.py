# SPDX-License-Identifier: Apache-2.0
"""Busy processes beside a contender: there while it runs, and gone afterwards in any case."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gyrelab import cells, experiments, neighbours, program
from gyrelab.program import Contestant
from gyrelab.tests import fakes


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_as_many_as_the_cell_says_each_on_a_processor() -> None:
    mine = sorted(os.sched_getaffinity(0))
    with neighbours.beside({"neighbours": 3}) as busy:
        assert len(busy) == 3
        assert all(is_alive(pid) for pid in busy)
        assert [os.sched_getaffinity(pid) for pid in busy] == [
            {mine[index % len(mine)]} for index in range(3)
        ]
        assert all(os.getsid(pid) != os.getsid(0) for pid in busy), "Ctrl-C must not reach them"
    assert not any(is_alive(pid) for pid in busy)


def test_on_the_processors_of_the_experiment() -> None:
    last = max(os.sched_getaffinity(0))
    with neighbours.beside({"neighbours": 2}, (last,)) as busy:
        assert [os.sched_getaffinity(pid) for pid in busy] == [{last}, {last}]


@pytest.mark.parametrize("cell", [{}, {"neighbours": 0}])
def test_none_where_none_is_asked_for(cell: dict[str, int]) -> None:
    with neighbours.beside(cell) as busy:
        assert busy == []


def test_end_when_the_run_is_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt), neighbours.beside({"neighbours": 2}) as busy:
        raise KeyboardInterrupt
    assert not any(is_alive(pid) for pid in busy)


def test_end_if_one_of_them_cannot_be_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def refuse(pid: int, _: set[int]) -> None:
        begun.append(pid)
        raise OSError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with pytest.raises(OSError), neighbours.beside({"neighbours": 2}):
        pass
    assert len(begun) == 1
    assert not is_alive(begun[0])


def test_end_by_themselves_when_the_lab_is_killed() -> None:
    script = (
        "from gyrelab import neighbours\n"
        "with neighbours.beside({'neighbours': 1}) as busy:\n"
        "    print(*busy, flush=True)\n"
        "    input()\n"
    )
    lab = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(neighbours.__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert lab.stdout is not None
    busy = int(lab.stdout.readline())
    descriptor = os.pidfd_open(busy)
    lab.send_signal(signal.SIGKILL)
    lab.wait()
    assert select.select([descriptor], [], [], 60)[0], "the busy process has ended"
    os.close(descriptor)


def test_program_is_not_told_of_its_neighbours(build: Path) -> None:
    cell = {"producers": 2, "tasks": 100, "wakeup": "coalesced", "neighbours": 1}
    assert "neighbours" not in cells.passed(cell)
    file = fakes.make(build, "post_task", "mutex", mode="ok")
    assert program.run(Contestant("mutex", file), "post_task", cell).status == "ok"


@pytest.mark.parametrize("name", ["post_task", "hop", "pool_wakeup", "latency"])
def test_cells_beside_neighbours_are_in_the_quick_grid(name: str) -> None:
    quick = experiments.load_all()[name].grids["quick"].cells
    assert {cell["neighbours"] for cell in quick} == {0, 1, 2}
