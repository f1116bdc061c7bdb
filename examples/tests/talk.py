# SPDX-License-Identifier: Apache-2.0
"""Talks to an example that serves the network, and ends it in good order.

    python3 talk.py NAME PROGRAM

Starts PROGRAM on a port of the kernel's choice and does with it what the function NAME says. Fails
by an exception: when the program answers otherwise, is silent for a minute, or does not end with
status 0 when asked to by SIGTERM.
"""

import contextlib
import ctypes
import errno
import gzip
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PATIENCE = 60.0
socket.setdefaulttimeout(PATIENCE)


class Program:
    """A running example. Leaving the context ends the example and checks its exit status."""

    def __init__(self, *command: str, before: Callable[[], None] | None = None) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, preexec_fn=before
        )
        self.asked = False
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), f"{command[0]} said {line!r}"
        places = re.findall(r"(127\.0\.0\.1):(\d+)", line)
        self.addresses = [(host, int(port)) for host, port in places]

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is not None:
            self.process.kill()
        else:
            self.end()
        self.process.wait()
        self.process.stdout.close()

    def ask_to_end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.asked = True

    def end(self) -> None:
        if not self.asked:
            self.ask_to_end()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert status == 0, f"it ended with status {status}"

    def connect(self, own_address: str | None = None) -> socket.socket:
        source = (own_address, 0) if own_address else None
        return socket.create_connection(self.addresses[0], source_address=source)


def receive(peer: socket.socket, size: int) -> bytes:
    """Receives exactly `size` bytes."""
    received = bytearray()
    while len(received) < size:
        part = peer.recv(size - len(received))
        assert part, f"the stream ended after {bytes(received[-100:])!r}"
        received += part
    return bytes(received)


def receive_all(peer: socket.socket) -> bytes:
    """Receives everything until the end of the stream."""
    return b"".join(iter(lambda: peer.recv(65536), b""))


def exchange(peer: socket.socket, sent: bytes) -> None:
    """Sends bytes and expects their echo, sending and receiving at the same time."""
    received = bytearray()
    rest = memoryview(sent)
    peer.setblocking(False)
    while len(received) < len(sent):
        readable, writable, _ = select.select([peer], [peer] if rest else [], [], PATIENCE)
        assert readable or writable, f"{len(received)} of {len(sent)} bytes came back"
        if writable:
            rest = rest[peer.send(rest) :]
        if readable:
            received += peer.recv(1 << 20)
    peer.settimeout(PATIENCE)
    assert received == sent


def listen() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def echo(program: str) -> None:
    with Program(program, "127.0.0.1:0") as server, contextlib.ExitStack() as open_peers:
        peers = [open_peers.enter_context(server.connect()) for _ in range(20)]
        for number, peer in enumerate(peers):
            peer.sendall(b"hello %d" % number)
        for number, peer in enumerate(peers):
            assert receive(peer, len(b"hello %d" % number)) == b"hello %d" % number
        exchange(peers[0], os.urandom(8 << 20))

        peers[1].shutdown(socket.SHUT_WR)
        assert receive_all(peers[1]) == b""
        reset = server.connect()
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.close()
        exchange(peers[2], b"still there")

        server.ask_to_end()
        for peer in peers:
            assert receive_all(peer) == b""


def chat(program: str) -> None:
    with Program(program, "127.0.0.1:0") as server:

        def join(name: bytes) -> socket.socket:
            guest = server.connect()
            assert receive(guest, 13) == b"Who are you?\n"
            guest.sendall(name + b"\n")
            expect(guest, b"* " + name + b" joins\n")
            return guest

        def expect(guest: socket.socket, text: bytes) -> None:
            assert (came := receive(guest, len(text))) == text, came

        with join(b"ann") as ann, join(b"bob") as bob:
            expect(ann, b"* bob joins\n")
            ann.sendall(b"hel")
            ann.sendall(b"lo\r\nhow are you?\n")
            for guest in (ann, bob):
                expect(guest, b"ann: hello\nann: how are you?\n")
            bob.shutdown(socket.SHUT_WR)
            expect(ann, b"* bob leaves\n")

            # Carl never reads until he is disconnected; Ann reads all her lines.
            carl = join(b"carl")
            expect(ann, b"* carl joins\n")
            said = b"ann: " + b"x" * 4000 + b"\n"
            while True:
                ann.sendall(said.removeprefix(b"ann: "))
                if receive(ann, 5) != said[:5]:
                    expect(ann, b"l is lost: ")
                    while ann.recv(1) != b"\n":
                        pass
                    expect(ann, said)
                    break
                expect(ann, said[5:])
            carl.close()

            # A line without an end affects only its sender.
            with join(b"dora") as dora:
                dora.sendall(b"x" * 5000)
                with contextlib.suppress(ConnectionResetError):
                    receive_all(dora)


