# SPDX-License-Identifier: Apache-2.0
"""Sequential sampling: its intervals keep their level, its budget holds, and it resumes."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gyrelab import cells, experiments, journal, planning, program, rounds, runner, statistics
from gyrelab.building import Programs
from gyrelab.planning import Part, Place
from gyrelab.program import Contestant, Outcome
from gyrelab.results import Results
from gyrelab.tests import fakes, noise
from gyrelab.tests.test_runner import Silent


def differences(series: Iterator[float], generator: np.random.Generator) -> Iterator[float]:
    """Log-ratios of a contender against itself: each copy runs once a round, in either order."""
    while True:
        one, two = next(series), next(series)
        yield one - two if generator.random() < 0.5 else two - one


@pytest.mark.parametrize("kind", noise.KINDS)
def test_equal_contenders_differ_in_at_most_five_percent_of_cells_that_stop_early(
    kind: str,
) -> None:
    generator = np.random.default_rng(11)
    series = differences(noise.KINDS[kind](generator), generator)
    alarms, count = 0, 60
    for _ in range(count):
        logs = [next(series) for _ in range(planning.FIRST)]
        while rounds.is_open(found := statistics.ratio([logs])) and len(logs) < rounds.MOST:
            logs += [next(series) for _ in range(rounds.STEP)]
        alarms += found.differs
    assert alarms <= stats.binom.ppf(0.99, count, 0.05)


def test_clear_difference_is_settled_though_its_interval_is_wide() -> None:
    assert rounds.is_open(statistics.Ratio(1.3, 1.1, 1.54, 5))  # 1 is within twice the width
    assert not rounds.is_open(statistics.Ratio(3.0, 2.4, 3.75, 5))
    assert rounds.is_open(statistics.Ratio(1.0, 0.95, 1.05, 5))
    assert not rounds.is_open(statistics.Ratio(1.0, 0.98, 1.02, 5))
    assert rounds.is_open(statistics.ratio([[0.0, 0.1]]))


class Noisy:
    """Replaces program.run. The logarithms of the figures deviate by `spread` in a noisy cell."""

    def __init__(self, noisy: int, spread: float, cpu_spread: float = 0.01) -> None:
        self._noisy, self._spread, self._cpu_spread = noisy, spread, cpu_spread
        self._runs = 0

    def run(
        self, contestant: Contestant, experiment: str, cell: cells.Cell, *_: object, **__: object
    ) -> Outcome:
        """program.run without a process; deterministic in the contestant, the cell and its runs."""
        self._runs += 1
        generator = np.random.default_rng(self._runs)
        noisy = cell["message_bytes"] == self._noisy
        spread = self._spread if noisy else 0.01
        rate = 1000 * math.exp(generator.normal(0, spread))
        cpu = 50 * math.exp(generator.normal(0, self._cpu_spread if noisy else 0.01))
        metrics = {"mib_per_second": rate, "server_cpu_us_per_mib": cpu}
        return Outcome("ok", metrics=metrics, wall_seconds=1.0)


def plan_of(sizes: tuple[int, ...], budget: int) -> list[Part]:
    experiment = experiments.load_all()["throughput"]
    contestants = tuple(Contestant(name, Path("/dev/null")) for name in ("libuv", "asio"))
    grid = experiment.grids["full"].cells
    chosen = [next(cell for cell in grid if cell["message_bytes"] == size) for size in sizes]
    places = tuple(Place(cell, contestants) for cell in chosen)
    return [Part(experiment, planning.FIRST, 0, places, budget_rounds=budget)]


def rounds_by_size(measured: Results) -> dict[int, int]:
    counts: dict[int, int] = {}
    for run in measured.document["runs"]:
        size = run["cell"]["message_bytes"]
        counts[size] = max(counts.get(size, 0), run["round"])
    return counts


SIZES = (1_024, 2_048, 4_096, 8_192)


def test_noisy_cell_gets_the_rounds_that_settled_cells_leave_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "run", Noisy(2_048, 0.3, 0.3).run)
    parts = plan_of(SIZES, budget=9)
    record = runner.open_journal(tmp_path / "r.json", "quick", parts, 1, False)
    counts = rounds_by_size(runner.measure(parts, record, Silent()))
    assert {size: n for size, n in counts.items() if size != 2_048} == {
        1_024: 5,
        4_096: 5,
        8_192: 5,
    }
    assert planning.FIRST + 2 * rounds.STEP <= counts[2_048] <= 9 * 4 - 3 * 5
    assert sum(counts.values()) <= 9 * len(SIZES)


def test_fixed_number_of_rounds_gets_no_further_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "run", Noisy(2_048, 0.3, 0.3).run)
    parts = plan_of(SIZES, budget=0)
    record = runner.open_journal(tmp_path / "r.json", "quick", parts, 1, False)
    assert set(rounds_by_size(runner.measure(parts, record, Silent())).values()) == {planning.FIRST}


def test_cell_that_only_cpu_time_decides_comes_after_one_that_nothing_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "run", Noisy(2_048, 0.3, 0.01).run)
    parts = plan_of(SIZES, budget=planning.FIRST)
    record = runner.open_journal(tmp_path / "r.json", "quick", parts, 1, False)
    measured = runner.measure(parts, record, Silent())
    noisy = parts[0].places[1]
    need = rounds._find_noise(measured, parts[0], noisy)
    assert need is not None and need.rank == rounds.TIME
    assert rounds._find_noise(measured, parts[0], parts[0].places[0]) is None


def measured_cell(figures: dict[str, float], spread: float) -> tuple[Results, Part]:
    """Five rounds of one cell of `connections`; the contenders' figures deviate by `spread`."""
    experiment = experiments.load_all()["connections"]
    contestants = tuple(Contestant(name, Path("/dev/null")) for name in figures)
    place = Place(experiment.grids["quick"].cells[0], contestants)
    part = Part(experiment, planning.FIRST, 0, (place,), budget_rounds=9)
    generator = np.random.default_rng(3)
    runs = [
        {
            "experiment": experiment.name,
            "contender": name,
            "cell": place.cell,
            "round": turn,
            "status": "ok",
            "wall_seconds": 1.0,
            "metrics": {experiment.metric.name: value * math.exp(generator.normal(0, spread))},
        }
        for turn in range(1, planning.FIRST + 1)
        for name, value in figures.items()
    ]
    facts = {experiment.name: {"definition": experiment.raw}}
    return Results({"experiments": facts, "runs": runs}), part


