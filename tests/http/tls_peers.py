# SPDX-License-Identifier: Apache-2.0
"""Honest clients of a server of TLS, and pieces of ones that break its rules, by tlslite-ng."""

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from server_program import PATIENCE, Server
from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.errors import TLSAbruptCloseError, TLSRemoteAlert

TLS_1_2 = (3, 3)
TLS_1_3 = (3, 4)


class Site:
    """The server, and what an honest client sees of it."""

    def __init__(self, server: Server, authority: Path) -> None:
        self.address = ("127.0.0.1", int(server.port))
        self.trust = ssl.create_default_context(cafile=str(authority))

    def connect(self, receive_buffer: int = 0) -> socket.socket:
        made = socket.socket()
        made.settimeout(PATIENCE)
        if receive_buffer:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        made.connect(self.address)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def ask(self, method: str, path: str, body: bytes = b"") -> str:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        with self.trust.wrap_socket(self.connect(), server_hostname="localhost") as stream:
            stream.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = b"".join(iter(lambda: stream.recv(65536), b""))
        head, _, text = answer.decode().partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 200 "), answer
        return text

    def failures(self) -> str:
        return self.ask("GET", "/failures")

    def await_failure(self, text: str) -> None:
        """The server may learn of the end after the peer has."""
        told = ""
        end = time.monotonic() + PATIENCE
        while text not in told:
            assert time.monotonic() < end, f"the server does not tell {text!r}, but {told!r}"
            told += self.failures()


def client_hello(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    context = ssl.create_default_context()
    context.maximum_version = version
    sent = ssl.MemoryBIO()
    stream = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        stream.do_handshake()
    return sent.read()


def record(kind: int, content: bytes) -> bytes:
    return struct.pack("!BHH", kind, 0x0303, len(content)) + content


def rest_of(peer: socket.socket) -> bytes:
    """All that comes until the connection ends; a reset is an end, too."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := peer.recv(65536):
            received += part
    return received


def has_alert(received: bytes, description: int) -> bool:
    """Whether a fatal alert is the last record."""
    return received[-7:-6] == b"\x15" and received[-4:] == bytes((0, 2, 2, description))


def settings_for(version: tuple[int, int]) -> HandshakeSettings:
    settings = HandshakeSettings()
    settings.minVersion = settings.maxVersion = version
    return settings


class Tampering:
    """A socket that changes what is sent, once it is told to."""

    def __init__(self, inner: socket.socket) -> None:
        self.inner = inner
        self.change: Callable[[bytes], bytes] | None = None

    def send(self, data: bytes) -> int:
        self.inner.sendall(self.change(bytes(data)) if self.change else data)
        return len(data)

    def sendall(self, data: bytes) -> None:
        self.send(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def flip_last_bit(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


@contextlib.contextmanager
def connected(
    site: Site, version: tuple[int, int], receive_buffer: int = 0
) -> Iterator[tuple[TLSConnection, Tampering]]:
    with site.connect(receive_buffer) as raw:
        wire = Tampering(raw)
        peer = TLSConnection(wire)
        peer.handshakeClientCert(settings=settings_for(version), serverName="localhost")
        yield peer, wire


def send_record(peer: TLSConnection, message: object) -> None:
    for _ in peer._recordLayer.sendRecord(message):
        pass
    peer.sock.flush()


def send_message(peer: TLSConnection, message: object) -> None:
    for _ in peer._sendMsg(message, update_hashes=False):
        pass
    peer.sock.flush()


def ends_with(peer: TLSConnection, *descriptions: int) -> bool:
    """Whether the connection ends, and if an alert says why, with one of these."""
    try:
        while peer.read(max=65536, min=1):
            pass
    except TLSRemoteAlert as alert:
        return alert.description in descriptions
    except (TLSAbruptCloseError, ConnectionError):
        return True
    return False


def raw_exchange(site: Site, *, sent: bytes, ends: bool = False) -> bytes:
    with site.connect() as peer:
        # The server may end the connection before it has read all.
        with contextlib.suppress(ConnectionError):
            peer.sendall(sent)
            if ends:
                peer.shutdown(socket.SHUT_WR)
        return rest_of(peer)