def proxy(program: str) -> None:
    with listen() as target:
        host, port = target.getsockname()
        with Program(program, "127.0.0.1:0", f"{host}:{port}") as server:
            # The end of each direction is forwarded separately.
            with server.connect() as client:
                inside, _ = target.accept()
                with inside:
                    client.sendall(b"question")
                    client.shutdown(socket.SHUT_WR)
                    assert receive_all(inside) == b"question"
                    inside.sendall(b"answer")
                    inside.shutdown(socket.SHUT_WR)
                    assert receive_all(client) == b"answer"

            # While one side does not read, the other side's writes block at some point.
            with server.connect() as client:
                inside, _ = target.accept()
                with inside:
                    block = os.urandom(1 << 20)
                    sent = 0
                    client.setblocking(False)
                    while select.select([], [client], [], 0.1)[1]:
                        sent += client.send(block[sent % len(block) :])
                        assert sent < 64 << 20, "it takes whatever it gets"
                    client.shutdown(socket.SHUT_WR)
                    came = receive_all(inside)
                    assert came == (block * (sent // len(block) + 1))[:sent]

            # The proxy cannot connect: the client gets the end of the stream.
            target.close()
            with server.connect() as client, contextlib.suppress(ConnectionResetError):
                assert receive_all(client) == b""


def without_openat2() -> None:
    """Makes openat2(2) fail in this process as if the kernel lacked it, from now on."""
    load_number, is_equal, answer = 0x20, 0x15, 0x06
    errno_of, allow = 0x00050000, 0x7FFF0000
    program = b"".join(
        struct.pack("HBBI", *each)
        for each in (
            (load_number, 0, 0, 0),
            (is_equal, 0, 1, 437),
            (answer, 0, 0, errno_of | errno.ENOSYS),
            (answer, 0, 0, allow),
        )
    )
    code = ctypes.create_string_buffer(program)
    filters = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, seccomp, filtered = 38, 22, 2
    assert prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert prctl(seccomp, filtered, filters, 0, 0) == 0, os.strerror(ctypes.get_errno())


def file_server(program: str) -> None:
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above, "folder")
        (folder / "sub").mkdir(parents=True)
        content = os.urandom(300_000)
        (folder / "sub" / "random").write_bytes(content)
        (folder / "index.html").write_bytes(b"<p>hello")
        Path(above, "secret").write_bytes(b"secret")
        os.mkfifo(folder / "pipe")
        (folder / "out").symlink_to(Path(above, "secret"))
        with (folder / "large").open("wb") as large:
            large.truncate(32 << 20)

        def get(server: Program, target: str) -> tuple[bytes, bytes]:
            with server.connect() as client:
                client.sendall(f"GET {target} HTTP/1.0\r\nHost: here\r\n\r\n".encode())
                head, _, body = receive_all(client).partition(b"\r\n\r\n")
                assert head.endswith(b"Content-Length: %d" % len(body)), head
                return head.split(b" ")[1], body

        def check_files(server: Program) -> None:
            assert get(server, "/sub/random") == (b"200", content)
            assert get(server, "/") == (b"200", b"<p>hello")
            # Opening a pipe does not block, and a link does not lead out of the folder.
            for path in ("/nothing", "/sub", "/sub/", "/pipe", "/out", "/" + "x" * 4000):
                assert get(server, path) == (b"404", b""), path
            for path in ("/../secret", "/sub/../../secret", "/sub/../..", f"{above}/secret"):
                status, body = get(server, path)
                assert status in (b"400", b"404") and body == b"", path
            assert get(server, "no/slash")[0] == b"400"

        with Program(program, str(folder), "127.0.0.1:0", before=without_openat2) as server:
            check_files(server)

        with Program(program, str(folder), "127.0.0.1:0") as server:
            check_files(server)

            # Descriptors for the connection, but not for a file.
            process = server.process.pid
            limits = resource.prlimit(process, resource.RLIMIT_NOFILE)
            used = {int(each.name) for each in Path(f"/proc/{process}/fd").iterdir()}
            free = min(set(range(len(used) + 1)) - used)
            resource.prlimit(process, resource.RLIMIT_NOFILE, (free + 1, limits[1]))
            assert get(server, "/") == (b"503", b"")
            # Idle clients do not exhaust the descriptors: further clients wait.
            resource.prlimit(process, resource.RLIMIT_NOFILE, (450, limits[1]))
            with contextlib.ExitStack() as silent:
                for i in range(499):
                    silent.enter_context(server.connect(f"127.0.0.{2 + i % 5}"))
                last = server.connect()
            with last:
                last.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert receive_all(last).endswith(b"<p>hello")
            resource.prlimit(process, resource.RLIMIT_NOFILE, limits)

            # A client that sends requests and reads nothing leaves slots for the others.
            with contextlib.ExitStack() as greedy:
                for _ in range(450):
                    client = greedy.enter_context(server.connect("127.0.0.9"))
                    with contextlib.suppress(ConnectionError):
                        client.sendall(b"GET /large HTTP/1.0\r\n\r\n")
                others = server.connect()
                others.settimeout(50)  # less than the server's time limit for slow clients
                with others:
                    others.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    assert receive_all(others).endswith(b"<p>hello")
                assert len(list(Path(f"/proc/{process}/fd").iterdir())) < 300

            # A download that has begun is finished.
            with server.connect() as client:
                client.sendall(b"GET /large HTTP/1.0\r\n\r\n")
                begin = client.recv(1000)
                server.ask_to_end()
                assert len(begin + receive_all(client)) > 32 << 20


def udp_echo(program: str) -> None:
    with (
        Program(program, "127.0.0.1:0") as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        client.connect(server.addresses[-1])
        datagrams = [b"", b"hello", os.urandom(60_000), *(b"%d" % i for i in range(60))]
        for datagram in datagrams:
            client.send(datagram)
        assert [client.recv(65536) for _ in datagrams] == datagrams


def time_server(program: str) -> None:
    def check(told: bytes) -> None:
        (seconds,) = struct.unpack(">I", told)
        assert abs(seconds - 2_208_988_800 - time.time()) < 60, seconds

    with Program(program, "127.0.0.1:0") as server:
        with server.connect() as client:
            check(receive_all(client))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(server.addresses[-1])
            client.send(b"")
            check(client.recv(100))


def socks5_proxy(program: str) -> None:
    with Program(program, "127.0.0.1:0") as server, listen() as target:
        port = target.getsockname()[1]
        ipv4 = b"\x01" + socket.inet_aton("127.0.0.1")

        def ask(address: bytes, port: int, command: int = 1) -> tuple[socket.socket, bytes]:
            client = server.connect()
            client.sendall(b"\x05\x02\x00\x02")
            assert receive(client, 2) == b"\x05\x00"
            client.sendall(bytes([5, command, 0]) + address + struct.pack(">H", port))
            reply = receive(client, 4)
            receive(client, (4 if reply[3] == 1 else 16) + 2)
            return client, reply

        def refused(address: bytes, port: int, command: int = 1) -> int:
            client, reply = ask(address, port, command)
            with client, contextlib.suppress(ConnectionResetError):
                assert receive_all(client) == b""
            return reply[1]

        for address in (ipv4, b"\x03\x09localhost", b"\x03\x09127.0.0.1"):
            client, reply = ask(address, port)
            assert reply == b"\x05\x00\x00\x01", reply
            inside, _ = target.accept()
            with client, inside:
                client.sendall(b"question")
                client.shutdown(socket.SHUT_WR)
                assert receive_all(inside) == b"question"
                inside.sendall(b"answer")
                inside.shutdown(socket.SHUT_WR)
                assert receive_all(client) == b"answer"

        with (
            contextlib.suppress(OSError),
            socket.create_server(("::1", 0), family=socket.AF_INET6) as target6,
        ):
            address = b"\x04" + socket.inet_pton(socket.AF_INET6, "::1")
            client, reply = ask(address, target6.getsockname()[1])
            client.close()
            assert reply == b"\x05\x00\x00\x04", reply

        with listen() as gone:
            closed_port = gone.getsockname()[1]
        assert refused(ipv4, closed_port) == 5
        assert refused(b"\x03\x40" + b"x" * 64, port) == 4  # too long for a label of a name
        assert refused(b"\x03\x0clocalhost\0ab", port) == 4
        assert refused(ipv4, port, command=2) == 7
        assert refused(b"\x02", port) == 8
        with server.connect() as client:
            client.sendall(b"\x05\x01\x02")
            assert receive_all(client) == b"\x05\xff"


def http(server: Program) -> contextlib.closing:
    host, port = server.addresses[0]
    return contextlib.closing(HTTPConnection(host, port, timeout=PATIENCE))


class WebSocketPeer:
    """A client of a WebSocket whose messages are short texts."""

    def __init__(self, server: Program, path: str, origin: str | None = None) -> None:
        self.socket = server.connect()
        host, port = server.addresses[0]
        fields = {
            "Host": f"{host}:{port}",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        if origin:
            fields["Origin"] = origin
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields)]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += receive(self.socket, 1)
        self.status = int(head.split()[1])

    def __enter__(self) -> "WebSocketPeer":
        assert self.status == 101, self.status
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, text: str | bytes, opcode: int = 1) -> None:
        payload = text.encode() if isinstance(text, str) else text
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0xFE, size)
        mask = os.urandom(4)
        masked = bytes(each ^ mask[i % 4] for i, each in enumerate(payload))
        self.socket.sendall(bytes([0x80 | opcode]) + length + mask + masked)

    def receive(self) -> tuple[int, bytes]:
        """The opcode of the next frame, and its payload."""
        first, size = receive(self.socket, 2)
        if size == 126:
            (size,) = struct.unpack(">H", receive(self.socket, 2))
        return first & 0x0F, receive(self.socket, size)

    def text(self) -> str:
        opcode, payload = self.receive()
        assert opcode == 1, (opcode, payload)
        return payload.decode()

    def end(self, code: int) -> None:
        """Expects the other side's Close frame, and closes."""
        opcode, payload = self.receive()
        assert opcode == 8 and payload[:2] == struct.pack(">H", code), (opcode, payload)
        self.send(payload[:2], 8)
        assert receive_all(self.socket) == b""


