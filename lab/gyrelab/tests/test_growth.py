# SPDX-License-Identifier: Apache-2.0
"""Growth: the fitted exponent is the one that made the figures."""

import math

import numpy as np
import pytest

from gyrelab import experiments, growth
from gyrelab.results import Results
from gyrelab.tests import synthetic


def grown(exponent: float, noise: float = 0.02, rounds: int = 7) -> Results:
    """post_task's quick grid; each figure is a power of the number of producers."""
    measured = synthetic.results(("post_task",), rounds=rounds)
    generator = np.random.default_rng(2)
    for run in measured.document["runs"]:
        factor = math.exp(generator.normal(0, noise))
        run["metrics"]["ns_per_task"] = 30 * run["cell"]["producers"] ** exponent * factor
    return measured


@pytest.mark.parametrize("exponent", [-0.5, 0.3, 1.0])
def test_exponent_is_found_within_its_interval(exponent: float) -> None:
    measured = grown(exponent)
    found = growth.measure_growths(measured, measured.experiment("post_task"))
    found = [each for each in found if each.parameter.name == "producers" and each.most > 2]
    assert [(each.least, each.most) for each in found] == [(1, 20), (1, 20)]
    assert [each.where for each in found] == [
        "Wake-ups coalesced, 16 bytes, Alone",
        "One wake-up per task, 16 bytes, Alone",
    ]
    inside = [each.low <= exponent <= each.high for one in found for each in one.exponents]
    assert sum(inside) >= 0.75 * len(inside)
    first = found[0].exponents[0]
    assert first.value == pytest.approx(exponent, abs=0.05)
    word = "grows as n^" if exponent > 0 else "falls as n^"
    assert first.words.startswith(word)


def test_figure_that_does_not_grow_is_called_flat() -> None:
    measured = grown(0.0)
    (first, *_) = growth.measure_growths(measured, measured.experiment("post_task"))
    words = [each.words for each in first.exponents]
    assert sum(each.startswith("is flat: n^") for each in words) >= 0.75 * len(words)


def test_noise_is_not_called_growth() -> None:
    measured = grown(0.0, noise=1.5, rounds=5)
    (first, *_) = growth.measure_growths(measured, measured.experiment("post_task"))
    words = [each.words for each in first.exponents]
    assert sum("shows no clear growth" in each for each in words) >= 0.5 * len(words)


def test_one_round_gives_no_interval() -> None:
    measured = grown(1.0, rounds=1)
    (first, *_) = growth.measure_growths(measured, measured.experiment("post_task"))
    assert "too few rounds" in first.exponents[0].words


def test_grid_with_one_value_of_each_dimension_has_no_growth() -> None:
    latency = experiments.load_all()["latency"]
    assert growth.measure_growths(synthetic.results(("latency",)), latency) == []


def test_cells_differ_in_one_dimension_only() -> None:
    throughput = experiments.load_all()["throughput"]
    few = tuple(each.name for each in throughput.contenders if each.name != "asio")
    measured = synthetic.results(("throughput",), rounds=3, absent=few, grid="full")
    found = growth.measure_growths(measured, throughput)
    assert {each.parameter.name for each in found} >= {"connections", "message_bytes"}
    assert all(each.least < each.most for each in found)
