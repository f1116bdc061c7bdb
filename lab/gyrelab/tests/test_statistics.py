# SPDX-License-Identifier: Apache-2.0
"""Intervals have their stated confidence."""

import math

import numpy as np
import pytest
from scipy import stats

from gyrelab import statistics
from gyrelab.statistics import Ratio
from gyrelab.tests import noise


def log_ratios(kind: str, cells: int, rounds: int) -> list[np.ndarray]:
    """Cells of a contender against itself: each copy runs once a round, in either order."""
    generator = np.random.default_rng(rounds)
    series = noise.KINDS[kind](generator)
    found = []
    for _ in range(cells):
        first, second = np.array([(next(series), next(series)) for _ in range(rounds)]).T
        found.append(np.where(generator.random(rounds) < 0.5, first - second, second - first))
    return found


@pytest.mark.parametrize("rounds", [5, 7, 11])
@pytest.mark.parametrize("kind", noise.KINDS)
def test_equal_contenders_differ_in_at_most_five_percent_of_cells(kind: str, rounds: int) -> None:
    cells = log_ratios(kind, 150, rounds)
    alarms = sum(statistics.ratio([cell]).differs for cell in cells)
    assert alarms <= stats.binom.ppf(0.99, len(cells), 0.05)


def test_geometric_mean_over_cells_keeps_its_level() -> None:
    generator = np.random.default_rng(4)
    means = [
        statistics.ratio([generator.normal(0, 0.04 * cell, 7) for cell in range(1, 9)])
        for _ in range(120)
    ]
    assert sum(each.differs for each in means) <= stats.binom.ppf(0.99, 120, 0.05)


@pytest.mark.parametrize(
    ("kind", "at_least"),
    [("quiet", 0.95), ("heavy_tails", 0.85), ("bursts", 0.85), ("drift", 0.95), ("skewed", 0.75)],
)
def test_ten_percent_is_seen_with_the_full_grids_rounds(kind: str, at_least: float) -> None:
    slowed = [math.log(1.1) + cell for cell in log_ratios(kind, 100, 11)]
    seen = sum(statistics.ratio([cell]).low > 1 for cell in slowed)
    assert seen >= at_least * len(slowed)


def test_ratio_is_not_moved_by_one_disturbed_round() -> None:
    quiet = [math.log(2) + x for x in (-0.01, 0, 0.01, 0.005, -0.005, 0.002, 0.003)]
    disturbed = [*quiet[:-1], math.log(20)]
    assert statistics.ratio([quiet]).value == pytest.approx(2, rel=0.01)
    assert statistics.ratio([disturbed]).value == pytest.approx(2, rel=0.01)


def test_geometric_mean_is_of_the_cells() -> None:
    found = statistics.ratio([[math.log(2)] * 5, [math.log(8)] * 5])
    assert (found.value, found.low, found.high) == pytest.approx((4, 4, 4))


def test_two_rounds_decide_nothing() -> None:
    found = statistics.ratio([[0.7, 0.7]])
    assert math.isinf(found.high)
    assert not found.differs
    assert found.too_noisy
    assert found.rounds_needed >= 5


def test_inverse_turns_the_interval_round() -> None:
    found = statistics.Ratio(2.0, 1.6, 2.5, 7).inverse()
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.4, 0.625))


def test_noisy_cell_says_how_many_rounds_it_needs() -> None:
    wide = statistics.Ratio(1.0, 0.94, 1.06, 7)
    assert wide.too_noisy
    assert 7 < wide.rounds_needed < 60
    assert not statistics.Ratio(1.0, 0.97, 1.03, 7).too_noisy


@pytest.mark.parametrize(("better", "expected"), [("lower", 2.0), ("higher", 0.5)])
def test_log_ratios_pair_the_rounds_both_finished(better: str, expected: float) -> None:
    logs = statistics.log_ratios({1: 10.0, 2: 20.0, 4: 1.0}, {1: 20.0, 2: 40.0, 3: 1.0}, better)
    assert [math.exp(each) for each in logs] == pytest.approx([expected, expected])


def test_welch_tells_a_shift_from_noise() -> None:
    generator = np.random.default_rng(6)
    base = generator.normal(0, 0.02, 9)
    assert statistics.welch(base, base + 0.2)[1] < 0.001
    assert statistics.welch(base, generator.normal(0, 0.02, 9))[1] > 0.01
    assert statistics.welch([0.0, 0.1], [5.0, 5.1])[1] == 1.0


def test_holm_multiplies_by_the_hypotheses_left() -> None:
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.holm([0.9, 0.8]) == [1.0, 1.0]


def test_a_ratio_far_from_a_range_needs_fewer_rounds_than_a_near_one() -> None:
    far, near = Ratio(1.5, 1.2, 1.875, 11), Ratio(1.1, 0.88, 1.375, 11)
    assert far.rounds_to_settle(1, math.inf) < near.rounds_to_settle(1, math.inf)
    assert near.rounds_to_settle(1, math.inf) < near.rounds_to_settle(1.1, math.inf)
    assert near.rounds_to_settle(1.1, math.inf) == near.rounds_for(statistics.NARROW) - 11
    assert near.rounds_to_settle(0, 1) == near.rounds_to_settle(1, math.inf)


def test_no_more_is_foreseen_than_the_rounds_until_a_disturbed_one_is_trimmed() -> None:
    quiet = [0.0, 0.01, -0.01, 0.005]
    disturbed = statistics.ratio([[*quiet, math.log(4)]])
    assert disturbed.rounds_for(statistics.NARROW) > 1000
    assert disturbed.rounds_to_settle(0.9, 1.1) == statistics.FIRST_TRIMMED - 5
    assert statistics.trim(statistics.FIRST_TRIMMED) > statistics.trim(statistics.FIRST_TRIMMED - 1)
    settled = statistics.ratio([[*quiet, 0.004, -0.004, math.log(4)]])
    assert settled.rounds_to_settle(0.9, 1.1) == 1
