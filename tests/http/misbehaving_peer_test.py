#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has peers that break the rules of TLS meet a server and a client of gyre, by tlslite-ng.

    misbehaving_peer_test.py SERVER

SERVER is the program gyre_http_foreign_server. After each of these peers an honest client must
still be served, and at the end the server must have as many descriptors as before.

Exit status: 0 all is as it should be, 1 something is not, 77 tlslite-ng or openssl is not installed.
"""

import contextlib
import shutil
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from server_program import (
    IS_SANITIZED,
    MOST_MEMORY_KIB,
    PATIENCE,
    make_certificates,
    serving,
)

try:
    from tlslite.api import HandshakeSettings, TLSConnection, X509CertChain, parsePEMKey
    from tlslite.constants import (
        AlertDescription,
        AlertLevel,
        ContentType,
        Fault,
        KeyUpdateMessageType,
    )
    from tlslite.errors import TLSError, TLSRemoteAlert
    from tlslite.messages import Alert, ApplicationData, Message
except ImportError:
    print("left out: tlslite-ng is not installed")
    sys.exit(77)

from tls_peers import (
    TLS_1_2,
    TLS_1_3,
    Site,
    Tampering,
    client_hello,
    connected,
    ends_with,
    flip_last_bit,
    has_alert,
    raw_exchange,
    record,
    rest_of,
    send_message,
    send_record,
    settings_for,
)

HELLO = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPLOAD = b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n0123456789"
OFFERED = [bytearray(b"http/1.1")]  # of the protocols that a client offers by ALPN
KEY_UPDATES = 50
EMPTY_RECORDS = 200


# --- Handshakes ---


def test_garbage(site: Site) -> None:
    raw_exchange(site, sent=bytes(range(200, 256)) * 100)
    site.await_failure("the peer does not speak TLS")


def test_truncated_hello(site: Site) -> None:
    whole = client_hello()
    for size in (1, 5, 6, len(whole) // 2, len(whole) - 1):
        raw_exchange(site, sent=whole[:size], ends=True)
        site.await_failure("the peer closed the connection within the TLS handshake")


def test_reset(site: Site) -> None:
    with site.connect() as peer:
        peer.sendall(client_hello())
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    site.await_failure("Connection reset by peer")


def test_oversized_record(site: Site) -> None:
    received = raw_exchange(site, sent=record(ContentType.handshake, b"\x01" + bytes(20_000)))
    assert has_alert(received, AlertDescription.record_overflow), received
    site.await_failure("packet length too long")


def test_endless_hello(site: Site) -> None:
    """The message claims to have 16 MiB."""
    first = record(ContentType.handshake, b"\x01\xff\xff\xff" + bytes(16_000))
    raw_exchange(site, sent=first + record(ContentType.handshake, bytes(16_000)) * 40)
    site.await_failure("the TLS handshake has too many bytes")


def test_old_version(site: Site) -> None:
    with site.connect() as raw:
        settings = HandshakeSettings()
        settings.minVersion, settings.maxVersion = (3, 1), (3, 2)
        try:
            TLSConnection(raw).handshakeClientCert(settings=settings)
            raise AssertionError("the server takes TLS 1.1")
        except TLSRemoteAlert as alert:
            assert alert.description == AlertDescription.protocol_version, alert
    site.await_failure("the peers have no version of TLS in common")


def test_slow_hello(site: Site) -> None:
    """A client that sends each byte alone is honest."""
    for version in (TLS_1_2, TLS_1_3):
        with site.connect() as raw:
            wire = Tampering(raw)

            def one_by_one(data: bytes, raw: socket.socket = raw) -> bytes:
                for byte in data[:-1]:
                    raw.send(bytes((byte,)))
                return data[-1:]

            wire.change = one_by_one
            peer = TLSConnection(wire)
            peer.handshakeClientCert(settings=settings_for(version), serverName="localhost")
            peer.write(HELLO)
            assert peer.read(min=1).startswith(b"HTTP/1.1 200 ")
            peer.close()
    assert site.failures() == ""


def shake_half(site: Site, then: bytes) -> bytes:
    """Sends the bytes when the server's first flight has come."""
    with site.connect() as peer:
        peer.sendall(client_hello(ssl.TLSVersion.TLSv1_2))
        received = peer.recv(65536)
        assert received[0] == ContentType.handshake, received
        with contextlib.suppress(ConnectionError):
            peer.sendall(then)
        return received + rest_of(peer)


