# SPDX-License-Identifier: Apache-2.0
"""Fake contenders: small programs that obey the contract and report a given time.

The noise differs from run to run of a program, and repeats in every run of a test.
"""

import sys
from functools import cache
from pathlib import Path

from gyrelab import experiments

_PROGRAM = """#!{python} -IS
import json, os, random, signal, sys, time
words = sys.argv[1:]
options = {{words[n][2:].replace("-", "_"): words[n + 1] for n in range(0, len(words), 2)}}
handicap = float(options.pop("handicap", 0))
sabotage = options.pop("sabotage", None)
options.pop("pin", None)
limit = options.pop("memory_limit", None)
counts = options.pop("count", "nothing") == "allocations"
parameters = {{name: int(v) if v.isdecimal() else v for name, v in options.items()}}
line = {{"schema": 1, "experiment": {experiment!r}, "contender": {contender!r}, "ok": True,
        "parameters": parameters,
        "build": {{"compiler": "GNU 12.2.0", "flags": "-O3 -DNDEBUG", "libraries": {{"fake": "1.0"}}}}}}
mode = {mode!r}
if mode == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if mode == "realtime":
    os.kill(os.getpid(), 40)
if mode == "markup":
    sys.exit("no [/usr/lib/libfoo.so] for [red]")
if mode == "hang":
    time.sleep(60)
if mode == "chatter":
    print("hello")
    sys.exit(0)
if mode == "hoard" and limit:
    line.update(ok=False, out_of_memory=True, error=f"out of memory after 1.50 s with {{limit}} MiB")
    print(json.dumps(line))
    sys.exit(3)
if mode == "refuse":
    line.update(ok=False, refused=True, error="60100 open files are needed, 20000 allowed")
    print(json.dumps(line))
    sys.exit(4)
if mode == "slow":
    time.sleep(0.2)
if mode == "lose" or sabotage and mode != "blind":
    line.update(ok=False, error="tasks_run 99, expected 100")
    print(json.dumps(line))
    sys.exit(1)
with open(__file__ + ".runs", "a+b") as runs:
    runs.write(b".")
    noise = random.Random(f"{contender} {{options}} {{runs.tell()}}").gauss(0, {noise})
figure = {figure} * (1 + handicap / 100 * ({mode!r} != "numb")) * 2.718281828 ** noise
if mode == "scaling":
    figure *= 1 + 0.15 * parameters.get("producers", parameters.get("loops", 1))
    if parameters.get("wakeup") == "per_task":
        figure += 400
line["metrics"] = {{{metric!r}: figure, "seconds": 0.001, "wakeups": 17,
                   "peak_memory_bytes": 4194304, "p50_ns": figure * 0.9, "p99_ns": figure * 3}}
if counts:
    line["metrics"]["allocations_per_task"] = 0.5
line["checks"] = {{"tasks_posted": 100, "tasks_run": 100}}
line["units"] = {{"name": "task", "count": 100}}
print(json.dumps(line))
"""


@cache
def _metrics() -> dict[str, str]:
    return {name: each.metric.name for name, each in experiments.load_all().items()}


def make(
    build: Path,
    experiment: str,
    contender: str,
    figure: float = 50.0,
    noise: float = 0.03,
    mode: str = "ok",
) -> Path:
    """Writes one fake contender into the build tree."""
    path = build / "lab" / experiment / contender
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        _PROGRAM.format(
            python=sys.executable,
            experiment=experiment,
            contender=contender,
            metric=_metrics()[experiment],
            figure=figure,
            noise=noise,
            mode=mode,
        ),
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


# Figures of the known contenders; all others take 100.
FIGURES = {
    "gyre_fifo": 15,
    "gyre_sharded": 8,
    "mutex": 62,
    "boost_lockfree": 150,
    "moodycamel": 90,
    "asio": 120,
    "libuv": 48,
    "gyre": 40,
    "libevent": 160,
}


def make_all(build: Path, mode: str = "scaling") -> None:
    """Fakes every contender of every experiment with plausible figures."""
    for experiment in experiments.load_all().values():
        for contender in experiment.contenders:
            scale = 60 if experiment.name == "hop" else 1
            figure = FIGURES.get(contender.name, 100) * scale
            make(build, experiment.name, contender.name, figure, mode=mode)
