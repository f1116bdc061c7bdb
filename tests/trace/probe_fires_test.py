# SPDX-License-Identifier: Apache-2.0
"""Lets gdb, a reader of static probes, stop a program at the probe of a span.

    python3 probe_fires_test.py PROGRAM TEST SPAN

TEST is a test of the GoogleTest program PROGRAM that records the span SPAN. gdb finds the probe by
its note, raises its semaphore as a tracer does, and reads its arguments. Exit status 77 if gdb
cannot run the program here.
"""

import re
import shutil
import subprocess
import sys

SKIPPED = 77


def main() -> int:
    program, test, span = sys.argv[1:]
    if not shutil.which("gdb"):
        print("skipped: there is no gdb")
        return SKIPPED
    commands = [
        "set confirm off",
        "set breakpoint pending off",
        "break -probe-stap gyre:span",
        "run",
        'printf "name=%s length=%ld arguments=%d\\n", '
        "(char*)$_probe_arg0, (long)$_probe_arg1, $_probe_argc",
        "x/i $pc",
        "kill",
    ]
    arguments = [each for command in commands for each in ("-ex", command)]
    done = subprocess.run(
        ["gdb", "-nx", "-quiet", "-batch", *arguments, "--args", program, f"--gtest_filter={test}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    if "ptrace: Operation not permitted" in output or "Couldn't get registers" in output:
        print(f"skipped: gdb may not trace processes here\n{output}")
        return SKIPPED
    stop = re.search(r"^name=(.*) length=(-?\d+) arguments=(\d+)$", output, re.MULTILINE)
    assert stop, output
    assert stop[1] == span, output
    assert int(stop[2]) > 0, output
    assert stop[3] == "3", output
    assert re.search(r"^=> 0x[0-9a-f]+.*:\s+nop$", output, re.MULTILINE), output
    return 0


if __name__ == "__main__":
    sys.exit(main())
