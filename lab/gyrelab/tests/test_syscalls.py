# SPDX-License-Identifier: Apache-2.0
"""Counts of system calls, from recorded summaries of perf and strace."""

from gyrelab import syscalls

STRACE = """\
strace: Process 18300 attached
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 95.12    0.012345          12      1024           futex
  4.00    0.000519           1       320        13 openat
  0.88    0.000114           0         1           io_uring_enter
  0.00    nonsense           0        34           read
------ ----------- ----------- --------- --------- ----------------
100.00    0.012978           9      1345        13 total
"""

PERF = """\
# started on Tue Nov 24 01:42:21 2026

144,,raw_syscalls:sys_enter,1127647,100.00,,
23,,syscalls:sys_enter_close,1127647,100.00,,
0,,syscalls:sys_enter_futex,1127647,100.00,,
<not supported>,,syscalls:sys_enter_poll,0,0.00,,
30,,syscalls:sys_enter_mmap,1127647,100.00,,
99,,context-switches,1127647,100.00,,
12
"""


def test_strace_summary_gives_calls_by_name() -> None:
    assert syscalls.parse_strace(STRACE) == {"futex": 1024, "openat": 320, "io_uring_enter": 1}


def test_perf_summary_gives_calls_by_name_and_the_others() -> None:
    assert syscalls.parse_perf(PERF) == {"close": 23, "mmap": 30, syscalls.OTHERS: 91}


def test_output_without_a_table_counts_nothing() -> None:
    for text in (
        "",
        "strace: not permitted\n",
        "Error:\nAccess to performance monitoring, limited",
    ):
        assert not syscalls.parse_strace(text)
        assert not syscalls.parse_perf(text)


def test_perf_counts_more_calls_by_name_than_in_all() -> None:
    """The total and the calls are read one after another, so a thread may count in between."""
    assert syscalls.parse_perf("3,,syscalls:sys_enter_read,1,1\n2,,raw_syscalls:sys_enter,1,1") == {
        "read": 3
    }