def test_cell_closes_on_the_ratio_to_the_nearest_rival_not_to_the_baseline() -> None:
    near = {"gyre_epoll": 100.0, "usockets": 101.0, "asio": 500.0}  # asio is the baseline
    measured, part = measured_cell(near, 0.1)
    need = rounds._find_noise(measured, part, part.places[0])
    assert need is not None and need.rank == rounds.NOTHING
    far = {"gyre_epoll": 100.0, "usockets": 400.0, "asio": 101.0, "libuv": 500.0}
    measured, part = measured_cell(far, 0.001)
    assert rounds._find_noise(measured, part, part.places[0]) is None


def test_open_published_claim_gets_its_rounds_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """evpp is as fast as muduo, and noise decides whether it is ahead; the rest is quiet."""
    experiment = experiments.load_all()["throughput"]
    contestants = tuple(Contestant(name, Path("/dev/null")) for name in ("evpp", "muduo"))
    cells_of = {c["message_bytes"]: c for c in experiment.grids["published"].cells}
    places = tuple(Place(cells_of[size], contestants) for size in (16_384, 409_600))
    parts = [Part(experiment, planning.FIRST, 0, places, budget_rounds=9)]
    monkeypatch.setattr(program, "run", Noisy(409_600, 0.2, 0.2).run)
    record = runner.open_journal(tmp_path / "r.json", "quick", parts, 1, False)
    counts = rounds_by_size(runner.measure(parts, record, Silent()))
    assert counts[409_600] > planning.FIRST == counts[16_384]
    document = record.document
    document["runs"] = [run for run in document["runs"] if run["round"] <= planning.FIRST]
    sampling = rounds.Sampling(parts, document)
    assert [block.place.cell["message_bytes"] for block in sampling.next()] == [409_600]


