# SPDX-License-Identifier: Apache-2.0
"""Charts as Vega-Lite."""

import colorsys
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
    labels = charts.looks({row["contender"]: "peer" for row in rows})
    drawn = charts.bars(rows, labels, Axes("Threads", "Tasks/s", log=False, better=better))
    last = "fast" if first == "slow" else "slow"
    assert json.dumps([first, "middle", last]) in json.dumps(drawn.to_dict())


def test_no_two_contenders_of_an_experiment_look_alike() -> None:
    for experiment in experiments.load_all().values():
        names = {
            each.name: each.kind
            for each in experiment.contenders
            if "_noinline" not in each.name and each.stands_for is None
        }
        drawn = charts.looks(names).values()
        assert len({look.light for look in drawn}) == len(names)
        assert len({(look.shape, look.dash) for look in drawn}) == len(names)


def hue(colour: str) -> tuple[float, float]:
    """Hue in degrees and saturation, 0 to 1."""
    red, green, blue = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    angle, _, saturation = colorsys.rgb_to_hls(red, green, blue)
    return 360 * angle, saturation


def test_gyre_has_one_hue_and_all_others_none() -> None:
    for experiment in experiments.load_all().values():
        drawn = charts.looks({each.name: each.kind for each in experiment.contenders})
        for each in experiment.contenders:
            for colour in (drawn[each.name].light, drawn[each.name].dark):
                angle, saturation = hue(colour)
                if each.kind == "gyre":
                    assert 18 < angle < 32 and saturation > 0.5, (each.name, colour)
                else:
                    assert saturation < 0.25, (each.name, colour)


def test_default_variant_of_gyre_looks_the_same_everywhere() -> None:
    first = {
        charts.looks({each.name: each.kind for each in experiment.contenders})[
            experiment.contest.of[0]
        ]
        for experiment in experiments.load_all().values()
    }
    assert len(first) == 1