def web_chat(program: str) -> None:
    with Program(program, "127.0.0.1:0") as server, contextlib.ExitStack() as open_peers:

        def join(name: str, after: str = "0") -> WebSocketPeer:
            peer = WebSocketPeer(server, f"/chat?name={name}&after={after}")
            return open_peers.enter_context(peer)

        with http(server) as client:
            client.request("GET", "/")
            assert b"new WebSocket(url)" in client.getresponse().read()
        ada, bob = join("Ada%09L"), join("B%C3%B6b")
        ada.send("key1\thello\tall <b>")
        numbers = []
        for peer in ada, bob:
            number, *rest = peer.text().split("\t", 3)
            numbers.append(int(number))
            assert rest == ["key1", "Ada L", "hello\tall <b>"], rest
        assert numbers[0] == numbers[1]
        # A line that is sent again is shown once.
        bob.send("key1\thello\tall <b>")
        bob.send("key2\tsecond")
        second = ada.text()
        assert second == f"{numbers[0] + 1}\tkey2\tB\u00f6b\tsecond" == bob.text()
        # A guest that comes back gets the lines that it has missed.
        with WebSocketPeer(server, f"/chat?name=Eve&after={numbers[0]}") as eve:
            assert eve.text() == second
        with WebSocketPeer(server, "/chat?name=Eve") as eve:
            eve.text()
            assert eve.text() == second
        origin = "http://{}:{}".format(*server.addresses[0])
        for path, own_origin, status in (
            ("/chat", None, 400),
            ("/chat?name=", None, 400),
            ("/chat?name=" + 81 * "x", None, 400),
            ("/chat?name=x&after=-1", None, 400),
            ("/chat?name=x", "http://example.org", 403),
            ("/chat?name=x", origin, 101),
        ):
            refused = WebSocketPeer(server, path, own_origin)
            assert refused.status == status, (path, refused.status)
            refused.socket.close()
        for message, opcode in ("no key", 1), ("\tno key", 1), (65 * "k" + "\t", 1), ("a\tb", 2):
            wrong = join("Eve", str(numbers[0] + 1))
            wrong.send(message, opcode)
            wrong.end(1008)
        server.ask_to_end()
        for peer in ada, bob:
            peer.end(1001)