def published_parts(names: tuple[str, ...], budget: int) -> list[Part]:
    """A cell of the published throughput with large messages, in which each library is its client."""
    experiment = experiments.load_all()["throughput"]
    contestants = tuple(Contestant(name, Path("/dev/null")) for name in names)
    grid = experiment.grids["published"].cells
    cell = next(each for each in grid if each["message_bytes"] == 409_600)
    return [Part(experiment, planning.FIRST, 0, (Place(cell, contestants),), budget_rounds=budget)]


class SlowLibevent(Noisy):
    """evpp and muduo are equal, and three times as fast as libevent and asio."""

    def run(
        self, contestant: Contestant, experiment: str, cell: cells.Cell, *_: object, **__: object
    ) -> Outcome:
        made = super().run(contestant, experiment, cell)
        factor = 1 if contestant.name in ("evpp", "muduo") else 3
        rate, cpu = (made.metrics[name] for name in ("mib_per_second", "server_cpu_us_per_mib"))
        metrics = {"mib_per_second": rate / factor, "server_cpu_us_per_mib": cpu * factor}
        return Outcome("ok", metrics=metrics, wall_seconds=1.0)


def contenders_by_round(measured: Results) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for run in measured.document["runs"]:
        found.setdefault(run["round"], set()).add(run["contender"])
    return found


def test_further_rounds_have_only_the_contenders_of_open_published_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("evpp", "muduo", "libevent", "asio")
    monkeypatch.setattr(program, "run", SlowLibevent(409_600, 0.2, 0.2).run)
    parts = published_parts(names, budget=9)
    record = runner.open_journal(tmp_path / "r.json", "quick", parts, 1, False)
    taking_part = contenders_by_round(runner.measure(parts, record, Silent()))
    # 4 further rounds of all take as long as 8 of two of them; a look takes 3.
    assert max(taking_part) == planning.FIRST + 2 * rounds.STEP
    for turn, found in taking_part.items():
        assert found == (set(names) if turn <= planning.FIRST else {"evpp", "muduo"})


def test_interrupted_choice_of_contenders_resumes_with_the_same_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("evpp", "muduo", "libevent", "asio")
    monkeypatch.setattr(program, "run", SlowLibevent(409_600, 0.2, 0.2).run)
    parts, out = published_parts(names, budget=9), tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        interrupted_after = 4 * planning.FIRST + 3  # within the second of the further rounds
        record = runner.open_journal(out, "quick", parts, 1, False)
        runner.measure(parts, record, Silent(interrupted_after))
    record = runner.open_journal(out, "quick", parts, 1, False)
    taking_part = contenders_by_round(runner.measure(parts, record, Silent()))
    assert max(taking_part) == planning.FIRST + 2 * rounds.STEP
    assert all(taking_part[turn] == {"evpp", "muduo"} for turn in range(6, max(taking_part) + 1))


def test_interrupted_sampling_resumes_with_the_same_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = plan_of(SIZES, budget=9)

    def finished(name: str, interrupted_after: int | None) -> Results:
        noisy = Noisy(2_048, 0.3, 0.3)
        monkeypatch.setattr(program, "run", noisy.run)
        out = tmp_path / name
        if interrupted_after is not None:
            record = runner.open_journal(out, "quick", parts, 1, False)
            with pytest.raises(KeyboardInterrupt):
                runner.measure(parts, record, Silent(interrupted_after))
            assert journal.beside(out).exists()
        return runner.measure(parts, runner.open_journal(out, "quick", parts, 1, False), Silent())

    whole = finished("whole.json", None)
    resumed = finished("resumed.json", 2 * 4 * planning.FIRST + 3)  # within the further rounds
    assert [run["round"] for run in resumed.document["runs"]] == [
        run["round"] for run in whole.document["runs"]
    ]


def test_quick_grid_has_a_budget_and_chosen_rounds_have_none(build: Path) -> None:
    fakes.make(build, "post_task", "mutex")
    chosen = [experiments.load_all()["post_task"]]
    (adaptive,) = planning.choose(chosen, "quick", [], Programs(build), None)
    budget = chosen[0].grids["quick"].rounds
    assert budget > planning.FIRST
    assert (adaptive.rounds, adaptive.budget_rounds) == (planning.FIRST, budget)
    (fixed,) = planning.choose(chosen, "quick", [], Programs(build), 9)
    assert (fixed.rounds, fixed.budget_rounds) == (9, 0)
    (smoke,) = planning.choose(chosen, "smoke", [], Programs(build), None)
    assert (smoke.rounds, smoke.budget_rounds) == (1, 0)


