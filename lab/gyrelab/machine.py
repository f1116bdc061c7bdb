# SPDX-License-Identifier: Apache-2.0
"""The machine of a measurement: processor, kernel, governor, load, and the source's revision."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from gyrelab import paths


def describe() -> dict[str, Any]:
    """The machine as a result file records it."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "cores_online": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "system": _system_name(),
        "governor": governor(),
        "virtual": is_virtual(),
    }


def processor() -> str:
    """The processor's name, from the kernel."""
    for line in _lines("/proc/cpuinfo"):
        label, _, value = line.partition(":")
        if label.strip() in ("model name", "Model", "cpu model"):
            return " ".join(value.split())
    return platform.processor() or "unknown"


def governor() -> str:
    """The first processor's frequency governor; 'none' where the kernel controls no frequency."""
    return read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "none"


def is_virtual() -> bool:
    """Whether the machine is virtual."""
    return any(
        line.startswith("flags") and " hypervisor" in line for line in _lines("/proc/cpuinfo")
    )


def load() -> list[float]:
    """Load averages of the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def revision() -> dict[str, Any]:
    """The checked-out commit and whether files differ from it; unknown outside git."""
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return {"commit": "unknown", "changed": False}
    return {
        "commit": commit,
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def read(path: str) -> str | None:
    """A small file of /proc or /sys without its final newline; None when it is missing."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _lines(path: str) -> list[str]:
    return (read(path) or "").splitlines()


def _system_name() -> str:
    for line in _lines("/etc/os-release"):
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words], cwd=paths.ROOT, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
