# SPDX-License-Identifier: Apache-2.0
"""Synthetic result documents, made from known figures and known noise."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from gyrelab import deciding, experiments, planning
from gyrelab.experiments import Experiment
from gyrelab.planning import Part, Place
from gyrelab.program import Contestant
from gyrelab.results import Results
from gyrelab.tests.fakes import FIGURES


def figure(experiment: Experiment, contender: str, cell: dict[str, Any]) -> float:
    """A plausible figure of the experiment's main metric."""
    scale = 60 if experiment.name == "hop" else 1
    value = (
        FIGURES.get(contender, 100)
        * scale
        * (1 + 0.1 * cell.get("producers", cell.get("loops", 1)))
    )
    return value + (400 if cell.get("wakeup") == "per_task" else 0)


def results(
    names: tuple[str, ...] = ("post_task", "hop", "timers"),
    rounds: int = 5,
    noise: float = 0.02,
    faster: dict[str, float] | None = None,
    absent: tuple[str, ...] = (),
    seed: int = 1,
    grid: str = "quick",
) -> Results:
    """Results of a grid. `faster` multiplies a contender's speed; `absent` was not built."""
    generator = np.random.default_rng(seed)
    parts = [_part(experiments.load_all()[name], grid, rounds, absent) for name in names]
    document = _document(parts)
    for planned in planning.plan(parts, seed):
        experiment, contender = planned.part.experiment, planned.contestant.name
        value = figure(experiment, contender, dict(planned.cell)) / (faster or {}).get(contender, 1)
        value *= math.exp(generator.normal(0, noise))
        document["runs"].append(
            {
                "experiment": experiment.name,
                "contender": contender,
                "cell": dict(planned.cell),
                "round": planned.round,
                "order": planned.order,
                "status": "ok",
                "metrics": {
                    experiment.metric.name: value,
                    **{m.name: value * (1 + n) for n, m in enumerate(experiment.secondary)},
                },
                "wall_seconds": 0.01,
            }
        )
    return Results(document, "synthetic.json")


def _part(experiment: Experiment, grid: str, rounds: int, absent: tuple[str, ...]) -> Part:

    there = [each for each in experiment.contenders if each.name not in absent]

    def contestants(cell: dict[str, Any]) -> tuple[Contestant, ...]:
        names = deciding.select_contenders(experiment, grid, cell)
        chosen = [each for each in there if names is None or each.name in names]
        return tuple(Contestant(e.name, Path("/none")) for e in chosen if e.runs_in(cell))

    places = tuple(Place(cell, contestants(cell)) for cell in experiment.grids[grid].cells)
    missing = tuple(each.name for each in experiment.contenders if each.name in absent)
    return Part(experiment, rounds, 1, places, missing)


def _document(parts: list[Part]) -> dict[str, Any]:
    return {
        "schema": 1,
        "grid": "quick",
        "seed": 1,
        "started": "2026-01-01T10:00:00+00:00",
        "finished": "2026-01-01T10:03:00+00:00",
        "fingerprint": "0123456789abcdef",
        "machine": {
            "processor": "Test 9000",
            "cores": 2,
            "kernel": "Linux 6.1",
            "governor": "none",
        },
        "revision": {"commit": "0" * 40, "changed": False},
        "load": {"before": [0.1, 0.1, 0.1], "after": [1.0, 0.5, 0.2]},
        "experiments": {
            part.experiment.name: {
                "definition": part.experiment.raw,
                "rounds": part.rounds,
                "warmup_rounds": part.warmup_rounds,
                "cells": [place.cell for place in part.places],
                "programs": {
                    each.name: {
                        "sha256": "0" * 16,
                        "extra": [],
                        "build": {
                            "compiler": "GNU 12.2.0",
                            "flags": "-O3",
                            "libraries": {"asio": "1.22"},
                        },
                    }
                    for each in part.contestants
                },
                "not_built": list(part.not_built),
            }
            for part in parts
        },
        "runs": [],
    }
