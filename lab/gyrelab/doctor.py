# SPDX-License-Identifier: Apache-2.0
"""Checks whether this machine is quiet enough to measure; each check gives a finding and advice."""

import hashlib
import os
import resource
import statistics
import time
from dataclasses import dataclass

from gyrelab import machine

GOOD, FAIR, POOR = "good", "fair", "poor"

_SLICE_SECONDS = 0.002
_SLICES = 250
_MOST_CORES = 8


@dataclass(frozen=True)
class Finding:
    """A check's result; `advice` is empty when nothing should change."""

    subject: str
    state: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """All checks; takes about half a second per processor, for at most eight of them."""
    before = _check_steal()
    noise = _measure_noise()
    stolen = _format_share(before, _check_steal())
    return [
        noise,
        _read_stolen(stolen),
        _check_load(),
        _check_cores(),
        _check_governor(),
        _check_turbo(),
        _check_threads_per_core(),
        _check_open_files(),
        _check_perf_events(),
        _check_memory(),
    ]


def spin(core: int, slices: int = _SLICES) -> list[float]:
    """Seconds of each of many equal pieces of work on one processor."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        block = bytes(65536)
        rounds = 1
        while _spin_once(block, rounds) < _SLICE_SECONDS:
            rounds *= 2
        return [_spin_once(block, rounds) for _ in range(slices)]
    finally:
        os.sched_setaffinity(0, allowed)


def _spin_once(block: bytes, rounds: int) -> float:
    started = time.perf_counter()
    for _ in range(rounds):
        hashlib.sha256(block)
    return time.perf_counter() - started


def judge_noise(times: list[list[float]]) -> Finding:
    """The verdict on the pieces' times of each processor."""
    ratios = [sorted(t / statistics.median(each) for t in each) for each in times]
    worst = max(each[int(len(each) * 0.95)] for each in ratios) - 1
    medians = [statistics.median(each) for each in times]
    between = max(medians) / min(medians) - 1
    found = f"equal work takes up to {worst:.1%} longer in 95 % of pieces"
    if len(medians) > 1:
        found += f", processors differ by {between:.1%}"
    if max(worst, between) < 0.03:
        return Finding("noise", GOOD, found)
    advice = "stop other programs; on a virtual machine choose one with dedicated processors"
    if max(worst, between) < 0.12:
        return Finding("noise", FAIR, found, f"measure more rounds (--grid full), or {advice}")
    return Finding("noise", POOR, found, advice)


def _measure_noise() -> Finding:
    cores = sorted(os.sched_getaffinity(0))[:_MOST_CORES]
    return judge_noise([spin(core) for core in cores])


def _check_steal() -> tuple[int, int]:
    """Stolen ticks, which the hypervisor gave to others, and all ticks."""
    fields = (machine.read("/proc/stat") or "cpu 0").splitlines()[0].split()[1:]
    ticks = [int(each) for each in fields]
    return (ticks[7] if len(ticks) > 7 else 0), sum(ticks[:8])


def _format_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    total = after[1] - before[1]
    return (after[0] - before[0]) / total if total else 0.0


def _read_stolen(share: float) -> Finding:
    found = f"{share:.1%} of the time went to other virtual machines"
    if share < 0.005:
        return Finding("steal", GOOD, found)
    return Finding(
        "steal", POOR if share > 0.05 else FAIR, found, "measure again when the host is quieter"
    )


def _check_load() -> Finding:
    load, cores = machine.load()[0], len(os.sched_getaffinity(0))
    found = f"load average {load:g} on {cores} processors"
    if load < 0.25 * cores + 0.25:
        return Finding("load", GOOD, found)
    state = POOR if load > 0.75 * cores else FAIR
    return Finding("load", state, found, "stop other programs and wait a minute; `top` shows them")


def _check_cores() -> Finding:
    cores, online = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    found = f"{cores} of {online} are available"
    if cores == 1:
        return Finding(
            "processors",
            POOR,
            found,
            "give the lab at least two processors: with one, threads cannot run at the same time",
        )
    return Finding("processors", GOOD, found)


def _check_governor() -> Finding:
    governor = machine.governor()
    if governor == "none":
        return Finding("governor", GOOD, "the clock rate is not controlled by the system")
    if governor == "performance":
        return Finding("governor", GOOD, governor)
    return Finding("governor", FAIR, governor, "`sudo cpupower frequency-set -g performance`")


def _check_turbo() -> Finding:
    no_turbo = machine.read("/sys/devices/system/cpu/intel_pstate/no_turbo")
    boost = machine.read("/sys/devices/system/cpu/cpufreq/boost")
    if no_turbo is None and boost is None:
        return Finding("turbo", GOOD, "not controlled by the system")
    if no_turbo == "1" or boost == "0":
        return Finding("turbo", GOOD, "off")
    file, value = ("intel_pstate/no_turbo", 1) if no_turbo is not None else ("cpufreq/boost", 0)
    advice = f"`echo {value} | sudo tee /sys/devices/system/cpu/{file}` makes runs comparable"
    return Finding("turbo", FAIR, "on: the clock rate depends on heat", advice)


def _check_threads_per_core() -> Finding:
    if machine.read("/sys/devices/system/cpu/smt/active") == "1":
        return Finding(
            "hyper-threads",
            FAIR,
            "two threads share a core",
            "pin to one thread of each core, or turn SMT off",
        )
    return Finding("hyper-threads", GOOD, "off or not visible")


def _check_open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"at most {soft:,}"
    if soft >= 4096:
        return Finding("open files", GOOD, found)
    advice = "`ulimit -n 65536`" if hard >= 65536 else "raise nofile in /etc/security/limits.conf"
    return Finding(
        "open files", FAIR, found, f"{advice}; experiments with thousands of sockets need it"
    )


def _check_perf_events() -> Finding:
    level = machine.read("/proc/sys/kernel/perf_event_paranoid")
    if level is None:
        return Finding(
            "perf events", GOOD, "not supported by this kernel; only profiling needs them"
        )
    if int(level) <= 2:
        return Finding("perf events", GOOD, f"perf_event_paranoid is {level}")
    advice = "`sudo sysctl kernel.perf_event_paranoid=2`, only for profiling with perf"
    return Finding("perf events", FAIR, f"perf_event_paranoid is {level}", advice)


def _check_memory() -> Finding:
    for line in (machine.read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            gib = int(line.split()[1]) / 2**20
            state = GOOD if gib >= 2 else POOR
            return Finding(
                "memory", state, f"{gib:.1f} GiB free", "" if gib >= 2 else "free at least 2 GiB"
            )
    return Finding("memory", FAIR, "unknown")
