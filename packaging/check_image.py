# SPDX-License-Identifier: Apache-2.0
"""Runs an image as Docker would, in a root without Docker.

    unshare --net python3 check_image.py INSPECTED ROOT

INSPECTED is what `buildah inspect` prints, ROOT the mounted container. Starts the image's command
as the image's user, asks its health check, and ends it by SIGTERM, after which the health check
must fail. Fails by an exception. The network namespace keeps the image's port free.
"""

import fcntl
import json
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
PATIENCE = 60.0


def start_loopback() -> None:
    """Switches on the loopback device of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def main(inspected: str, root: str) -> None:
    config = json.loads(Path(inspected).read_text())["Docker"]["config"]
    user = config["User"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), f"the image's user is {user!r}"
    kind, *health_check = config["Healthcheck"]["Test"]
    assert kind == "CMD", kind
    in_root = ["chroot", f"--userspec={user}", root]

    def is_healthy() -> bool:
        return subprocess.run([*in_root, *health_check], timeout=PATIENCE).returncode == 0

    start_loopback()
    with subprocess.Popen([*in_root, *config["Cmd"]], stdout=subprocess.PIPE, text=True) as program:
        try:
            line = program.stdout.readline()
            assert line.startswith("listening on "), line
            assert is_healthy(), "the health check fails"
            program.terminate()
            assert program.wait(PATIENCE) == 0, program.returncode
        finally:
            program.kill()
    assert not is_healthy(), "the health check passes although nothing runs"
    print(f"check_image: runs as {user}, is healthy, and ends in good order")


if __name__ == "__main__":
    main(*sys.argv[1:])
