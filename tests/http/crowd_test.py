#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has crowds of peers that dawdle meet a server of gyre, and honest clients beside them.

    crowd_test.py SERVER [--slow-heads N] [--slow-bodies N] [--never-read N]

SERVER is the program gyre_http_foreign_server. A peer of the first crowd sends a head, and one of
the second a body, by one byte each second; one of the third asks for an endless answer and reads
nothing. While a crowd stands, honest clients must be served. The server must end each peer of the
crowd by its time limits, hold no more memory than stated below, and have as many descriptors
afterwards as before. One line for each crowd has the figures.

The default is small. In the whole test this program and the server need 10,100 descriptors each:

    crowd_test.py SERVER --slow-heads 10000 --slow-bodies 10000 --never-read 500

Exit status: 0 all is as it should be, 1 something is not.
"""

import argparse
import collections
import contextlib
import dataclasses
import resource
import select
import socket
import sys
import tempfile
import time
from pathlib import Path

from server_program import IS_SANITIZED, PATIENCE, Server, serving

KIB = 1024
MIB = 1024 * KIB
MEMORY_LIMIT = 512 * MIB  # the default of tcp_server_options::memory_limit
FIXED_MEMORY = 4 * MIB  # what the server may grow by, however few peers there are
PEERS_OF_ADDRESS = 100  # the server allows an address half of its descriptors
DESCRIPTORS_BESIDE = 100
HONEST_AT_LEAST = 20
BODY_SIZE = 1_000_000


def head(line: str, size: int, more: str = "") -> bytes:
    host = "Host: localhost\r\n"
    return f"{line} HTTP/1.1\r\n{host}{more}Content-Length: {size}\r\n\r\n".encode()


@dataclasses.dataclass
class Kind:
    name: str
    count: int
    begins: tuple[bytes, ...]  # what peers send at once, in turn
    rest: bytes  # what it then sends byte by byte, again and again
    most_memory: int  # that the server may hold for each, in bytes
    reads: bool = True


class Peer:
    """One of a crowd: a socket that the loop of the crowd writes to and reads from."""

    def __init__(self, kind: Kind, index: int, port: int) -> None:
        self.kind = kind
        self.sent = 0
        self.received = b""
        self.socket = socket.socket()
        if not kind.reads:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(PATIENCE)
        address = index // PEERS_OF_ADDRESS
        self.socket.bind((f"127.0.{1 + address // 250}.{1 + address % 250}", 0))
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(kind.begins[index % len(kind.begins)])
        self.socket.setblocking(False)

    def send_byte(self) -> None:
        at = self.sent % len(self.kind.rest)
        with contextlib.suppress(BlockingIOError, ConnectionError):  # the poller tells the end
            self.sent += self.socket.send(self.kind.rest[at : at + 1])

    def has_ended(self, events: int) -> bool:
        if not self.kind.reads:  # not even the end can be read behind the answer
            return bool(events & (select.EPOLLHUP | select.EPOLLERR))
        try:
            piece = self.socket.recv(65536)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        self.received += piece
        return not piece


class Honest:
    """Clients that ask one question each; their times."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.times: list[float] = []

    def ask(self) -> None:
        start = time.perf_counter()
        is_post = len(self.times) % 2 == 1
        body = b"abc" if is_post else b""
        line = "POST /echo" if is_post else "GET /hello"
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as peer:
            peer.sendall(head(line, len(body), "Connection: close\r\n") + body)
            answer = b"".join(iter(lambda: peer.recv(65536), b""))
        self.times.append(time.perf_counter() - start)
        expected = b"\r\n\r\n" + (body or b"hello")
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(expected), answer


def memory_of(server: Server, name: str) -> int:
    """VmRSS, the resident memory now, or VmHWM, its peak, in bytes."""
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * KIB
    raise AssertionError(f"the kernel does not tell {name}")


class Crowd:
    """Peers of one kind, that come one after the other and stand until the server ends them."""

    def __init__(self, kind: Kind, port: int, interval: float) -> None:
        self.kind = kind
        self.port = port
        self.interval = interval
        self.poller = select.epoll()
        self.standing: dict[int, Peer] = {}
        self.ended: list[Peer] = []
        self.next_bytes: collections.deque[tuple[float, Peer]] = collections.deque()

    def add(self) -> None:
        peer = Peer(self.kind, len(self.standing) + len(self.ended), self.port)
        self.standing[peer.socket.fileno()] = peer
        self.poller.register(peer.socket, select.EPOLLIN if self.kind.reads else 0)
        if self.kind.rest:
            self.next_bytes.append((time.monotonic() + self.interval, peer))

    def turn(self, timeout: float) -> None:
        """Sends the bytes that are due, and removes the peers that the server has ended."""
        now = time.monotonic()
        while self.next_bytes and self.next_bytes[0][0] <= now:
            due, peer = self.next_bytes.popleft()
            if peer.socket.fileno() >= 0:
                peer.send_byte()
                self.next_bytes.append((due + self.interval, peer))
        for descriptor, events in self.poller.poll(timeout):
            peer = self.standing[descriptor]
            if peer.has_ended(events):
                del self.standing[descriptor]
                self.poller.unregister(descriptor)
                peer.socket.close()
                self.ended.append(peer)