def hello_http(program: str) -> None:
    with Program(program, "127.0.0.1:0") as server, http(server) as client:
        for name, status, text in ("Ada", 200, b"Hello, Ada\n"), ("", 404, None):
            client.request("GET", "/hello/" + name)
            answer = client.getresponse()
            body = answer.read()
            assert answer.status == status and text in (body, None), (name, answer.status, body)
    refused = subprocess.run([program, "nowhere"], capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 1 and "'nowhere'" in refused.stderr, refused


def static_site(program: str) -> None:
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above, "folder")
        (folder / "sub").mkdir(parents=True)
        content = os.urandom(3_000_000)
        (folder / "sub" / "random").write_bytes(content)
        for number in range(100):
            (folder / "sub" / f"<{number}>.txt").write_bytes(b"")
        (folder / "index.html").write_bytes(b"<p>hello")
        Path(above, "secret").write_bytes(b"secret")
        (folder / "out").symlink_to(Path(above, "secret"))

        with Program(program, str(folder), "127.0.0.1:0") as server, http(server) as client:

            def get(target: str, **fields: str) -> tuple[int, bytes, HTTPResponse]:
                client.request("GET", target, headers=fields)
                answer = client.getresponse()
                return answer.status, answer.read(), answer

            assert get("/")[:2] == (200, b"<p>hello")
            assert get("/sub/random")[:2] == (200, content)
            assert get("/sub/random", Range="bytes=10-19")[:2] == (206, content[10:20])
            assert get("/sub/random", Range="bytes=-1")[:2] == (206, content[-1:])
            assert get("/sub/random", Range="bytes=3000000-")[0] == 416
            status, parts, answer = get("/sub/random", Range="bytes=0-9,20-29")
            assert status == 206 and content[:10] in parts and content[20:30] in parts
            assert answer.headers["Content-Type"].startswith("multipart/byteranges")
            tag = get("/")[2].headers["ETag"]
            assert get("/", **{"If-None-Match": tag})[:2] == (304, b"")
            status, _, answer = get("/sub")
            assert status == 301 and answer.headers["Location"] == "./sub/"
            status, page, answer = get("/sub/", **{"Accept-Encoding": "gzip"})
            assert answer.headers["Content-Encoding"] == "gzip"
            assert b"&lt;7&gt;.txt" in gzip.decompress(page)
            for path in ("/none", "/out", "/../secret", "/%2e%2e/secret", "/sub/..%2f..%2fsecret"):
                assert get(path)[0] == 404, path