def test_alert_in_handshake(site: Site) -> None:
    alert = bytes((2, AlertDescription.handshake_failure))
    shake_half(site, record(ContentType.alert, alert))
    site.await_failure("the peer refused with an alert")


def test_data_before_finished(site: Site) -> None:
    received = shake_half(site, record(ContentType.application_data, HELLO))
    assert has_alert(received, AlertDescription.unexpected_message), received
    site.await_failure("the TLS handshake failed")


def test_floods_in_handshake(site: Site) -> None:
    empty = record(ContentType.handshake, b"") * 5000
    warnings = record(ContentType.alert, bytes((1, AlertDescription.user_canceled))) * 5000
    ciphers = record(ContentType.change_cipher_spec, b"\x01") * 60_000
    for flood in (empty, warnings, ciphers):
        raw_exchange(site, sent=flood)
        site.await_failure("the TLS handshake failed")
        raw_exchange(site, sent=client_hello() + flood)
        site.await_failure("the TLS handshake failed")


def test_wrong_finished(site: Site) -> None:
    with site.connect() as raw:
        peer = TLSConnection(raw)
        peer.fault = Fault.badFinished  # raises an error unless the alert is decrypt_error
        peer.handshakeClientCert(settings=settings_for(TLS_1_2))
        assert peer.closed
    site.await_failure("the TLS handshake failed")


def test_corrupted_handshake(site: Site) -> None:
    for version in (TLS_1_2, TLS_1_3):
        with site.connect() as raw:
            wire = Tampering(raw)

            def change_later(data: bytes, wire: Tampering = wire) -> bytes:
                wire.change = flip_last_bit
                return data

            wire.change = change_later
            peer = TLSConnection(wire)
            peer.closeSocket = False
            with contextlib.suppress(TLSError, ConnectionError):
                peer.handshakeClientCert(settings=settings_for(version))
            rest_of(raw)
        site.await_failure("the TLS handshake failed")


# --- Established connections ---


def test_truncated_body(site: Site) -> None:
    for version in (TLS_1_2, TLS_1_3):
        for is_announced in (False, True):
            with connected(site, version) as (peer, wire):
                peer.write(UPLOAD)
                if is_announced:
                    send_message(peer, Alert().create(AlertDescription.close_notify, 1))
                wire.inner.shutdown(socket.SHUT_WR)
                answer = rest_of(wire.inner)
                assert b"HTTP/1.1 200" not in answer
            site.await_failure("body: http::request::next_chunk: the connection ended")


def test_corrupted_record(site: Site) -> None:
    for version in (TLS_1_2, TLS_1_3):
        with connected(site, version) as (peer, wire):
            wire.change = flip_last_bit
            peer.write(HELLO)
            assert ends_with(peer, AlertDescription.bad_record_mac)


def test_oversized_ciphertext(site: Site) -> None:
    for version in (TLS_1_2, TLS_1_3):
        with connected(site, version) as (peer, _):
            send_record(peer, ApplicationData().create(bytes(20_000)))
            assert ends_with(peer, AlertDescription.record_overflow)


def test_renegotiation(site: Site) -> None:
    """The server refuses it; whether the connection then ends is its choice."""
    with connected(site, TLS_1_2) as (peer, _):
        hello = client_hello(ssl.TLSVersion.TLSv1_2)[5:]
        for _ in range(20):
            with contextlib.suppress(ConnectionError):
                send_message(peer, Message(ContentType.handshake, bytearray(hello)))
        refusals = (AlertDescription.no_renegotiation, AlertDescription.handshake_failure)
        assert ends_with(peer, *refusals)


