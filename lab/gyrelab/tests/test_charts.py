# SPDX-License-Identifier: Apache-2.0
"""Charts as Vega-Lite."""

import json

import pytest

from gyrelab import charts, experiments
from gyrelab.charts import Axes


@pytest.mark.parametrize(("better", "first"), [("lower", "slow"), ("higher", "fast")])
def test_bars_start_with_the_best(better: str, first: str) -> None:
    rows = [
        {"contender": name, "x": 1, "y": y, "low": y, "high": y, "figure": str(y)}
        for name, y in (("fast", 30.0), ("slow", 10.0), ("middle", 20.0))
    ]
    labels = charts.looks([row["contender"] for row in rows])
    drawn = charts.bars(rows, labels, Axes("Threads", "Tasks/s", log=False, better=better))
    last = "fast" if first == "slow" else "slow"
    assert json.dumps([first, "middle", last]) in json.dumps(drawn.to_dict())


def test_no_two_contenders_of_an_experiment_look_alike() -> None:
    for experiment in experiments.load_all().values():
        names = [each.name for each in experiment.contenders if "_noinline" not in each.name]
        drawn = charts.looks(names).values()
        assert len({look.light for look in drawn}) == len(names)
        assert len({(look.shape, look.dash) for look in drawn}) == len(names)
