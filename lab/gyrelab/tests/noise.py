# SPDX-License-Identifier: Apache-2.0
"""Reproducible noise of measurements, on which the tests prove the lab's figures.

Each kind yields the logarithms by which the figures of successive runs deviate. No test may depend
on the speed of real programs: that is for `make trust`, on a machine that has nothing else to do.
"""

from collections.abc import Callable, Iterator

import numpy as np

# Wall-clock times of one fixed piece of work, 240 times on a virtual machine of two processors on
# which eight compilers run.
# fmt: off
BUSY = (
    -0.233, -0.419, -0.373, 0.076, 0.128, 1.918, -0.316, -0.341, 0.118, 0.155, 2.391, -0.102,
    -0.024, -0.344, 0.144, -0.29, 0.14, -0.293, 0.158, 0.174, -0.349, 1.637, 0.121, -0.329,
    -0.356, -0.312, -0.429, -0.344, -0.456, -0.48, -0.305, -0.409, -0.381, -0.364, -0.398,
    -0.482, -0.481, -0.381, -0.305, -0.435, -0.481, -0.478, -0.482, -0.475, -0.193, 0.155,
    1.621, 0.718, 0.122, 0.103, -0.147, 1.707, 0.127, 0.061, 0.059, 0.13, 1.096, 0.148, 0.166,
    0.215, 0.195, 0.245, 0.044, 0.861, 0.122, 0.118, 0.078, 2.183, -0.136, -0.174, 0.051,
    -0.479, 0.033, 1.369, 0.048, 1.108, 0.016, 0.042, 1.094, 0.105, 0.033, 0.032, 0.101, 0.149,
    0.205, 0.163, 0.017, 0.235, -0, -0.042, -0.003, 0.014, -0.001, -0.045, 0.045, 0.102, 0.077,
    1.939, 0.545, 0.177, 1.604, 0, 0.046, 0.106, 0.15, 0.099, 0.062, 0.114, -0.001, 1.614,
    0.151, 0.15, 0.01, 0.064, -0.025, -0.004, 0.145, -0.051, 0.115, -0.051, -0.057, 1.392,
    0.032, 0.043, 0.011, 0.056, 0.115, 0.065, 1.841, 0.107, 0.096, 0.13, 0.13, 0.149, 0.059,
    0.088, 0.074, 0.093, 0.085, 0.075, 0.138, 0.123, 0.127, 0.131, 0.135, -0.455, -0.43, -0.444,
    -0.448, -0.48, -0.299, -0.033, 1.94, 0.046, 0.053, 0.058, -0.463, -0.454, -0.307, -0.188,
    -0.45, -0.167, -0.364, -0.38, -0.478, -0.47, -0.412, -0.456, -0.364, -0.402, -0.458, -0.391,
    -0.188, -0.452, -0.162, -0.453, -0.454, -0.438, -0.101, 0.074, -0.481, -0.17, -0.029, 2.179,
    -0.401, -0.482, -0.439, 1.489, -0.247, -0.273, -0.299, -0.488, 0.077, 0.055, -0.401, -0.389,
    0.052, 0.043, -0.479, -0.13, 0.008, -0.201, -0.443, -0.482, -0.347, -0.046, -0.409, -0.354,
    0.025, -0.021, -0.179, -0.133, -0.375, -0.479, 0.092, -0.48, 0.1, -0.428, 0.105, 0.062,
    0.088, 0.083, 1.94, 0.069, -0.412, -0.452, -0.392, 0.118, -0.485, -0.485, -0.482, -0.411,
    -0.464, -0.482, -0.48, -0.484, -0.461, 0.081, -0.486, -0.484,
)
# fmt: on

