# SPDX-License-Identifier: Apache-2.0
"""The program gyre_http_foreign_server, as the tests in Python start it, and its certificates."""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

IS_SANITIZED = "GYRE_SANITIZED" in os.environ
PATIENCE = 120.0
MOST_MEMORY_KIB = 32 * 1024  # of a server that streams bodies


class Server:
    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", line)
        assert found, f"the server said {line!r}"
        self.port = found[1]

    def open_descriptors(self) -> int:
        """Without the timers of loops, which each makes when it first needs one."""
        count = 0
        for each in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                count += "timerfd" not in str(each.readlink())
        return count

    def end(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0, "the server did not end in good order"
        self.process.stdout.close()


@contextlib.contextmanager
def serving(*command: str) -> Iterator[Server]:
    server = Server(*command)
    try:
        yield server
        server.end()
    finally:
        server.process.kill()
        server.process.wait()


def run(*words: str, status: int = 0) -> str:
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE)
    assert done.returncode == status, f"{words}: status {done.returncode}, {done.stderr!r}"
    return done.stdout.decode("latin-1")


def make_certificates(folder: Path) -> None:
    """An authority, and what it has issued: two certificates of the server, one of a client."""

    def request(name: str, *more: str) -> None:
        run(
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-keyout", str(folder / f"{name}.key")),
            *("-out", str(folder / f"{name}.pem"), "-subj", f"/CN={name}", *more),
        )

    issued = ("-CA", str(folder / "authority.pem"), "-CAkey", str(folder / "authority.key"))
    end = ("-addext", "basicConstraints=critical,CA:FALSE")
    names = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    request("authority", "-addext", "keyUsage=critical,keyCertSign")  # Python may demand it
    request("stranger")
    request("server", *issued, *end, *names)
    request("renewed", *issued, *end, *names)
    request("client", *issued, *end)
