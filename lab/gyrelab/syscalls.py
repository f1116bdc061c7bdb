# SPDX-License-Identifier: Apache-2.0
"""System calls of a process by name, from the summaries of `perf stat` and `strace -c`."""

import re
from collections import Counter

# The calls that perf counts one by one: each costs it milliseconds to attach. TOTAL has them all.
COUNTED = [
    "accept4",
    "bind",
    "clock_nanosleep",
    "close",
    "connect",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd2",
    "exit",
    "futex",
    "getpeername",
    "getsockname",
    "getsockopt",
    "io_uring_enter",
    "io_uring_register",
    "madvise",
    "membarrier",
    "mmap",
    "mprotect",
    "munmap",
    "newfstat",
    "newfstatat",
    "openat",
    "poll",
    "ppoll",
    "pread64",
    "pwrite64",
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "rt_sigaction",
    "rt_sigprocmask",
    "sched_yield",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socket",
    "timerfd_settime",
    "write",
    "writev",
]
TOTAL = "raw_syscalls:sys_enter"
OTHERS = "others"

_STRACE = re.compile(
    r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(?P<calls>\d+)(?:\s+\d+)?\s+(?P<name>[a-z]\w*)\s*$"
)


def events() -> str:
    """The argument of `perf stat -e`."""
    return ",".join([TOTAL, *(f"syscalls:sys_enter_{name}" for name in COUNTED)])


def parse_perf(text: str) -> Counter[str]:
    """Reads the output of `perf stat -x,`. Lines that hold no count are passed over."""
    found: Counter[str] = Counter()
    total = 0
    for line in text.splitlines():
        columns = line.split(",")
        if len(columns) < 3 or not columns[0].isdecimal():
            continue
        if columns[2] == TOTAL:
            total = int(columns[0])
        elif columns[2].startswith("syscalls:sys_enter_"):
            found[columns[2].removeprefix("syscalls:sys_enter_")] += int(columns[0])
    found[OTHERS] = max(total - found.total(), 0)
    return +found


def parse_strace(text: str) -> Counter[str]:
    """Reads the output of `strace -c`. Lines that are no row of its table are passed over."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        if (row := _STRACE.match(line)) and row["name"] != "total":
            found[row["name"]] += int(row["calls"])
    return found
