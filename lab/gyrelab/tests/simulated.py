# SPDX-License-Identifier: Apache-2.0
"""A simulated machine: the contenders' figures are known, and so is the machine's noise."""

import math
from dataclasses import dataclass, field

import numpy as np

from gyrelab import experiments
from gyrelab.cells import Cell
from gyrelab.program import Contestant, Outcome
from gyrelab.tests.noise import Noise


@dataclass
class Machine:
    """Replaces program.run; `slower` are percents by which contestants are slower than they claim."""

    noise: Noise
    seed: int = 1
    numb: bool = False  # a handicap changes nothing
    slower: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._series = self.noise(np.random.default_rng(self.seed))
        known = experiments.load_all()
        self._metrics = {name: experiment.metric.name for name, experiment in known.items()}

    def run(
        self, contestant: Contestant, experiment: str, cell: Cell, *_: object, **__: object
    ) -> Outcome:
        """program.run without a process."""
        options = dict(zip(contestant.extra[::2], contestant.extra[1::2], strict=True))
        if "--sabotage" in options:
            return Outcome("failed", "tasks_run 99, expected 100")
        percent = 0.0 if self.numb else float(options.get("--handicap", 0))
        figure = 50.0 * (1 + percent / 100) * (1 + self.slower.get(contestant.name, 0) / 100)
        return Outcome(
            "ok", metrics={self._metrics[experiment]: figure * math.exp(next(self._series))}
        )