def test_empty_records(site: Site) -> None:
    for version in (TLS_1_2, TLS_1_3):
        with connected(site, version) as (peer, _):
            with contextlib.suppress(ConnectionError):
                for _ in range(EMPTY_RECORDS):
                    send_record(peer, ApplicationData().create(bytearray()))
            assert ends_with(peer, AlertDescription.unexpected_message)


def test_key_updates(site: Site) -> None:
    """They are answered, but a flood of them without data ends the connection."""
    for count, is_answered in ((KEY_UPDATES, True), (20 * KEY_UPDATES, False)):
        with connected(site, TLS_1_3) as (peer, _):
            answer = bytearray()
            with contextlib.suppress(ConnectionError, TLSError):
                for _ in range(count):
                    for _ in peer.send_keyupdate_request(KeyUpdateMessageType.update_requested):
                        pass
                peer.sock.flush()
                peer.write(HELLO)
                answer = peer.read(min=1)
            assert answer.startswith(b"HTTP/1.1 200 ") == is_answered


def test_split_message(site: Site) -> None:
    """A part of a KeyUpdate comes with a request: its answer waits for the rest, or for an end."""
    key_update = bytearray([24, 0, 0, 1, KeyUpdateMessageType.update_not_requested])
    rest = Message(ContentType.handshake, key_update[4:])
    close_notify = Alert().create(AlertDescription.close_notify, AlertLevel.warning)
    for then in (rest, close_notify, None):
        with connected(site, TLS_1_3) as (peer, _):
            peer.sock.buffer_writes = True
            for part in (
                ApplicationData().create(bytearray(HELLO)),
                Message(ContentType.handshake, key_update[:4]),
            ):
                for _ in peer._recordLayer.sendRecord(part):
                    pass
            peer.sock.flush()
            assert site.ask("GET", "/hello") == "hello"  # so that the server has read the part
            if then:
                send_record(peer, then)
            if then is rest:
                assert peer.read(min=1).startswith(b"HTTP/1.1 200 ")
            elif then is close_notify:
                assert ends_with(peer)


def test_early_close_notify(site: Site) -> None:
    """This peer keeps the rules: it asks for the close, ends its side, and reads the answer."""
    body = bytes(60_000)
    head = f"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    with connected(site, TLS_1_3, receive_buffer=4096) as (peer, _):
        peer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        assert site.ask("GET", "/hello") == "hello"  # so that the server has answered
        send_record(peer, Alert().create(AlertDescription.close_notify, AlertLevel.warning))
        answer = bytearray()
        while part := peer.read(max=65536, min=1):
            answer += part
        assert answer.endswith(body)


# --- A client of gyre ---