class Hasty(Noisy):
    """gyre's first contender is ten times as fast as its peers; evpp and muduo are equal."""

    def run(
        self, contestant: Contestant, experiment: str, cell: cells.Cell, *_: object, **__: object
    ) -> Outcome:
        made = super().run(contestant, experiment, cell)
        factor = 10 if contestant.name == "gyre_epoll" else 1
        rate, cpu = (made.metrics[name] for name in ("mib_per_second", "server_cpu_us_per_mib"))
        metrics = {"mib_per_second": rate * factor, "server_cpu_us_per_mib": cpu / factor}
        return Outcome("ok", metrics=metrics, wall_seconds=1.0)


def test_gyre_takes_no_part_in_further_rounds_where_the_first_settle_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("gyre_epoll", "evpp", "muduo", "asio")
    monkeypatch.setattr(program, "run", Hasty(409_600, 0.2, 0.2).run)
    parts = published_parts(names, budget=9)
    record = runner.open_journal(tmp_path / "r.json", "quick", parts, 1, False)
    taking_part = contenders_by_round(runner.measure(parts, record, Silent()))
    assert max(taking_part) > planning.FIRST
    assert taking_part[planning.FIRST] == set(names)
    assert "gyre_epoll" not in taking_part[planning.FIRST + 1]
    assert {"evpp", "muduo"} <= taking_part[planning.FIRST + 1]


class NearAndFar(Noisy):
    """gyre's first contender, evpp and muduo are equal, and asio takes ten times as long."""

    def run(
        self, contestant: Contestant, experiment: str, cell: cells.Cell, *_: object, **__: object
    ) -> Outcome:
        made = super().run(contestant, experiment, cell)
        factor = 10 if contestant.name == "asio" else 1
        rate, cpu = (made.metrics[name] for name in ("mib_per_second", "server_cpu_us_per_mib"))
        metrics = {"mib_per_second": rate / factor, "server_cpu_us_per_mib": cpu * factor}
        return Outcome("ok", metrics=metrics, wall_seconds=1.0)


def test_further_rounds_about_gyre_have_every_rival_that_may_be_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("gyre_epoll", "evpp", "muduo", "asio")
    monkeypatch.setattr(program, "run", NearAndFar(409_600, 0.2, 0.2).run)
    parts = published_parts(names, budget=9)
    record = runner.open_journal(tmp_path / "r.json", "quick", parts, 1, False)
    taking_part = contenders_by_round(runner.measure(parts, record, Silent()))
    assert taking_part[planning.FIRST] == set(names)
    assert taking_part[planning.FIRST + 1] == {"gyre_epoll", "evpp", "muduo"}


class OneDisturbed(Noisy):
    """Every run of the first cell is noisy; of the second, the first run of evpp is four times as slow."""

    def run(
        self, contestant: Contestant, experiment: str, cell: cells.Cell, *_: object, **__: object
    ) -> Outcome:
        made = super().run(contestant, experiment, cell)
        if cell["message_bytes"] != self._noisy and contestant.name == "evpp":
            self._slow = getattr(self, "_slow", 4)
            made.metrics["mib_per_second"] /= self._slow
            made.metrics["server_cpu_us_per_mib"] *= self._slow
            self._slow = 1
        return made


def test_one_disturbed_round_does_not_make_a_cell_the_last_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = experiments.load_all()["throughput"]
    contestants = tuple(Contestant(name, Path("/dev/null")) for name in ("evpp", "muduo"))
    cells_of = {c["message_bytes"]: c for c in experiment.grids["published"].cells}
    places = tuple(Place(cells_of[size], contestants) for size in (4_096, 81_920))
    parts = [Part(experiment, planning.FIRST, 0, places, budget_rounds=planning.FIRST + 2)]
    monkeypatch.setattr(program, "run", OneDisturbed(4_096, 0.1, 0.1).run)
    record = runner.open_journal(tmp_path / "r.json", "quick", parts, 1, False)
    counts = rounds_by_size(runner.measure(parts, record, Silent()))
    assert counts[81_920] == planning.FIRST + rounds.STEP