def meet(server: Server, kind: Kind, interval: float) -> None:
    honest = Honest(int(server.port))
    for _ in range(HONEST_AT_LEAST):  # so that the server has what it keeps for good
        honest.ask()
    honest.times.clear()
    before, descriptors = memory_of(server, "VmRSS"), server.open_descriptors()

    crowd = Crowd(kind, honest.port, interval)
    start = time.monotonic()
    for index in range(kind.count):
        crowd.add()
        if index % 100 == 99:
            honest.ask()
            crowd.turn(0)
    opened = time.monotonic() - start
    most = len(crowd.standing)
    while crowd.standing:
        assert time.monotonic() < start + opened + PATIENCE, f"{len(crowd.standing)} peers stand"
        honest.ask()
        crowd.turn(0.02)
    lasted = time.monotonic() - start
    while len(honest.times) < HONEST_AT_LEAST:
        honest.ask()
    if kind.reads:
        for peer in crowd.ended:
            assert peer.received.startswith(b"HTTP/1.1 408 "), (peer.sent, peer.received)
    end = time.monotonic() + PATIENCE
    while server.open_descriptors() != descriptors:
        assert time.monotonic() < end, "the server has lost descriptors"
        honest.ask()

    grown = memory_of(server, "VmHWM") - before
    left = memory_of(server, "VmRSS") - before
    times = sorted(honest.times)
    median, worst = (1000 * times[at] for at in (len(times) // 2, -1))
    print(
        f"{kind.count} {kind.name}: {most} at a time, opened in {opened:.1f} s, ended in"
        f" {lasted:.1f} s; memory {before / MIB:.1f} MiB + {grown / MIB:.1f} MiB"
        f" ({grown / max(most, 1) / KIB:.1f} KiB each), afterwards + {left / MIB:.1f} MiB;"
        f" {len(times)} honest requests, median {median:.1f} ms, slowest {worst:.1f} ms",
        flush=True,
    )
    allowed = FIXED_MEMORY + min(kind.count * kind.most_memory, MEMORY_LIMIT)
    assert grown <= allowed or IS_SANITIZED, f"{grown} bytes, allowed are {allowed}"


def allow_descriptors(needed: int) -> None:
    """For this program, and for the server, which inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(needed, hard)))
        except (ValueError, OSError):
            sys.exit(f"needs {needed} descriptors (RLIMIT_NOFILE); at most {hard} are allowed here")


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("server")
    arguments.add_argument("--slow-heads", type=int, default=200)
    arguments.add_argument("--slow-bodies", type=int, default=200)
    arguments.add_argument("--never-read", type=int, default=50)
    given = arguments.parse_args()
    kinds = [
        Kind(
            name="slow heads",
            count=given.slow_heads,
            begins=(b"G",),
            rest=b"ET /hello HTTP/1.1\r\n" + b"X-Field: value\r\n" * 1000,
            most_memory=16 * KIB,
        ),
        Kind(
            name="slow bodies",
            count=given.slow_bodies,
            # One that is read whole, and one that is streamed.
            begins=(head("POST /echo", BODY_SIZE), head("PUT /sink", BODY_SIZE)),
            rest=b"x",
            most_memory=16 * KIB,
        ),
        Kind(
            name="peers that never read",
            count=given.never_read,
            begins=(head("GET /endless", 0),),
            rest=b"",
            most_memory=MIB + 256 * KIB,  # connection_options::high_water, and the last piece
            reads=False,
        ),
    ]
    allow_descriptors(max(kind.count for kind in kinds) + DESCRIPTORS_BESIDE)
    for kind in kinds:
        if kind.count == 0:
            continue
        limit = 1 + kind.count / 500  # in seconds; the whole crowd should be there before
        command = (given.server, "--time-limit", str(round(1000 * limit)), tempfile.gettempdir())
        with serving(*command) as server:
            meet(server, kind, interval=min(1.0, limit / 10))
    return 0


if __name__ == "__main__":
    sys.exit(main())