# Processor times of the same pieces of work.
# fmt: off
SHARED = (
    -0.233, -0.42, -0.374, 0.078, 0.129, -0.112, -0.316, -0.342, 0.082, 0.155, 0.151, -0.1,
    -0.023, -0.345, 0.146, -0.29, 0.142, -0.294, 0.159, 0.174, -0.351, 0.208, 0.122, -0.33,
    -0.357, -0.312, -0.43, -0.344, -0.458, -0.486, -0.311, -0.411, -0.382, -0.382, -0.4, -0.483,
    -0.483, -0.385, -0.306, -0.436, -0.482, -0.48, -0.484, -0.484, -0.193, 0.155, 0.15, 0.148,
    0.123, 0.104, -0.147, 0.014, 0.127, 0.062, 0.06, 0.131, 0.048, 0.149, 0.168, 0.215, 0.197,
    0.246, 0.044, 0.135, 0.126, 0.119, 0.079, 0.082, -0.136, -0.174, 0.052, -0.481, 0.034,
    0.068, 0.049, 0.066, 0.019, 0.044, 0.031, 0.105, 0.034, 0.034, 0.103, 0.148, 0.206, 0.164,
    0.019, 0.124, -0.024, -0.041, -0.002, 0.016, 0.004, -0.044, 0.046, 0.103, 0.078, 0.103,
    0.088, 0.178, 0.082, 0.003, 0.033, 0.107, 0.15, 0.099, 0.063, 0.115, 0.002, 0.115, 0.152,
    0.151, 0.012, 0.065, -0.023, -0.003, 0.146, -0.049, 0.115, -0.05, -0.055, 0.007, 0.034,
    0.045, 0.013, 0.057, 0.115, 0.066, 0.092, 0.108, 0.067, 0.13, 0.13, 0.15, 0.061, 0.091,
    0.075, 0.094, 0.086, 0.076, 0.139, 0.122, 0.127, 0.13, 0.135, -0.455, -0.43, -0.451, -0.447,
    -0.483, -0.3, -0.03, 0.088, 0.048, 0.055, 0.061, -0.465, -0.455, -0.307, -0.186, -0.452,
    -0.22, -0.367, -0.382, -0.48, -0.472, -0.413, -0.457, -0.364, -0.403, -0.459, -0.391,
    -0.183, -0.453, -0.161, -0.454, -0.455, -0.439, -0.099, 0.076, -0.483, -0.169, -0.027,
    0.044, -0.4, -0.484, -0.442, -0.316, -0.247, -0.273, -0.299, -0.49, 0.079, 0.057, -0.402,
    -0.39, 0.052, 0.045, -0.481, -0.127, 0.012, -0.2, -0.446, -0.484, -0.347, -0.045, -0.41,
    -0.354, 0.027, -0.022, -0.177, -0.131, -0.375, -0.481, 0.093, -0.482, 0.101, -0.429, 0.108,
    0.065, 0.089, 0.084, 0.107, 0.071, -0.413, -0.455, -0.393, 0.118, -0.486, -0.487, -0.484,
    -0.412, -0.464, -0.484, -0.483, -0.486, -0.463, 0.082, -0.488, -0.486,
)
# fmt: on


def quiet(generator: np.random.Generator) -> Iterator[float]:
    """A machine without other load."""
    while True:
        yield generator.normal(0, 0.02)


def heavy_tails(generator: np.random.Generator) -> Iterator[float]:
    """Student's t with three degrees of freedom: rare large deviations in both directions."""
    while True:
        yield 0.03 * generator.standard_t(3)


def skewed(generator: np.random.Generator) -> Iterator[float]:
    """Never faster than the best, often a little slower."""
    while True:
        yield generator.exponential(0.06)


def bursts(generator: np.random.Generator) -> Iterator[float]:
    """Another program runs during some runs."""
    left = 0
    while True:
        if left == 0 and generator.random() < 0.02:
            left = int(generator.integers(2, 9))
        burst = generator.exponential(0.4) if left else 0.0
        left -= left > 0
        yield burst + generator.normal(0, 0.03)


def drift(generator: np.random.Generator) -> Iterator[float]:
    """The machine gets slower and faster by a third, as it warms up and cools down."""
    run = 0
    while True:
        run += 1
        yield 0.3 * np.sin(run / 40) + generator.normal(0, 0.02)


def _recorded(series: tuple[float, ...]) -> Callable[[np.random.Generator], Iterator[float]]:
    def replay(generator: np.random.Generator) -> Iterator[float]:
        place = int(generator.integers(len(series)))
        while True:
            place = (place + 1) % len(series)
            yield series[place]

    return replay


busy = _recorded(BUSY)
shared = _recorded(SHARED)

Noise = Callable[[np.random.Generator], Iterator[float]]
KINDS: dict[str, Noise] = {
    "quiet": quiet,
    "heavy_tails": heavy_tails,
    "skewed": skewed,
    "bursts": bursts,
    "drift": drift,
    "shared": shared,
    "busy": busy,
}
