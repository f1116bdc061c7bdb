# SPDX-License-Identifier: Apache-2.0
"""Ratios of paired runs and their 95 % intervals. docs/lab/statistics.md justifies the method.

A ratio is the trimmed mean of the rounds' log-ratios; its interval is the symmetric, smoothed,
studentised bootstrap (Hall, 1988; Polansky and Schucany, 1997; Wilcox, 2012, for trimmed means).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 4000
CALIBRATED = 0.96  # the bootstrap's own level; by simulation it gives the interval its 95 %
SMOOTHING = 0.4  # kernel width in standard deviations: tames the tiny resamples of 5 to 11 rounds
FEWEST_ROUNDS = 3
FIRST_TRIMMED = 7  # the fewest rounds of which the trimmed mean leaves some out
DECIDABLE = 0.05  # a difference as large as this is never called level
NARROW = 0.03  # half-width that deserves no more rounds: nearly all equals are level then
_SEED = 20160919


@dataclass(frozen=True)
class Ratio:
    """A ratio with its interval; `low` is 0 and `high` infinite when the rounds are too few."""

    value: float
    low: float
    high: float
    rounds: int

    @property
    def half_width(self) -> float:
        """Half the interval as a fraction of the ratio (0.1 means 10 %)."""
        if self.low <= 0 or math.isinf(self.high):
            return math.inf
        return math.exp((math.log(self.high) - math.log(self.low)) / 2) - 1

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low > 1 or self.high < 1

    @property
    def level(self) -> bool:
        """Whether the interval includes 1 and no difference of 5 % or more."""
        return not self.differs and self.low > 1 / (1 + DECIDABLE) and self.high < 1 + DECIDABLE

    @property
    def too_noisy(self) -> bool:
        """Whether the interval includes both 1 and a difference of 5 %."""
        return not self.differs and not self.level

    @property
    def rounds_needed(self) -> int:
        """The approximate number of rounds after which the interval is narrower than ±3 %."""
        return self.rounds_for(NARROW)

    def rounds_for(self, width: float) -> int:
        """The approximate number of rounds after which the half-width is below `width`."""
        if math.isinf(self.half_width):
            return max(5, 2 * self.rounds)
        return math.ceil(self.rounds * (math.log1p(self.half_width) / math.log1p(width)) ** 2)

    def rounds_to_settle(self, low: float, high: float) -> int:
        """The approximate further rounds until the ratio is narrow, or by `widened` on one side of
        both ends of a range.

        Before the first round is trimmed, a single disturbed one can make the whole width, so no
        more is foreseen than the rounds until then.
        """
        if trim(self.rounds) == 0:
            return FIRST_TRIMMED - self.rounds
        ends = [end for end in (low, high) if 0 < end < math.inf]
        distance = min((abs(math.log(self.value / end)) for end in ends), default=0.0)
        return max(1, self.rounds_for(max(NARROW, math.expm1(distance / 2))) - self.rounds)

    def widened(self) -> "Ratio":
        """The ratio with an interval of twice the width, which more than 99.9 % of them keep."""
        if math.isinf(self.half_width):
            return self
        return Ratio(self.value, self.low**2 / self.value, self.high**2 / self.value, self.rounds)

    def inverse(self) -> "Ratio":
        """The ratio of the exchanged sides."""
        low = 0.0 if math.isinf(self.high) else 1 / self.high
        high = math.inf if self.low <= 0 else 1 / self.low
        return Ratio(1 / self.value, low, high, self.rounds)


def trim(rounds: int) -> int:
    """The number of rounds trimmed at either end: about a fifth of all."""
    return max(0, (rounds - 3) // 4)


def trimmed_mean(samples: np.ndarray) -> np.ndarray:
    """Mean along the last axis without its `trim` extremes on either side."""
    count = samples.shape[-1]
    cut = trim(count)
    return np.sort(samples, axis=-1)[..., cut : count - cut].mean(axis=-1)


def standard_error(samples: np.ndarray) -> np.ndarray:
    """Standard error of the trimmed mean by winsorised variance (Tukey and McLaughlin, 1963)."""
    count = samples.shape[-1]
    cut = trim(count)
    ordered = np.sort(samples, axis=-1)
    winsorised = np.clip(ordered, ordered[..., cut, None], ordered[..., count - cut - 1, None])
    return winsorised.std(axis=-1, ddof=1) / ((1 - 2 * cut / count) * math.sqrt(count))


def interval(strata: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """(estimate, low, high) of the mean of the strata's trimmed means.

    Each stratum holds the log-ratios of one cell's rounds and is resampled separately. With fewer
    than FEWEST_ROUNDS rounds in any stratum the interval is unbounded.
    """
    estimate = float(np.mean([trimmed_mean(stratum) for stratum in strata]))
    if min(len(stratum) for stratum in strata) < FEWEST_ROUNDS:
        return estimate, -math.inf, math.inf
    generator = np.random.default_rng(_SEED)
    shift = np.zeros(RESAMPLES)
    variance = np.zeros(RESAMPLES)
    observed_variance = 0.0
    for stratum in strata:
        count = len(stratum)
        error = float(standard_error(stratum))
        kernel = SMOOTHING * error * math.sqrt(count)
        drawn = stratum[generator.integers(0, count, (RESAMPLES, count))]
        drawn = drawn + kernel * generator.standard_normal(drawn.shape)
        shift += trimmed_mean(drawn) - trimmed_mean(stratum)
        variance += standard_error(drawn) ** 2
        observed_variance += error**2
    if observed_variance == 0.0:
        return estimate, estimate, estimate
    critical = float(np.quantile(np.abs(shift) / np.sqrt(variance), CALIBRATED))
    margin = critical * math.sqrt(observed_variance)
    half = len(strata)
    return estimate, estimate - margin / half, estimate + margin / half


def ratio(strata: Sequence[Sequence[float]]) -> Ratio:
    """The geometric mean of a ratio over cells, from each cell's log-ratios, one a round."""
    return _ratio(tuple(tuple(float(each) for each in stratum) for stratum in strata))