def ticker(program: str) -> None:
    with Program(program, "127.0.0.1:0") as server, http(server) as client:
        client.request("GET", "/")
        assert b"EventSource" in client.getresponse().read()
        client.request("GET", "/ticks", headers={"Last-Event-ID": "41"})
        events = client.getresponse()
        assert events.headers["Content-Type"] == "text/event-stream"
        assert events.read(2 * 17) == b"id: 42\ndata: 42\n\nid: 43\ndata: 43\n\n"
        server.ask_to_end()
        events.read()  # a whole end: else this raises IncompleteRead


class Backend(ThreadingHTTPServer):
    """A server of two resources: /health, and all others, which tell what they were asked."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer(200 if self.server.healthy or self.path != "/health" else 503)

        def do_POST(self) -> None:
            self.answer(201)

        def answer(self, status: int) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            peer = self.headers["X-Forwarded-For"]
            body = f"{self.server.name} {self.command} {self.path} {peer} ".encode() + sent
            self.send_response(status)
            self.send_header("X-Name", self.server.name)
            self.send_header("X-Got", " ".join(self.headers.keys()))
            self.send_header("Connection", "keep-alive, X-Hop")
            self.send_header("Connection", ",x-other ,")
            self.send_header("X-Hop", "1")
            self.send_header("X-Other", "1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), Backend.Handler)
        self.name = name
        self.healthy = True
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


def reverse_proxy(program: str) -> None:
    first, second = Backend("first"), Backend("second")
    with Program(program, "127.0.0.1:0", first.url, second.url) as server, http(server) as client:

        def ask(method: str, path: str, body: bytes = b"") -> tuple[int, str | None, bytes]:
            client.request(method, path, body)
            answer = client.getresponse()
            return answer.status, answer.headers["X-Name"], answer.read()

        def names() -> set[str | None]:
            return {ask("GET", "/a?b=c")[1] for _ in range(4)}

        def until(expected: set[str | None]) -> None:
            ends_at = time.monotonic() + PATIENCE
            while names() != expected:
                assert time.monotonic() < ends_at, f"it never asked {expected}"

        until({"first", "second"})  # both are found healthy
        status, name, body = ask("POST", "/a?b=c", b"sent")
        assert status == 201
        assert body == f"{name} POST /a?b=c 127.0.0.1 sent".encode()
        # Fields that Connection names end at the proxy, both ways.
        hop = {"Connection": ", X-Mine,x-yours", "X-Mine": "1", "X-Yours": "1", "X-Kept": "1"}
        client.request("GET", "/", headers=hop)
        answer = client.getresponse()
        answer.read()
        got = answer.headers["X-Got"].split()
        assert "X-Kept" in got and not {"X-Mine", "X-Yours", "Connection"} & set(got)
        assert answer.headers["X-Hop"] is None and answer.headers["X-Other"] is None
        second.healthy = False
        until({"first"})
        second.healthy = True
        first.healthy = False
        until({"second"})
        second.healthy = False
        until({None})
        assert ask("GET", "/")[0] == 502
        second.healthy = True
        until({"second"})
    for each in first, second:
        each.shutdown()
        each.server_close()


def make_certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1, and its key."""
    certificate, key = str(folder / "server.pem"), str(folder / "server.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=notes"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def notes(program: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder, "notes"))

        def ask(
            client: HTTPConnection, method: str, path: str, note: object = None
        ) -> tuple[int, object, str | None]:
            body = None if note is None else json.dumps(note)
            client.request(method, path, body)
            answer = client.getresponse()
            text = answer.read()
            is_json = answer.headers["Content-Type"] == "application/json"
            return answer.status, json.loads(text) if is_json else None, answer.headers["Location"]

        milk = {"id": 1, "text": 'milk "and" <b>'}
        with Program(program, database, "127.0.0.1:0") as server, http(server) as client:
            assert ask(client, "GET", "/notes") == (200, [], None)
            added = ask(client, "POST", "/notes", {"text": milk["text"]})
            assert added == (201, None, "/notes/1")
            assert ask(client, "GET", "/notes/1") == (200, milk, None)
            assert ask(client, "POST", "/notes", {"text": "'; DROP TABLE notes; --"})[0] == 201
            assert len(ask(client, "GET", "/notes")[1]) == 2
            changed = {"id": 2, "text": "bread"}
            assert ask(client, "PUT", "/notes/2", {"text": "bread"}) == (200, changed, None)
            for bad in ({}, {"text": None}, [], 7):
                assert ask(client, "POST", "/notes", bad)[0] == 400, bad
            for path in ("/notes/3", "/notes/x", "/notes/1x", "/notes/1%20OR%201"):
                assert ask(client, "GET", path)[0] == 404, path
                assert ask(client, "DELETE", path)[0] == 404, path
            assert ask(client, "DELETE", "/notes")[0] == 405
            assert ask(client, "DELETE", "/notes/2")[0] == 204
        # They outlive the program, and come over TLS, too.
        with Program(program, database, "127.0.0.1:0") as server, http(server) as client:
            assert ask(client, "GET", "/notes") == (200, [milk], None)
        if not shutil.which("openssl"):
            return
        own = make_certificate(Path(folder))
        trusting = ssl.create_default_context(cafile=own[0])
        with Program(program, database, "127.0.0.1:0", *own) as server:
            host, port = server.addresses[0]
            with contextlib.closing(HTTPSConnection(host, port, context=trusting)) as client:
                assert ask(client, "GET", "/notes") == (200, [milk], None)


