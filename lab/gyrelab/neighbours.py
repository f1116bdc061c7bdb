# SPDX-License-Identifier: Apache-2.0
"""Busy processes beside a contender: a cell's `neighbours`, which users' machines always have."""

import contextlib
import os
import subprocess
from collections.abc import Iterator

from gyrelab import cells
from gyrelab.cells import Cell

# Ends by itself should the lab be killed: a shell built-in looks for it now and then. The lab gives
# its id, as a shell that starts after the lab's end has another parent.
_BUSY = """
while kill -0 "$1" 2> /dev/null; do
  i=0
  while [ $i -lt 50000 ]; do i=$((i + 1)); done
done
"""


@contextlib.contextmanager
def beside(cell: Cell, pin: tuple[int, ...] = ()) -> Iterator[list[int]]:
    """Runs the cell's busy processes, one after another on each of the processors `pin`, or on those
    that the lab may use; yields their ids, and kills and reaps them at the end in any case."""
    processors = sorted(pin or os.sched_getaffinity(0))
    running: list[subprocess.Popen[bytes]] = []
    try:
        for index in range(int(cell.get(cells.NEIGHBOURS, 0))):
            process = subprocess.Popen(
                ["/bin/sh", "-c", _BUSY, "busy", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a group of its own for the scheduler, as programs have
            )
            running.append(process)
            os.sched_setaffinity(process.pid, {processors[index % len(processors)]})
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()