def test_client(site: Site, folder: Path) -> None:
    chain = X509CertChain()
    chain.parsePemList((folder / "server.pem").read_text())
    key = parsePEMKey((folder / "server.key").read_text(), private=True)

    def outcome(misbehave: Callable[[Tampering], None]) -> str:
        """The outcome of a request to a server that does that with its connection."""
        failures: list[BaseException] = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(PATIENCE)

            def serve() -> None:
                try:
                    raw, _ = listener.accept()
                    with raw:
                        raw.settimeout(PATIENCE)
                        misbehave(Tampering(raw))
                except BaseException as error:
                    failures.append(error)

            server = threading.Thread(target=serve)
            server.start()
            url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
            text = site.ask("POST", "/fetch", url.encode())
            server.join()
        assert not failures, failures[0]
        return text

    def answered(version: tuple[int, int], wire: Tampering) -> TLSConnection:
        peer = TLSConnection(wire)
        peer.handshakeServer(
            certChain=chain, privateKey=key, settings=settings_for(version), alpn=OFFERED
        )
        assert peer.read(min=1).startswith(b"GET / ")
        peer.write(b"HTTP/1.1 200 OK\r\n\r\nthe body")
        return peer

    for version in (TLS_1_2, TLS_1_3):

        def end(wire: Tampering, version: tuple[int, int] = version) -> None:
            answered(version, wire).close()

        def cut(wire: Tampering, version: tuple[int, int] = version) -> None:
            answered(version, wire)
            wire.inner.shutdown(socket.SHUT_WR)

        def corrupt(wire: Tampering, version: tuple[int, int] = version) -> None:
            peer = answered(version, wire)
            wire.change = flip_last_bit
            peer.write(b"more")
            rest_of(wire.inner)

        assert outcome(end) == "got the body"
        assert "ended without close_notify" in outcome(cut)
        assert "the peer has sent a bad record" in outcome(corrupt)

    def finish_wrongly(wire: Tampering) -> None:
        peer = TLSConnection(wire)
        peer.fault = Fault.badFinished
        with contextlib.suppress(TLSError):
            peer.handshakeServer(
                certChain=chain, privateKey=key, settings=settings_for(TLS_1_2), alpn=OFFERED
            )

    def answer_with(sent: bytes) -> Callable[[Tampering], None]:
        def misbehave(wire: Tampering) -> None:
            wire.recv(65536)
            wire.sendall(sent)

        return misbehave

    assert outcome(finish_wrongly).startswith("failed: ")
    alert = record(ContentType.alert, bytes((2, AlertDescription.handshake_failure)))
    endless = record(ContentType.handshake, b"\x02\xff\xff\xff" + bytes(16_000))
    for sent in (b"", bytes(1000), b"HTTP/1.1 400 Bad Request\r\n\r\n", alert, endless):
        assert outcome(answer_with(sent)).startswith("failed: "), sent


def test_unfinished_handshakes(folder: Path, *own: str) -> None:
    """They end at the time limit of a server that peers in pure Python might exceed, too."""
    with serving(sys.argv[1], "--time-limit", "5000", str(folder), *own) as server:
        site = Site(server, folder / "authority.pem")
        silent, slow = site.connect(), site.connect()
        slow.sendall(client_hello()[:100])
        for peer in (silent, slow):
            assert rest_of(peer) == b""
            peer.close()
        site.await_failure("the TLS handshake was not done in time")


def main() -> int:
    if not shutil.which("openssl"):
        print("left out: openssl is not installed")
        return 77
    tests = [
        test_garbage,
        test_truncated_hello,
        test_reset,
        test_oversized_record,
        test_endless_hello,
        test_old_version,
        test_slow_hello,
        test_alert_in_handshake,
        test_data_before_finished,
        test_floods_in_handshake,
        test_wrong_finished,
        test_corrupted_handshake,
        test_truncated_body,
        test_corrupted_record,
        test_oversized_ciphertext,
        test_renegotiation,
        test_empty_records,
        test_key_updates,
        test_split_message,
        test_early_close_notify,
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_certificates(folder)
        own = (str(folder / "server.pem"), str(folder / "server.key"))
        with serving(sys.argv[1], name, *own) as server:
            site = Site(server, folder / "authority.pem")
            assert site.ask("GET", "/hello") == "hello"
            before = server.open_descriptors()
            for test in tests:
                start = time.monotonic()
                test(site)
                assert site.ask("GET", "/hello") == "hello", test.__name__
                print(f"{test.__name__}: {time.monotonic() - start:.2f} s")
            test_client(site, folder)
            end = time.monotonic() + PATIENCE
            while server.open_descriptors() != before:
                assert time.monotonic() < end, "the server has lost descriptors"
                site.ask("GET", "/hello")
            peak = int(site.ask("GET", "/peak"))
            assert peak < MOST_MEMORY_KIB or IS_SANITIZED, f"{peak} KiB"
        test_unfinished_handshakes(folder, *own)
    return 0


if __name__ == "__main__":
    sys.exit(main())