def bookshelf(program: str) -> None:
    origin = "https://app.example.org"
    token = {"Authorization": "Bearer s3cret"}

    def ask(
        client: HTTPConnection,
        method: str,
        path: str,
        body: str | bytes | None = None,
        **fields: str,
    ) -> tuple[int, object]:
        kind = {"Content-Type": "application/json"} if body is not None else {}
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        client.request(method, path, body, {**kind, **named})
        answer = client.getresponse()
        text = answer.read().decode()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(text) if is_json else text

    os.environ["BOOKSHELF_TOKEN"] = "s3cret"
    dune = {"title": "Dune \u00fc \"", "year": 1965}
    with Program(program, "127.0.0.1:0", origin) as server, http(server) as client:
        assert ask(client, "GET", "/api/books") == (200, [])
        added = ask(client, "POST", "/api/books", json.dumps(dune), **token)
        assert added == (201, {**dune, "id": 1}), added
        assert ask(client, "POST", "/api/books", '{"title":"A","year":2000}', **token)[0] == 201
        assert ask(client, "GET", "/api/books/1") == (200, {**dune, "id": 1})
        books = ask(client, "GET", "/api/books?by=title&page=1")[1]
        assert [book["id"] for book in books] == [2, 1], books
        books = ask(client, "GET", "/api/books?by=year")[1]
        assert [book["id"] for book in books] == [1, 2], books
        for path, text in (
            ("/api/books/x", "The parameter 'id' must be an integer from 0 to"),
            ("/api/books?by=size", "The parameter 'by' must be one of title, year."),
            ("/api/books?page=0", "The parameter 'page' must be at least 1."),
            ("/api/books?page=65536", "The parameter 'page' must be an integer from 0 to 65535."),
        ):
            status, answer = ask(client, "GET", path)
            assert status == 400 and answer.startswith(text), (path, answer)
        # A client that must not, and bodies that are no books.
        for fields in ({}, {"Authorization": "Bearer other"}):
            assert ask(client, "POST", "/api/books", json.dumps(dune), **fields)[0] == 401
            assert ask(client, "DELETE", "/api/books/1", **fields)[0] == 401
        for status, body in (
            (400, "{"),
            (400, ""),
            (400, '{"title": "A", "year": 1'),
            (400, b'{"title": "\xff", "year": 1}'),
            (400, "[" * 500_000),
            (422, "[" * 500_000 + "]" * 500_000),
            (422, "7"),
            (422, "[]"),
            (422, '{"title": 1, "year": 1}'),
            (422, '{"year": 1}'),
        ):
            answer = ask(client, "POST", "/api/books", body, **token)
            assert answer[0] == status, (body[:40], answer)
        plain = ask(client, "POST", "/api/books", json.dumps(dune), Content_Type="text/plain", **token)
        assert plain[0] == 415, plain
        # A page of the known origin, and another one.
        client.request(
            "OPTIONS",
            "/api/books/1",
            headers={"Origin": origin, "Access-Control-Request-Method": "DELETE"},
        )
        answer = client.getresponse()
        answer.read()
        assert answer.status == 204 and answer.headers["Access-Control-Allow-Origin"] == origin
        assert "DELETE" in answer.headers["Access-Control-Allow-Methods"]
        client.request("GET", "/api/books/none", headers={"Origin": origin})
        answer = client.getresponse()
        answer.read()
        assert answer.status == 400 and answer.headers["Access-Control-Allow-Origin"] == origin
        client.request("GET", "/api/books/1", headers={"Origin": "https://evil.example"})
        answer = client.getresponse()
        answer.read()
        assert answer.status == 200 and answer.headers["Access-Control-Allow-Origin"] is None
        assert ask(client, "DELETE", "/api/books/1", **token) == (200, "removed by editor\n")
        assert ask(client, "DELETE", "/api/books/1", **token)[0] == 404


if __name__ == "__main__":
    {
        each.__name__: each
        for each in (
            hello_http,
            echo,
            chat,
            proxy,
            file_server,
            udp_echo,
            time_server,
            socks5_proxy,
            static_site,
            ticker,
            reverse_proxy,
            notes,
            bookshelf,
            web_chat,
        )
    }[sys.argv[1]](sys.argv[2])