@lru_cache(maxsize=10_000)  # most looks at a measurement ask again for cells without new rounds
def _ratio(strata: tuple[tuple[float, ...], ...]) -> Ratio:
    arrays = [np.asarray(stratum) for stratum in strata]
    estimate, low, high = interval(arrays)
    rounds = min(len(array) for array in arrays)
    return Ratio(math.exp(estimate), math.exp(low), math.exp(high), rounds)


def log_ratios(ours: dict[int, float], theirs: dict[int, float], better: str) -> list[float]:
    """The logarithm of our figure relative to theirs, above 0 if better, in rounds that both finished.

    Rounds with a figure of zero have no ratio and are left out.
    """
    return list(logs_by_round(ours, theirs, better).values())


def logs_by_round(
    ours: dict[int, float], theirs: dict[int, float], better: str
) -> dict[int, float]:
    """The logarithms of log_ratios by round."""
    sign = -1.0 if better == "lower" else 1.0
    rounds = [
        each for each in sorted(ours.keys() & theirs.keys()) if ours[each] > 0 and theirs[each] > 0
    ]
    return {each: sign * math.log(ours[each] / theirs[each]) for each in rounds}


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return float(np.median(values))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(low), float(high)


def spread(values: Sequence[float]) -> float:
    """Noise of repeated runs: 1.4826 times the median absolute deviation, over the median."""
    middle = median(values)
    return 1.4826 * median([abs(value - middle) for value in values]) / middle if middle else 0.0


def welch(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Two unpaired samples of logarithms: (difference of trimmed means, two-sided p-value).

    Yuen's trimmed form of Welch's test (Yuen, 1974); p is 1 when there are too few runs.
    """
    one, two = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    difference = float(trimmed_mean(two) - trimmed_mean(one))
    if min(len(one), len(two)) < FEWEST_ROUNDS:
        return difference, 1.0
    parts = [
        (float(standard_error(each)) ** 2, len(each) - 2 * trim(len(each))) for each in (one, two)
    ]
    total = sum(part for part, _ in parts)
    if total == 0.0:
        return difference, 0.0 if difference else 1.0
    from scipy import stats  # loads for most of a second, for comparisons of files only

    freedom = total**2 / sum(part**2 / (kept - 1) for part, kept in parts)
    return difference, float(2 * stats.t.sf(abs(difference) / math.sqrt(total), freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted to keep the chance of any false alarm at the level (Holm, 1979)."""
    order = sorted(range(len(p_values)), key=lambda each: p_values[each])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, each in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[each]))
        adjusted[each] = highest
    return adjusted
