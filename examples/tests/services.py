# SPDX-License-Identifier: Apache-2.0
"""Talks to an example that needs PostgreSQL and Redis, which it starts, kills and starts again.

    python3 services.py NAME PROGRAM

Fails by an exception, as talk.py does.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path

from talk import PATIENCE, Program, WebSocketPeer, make_certificate, receive_all

# Long, so that a busy machine is not taken for a database that does not answer.
STATEMENT_TIMEOUT = 60_000


def wait_until(is_done: Callable[[], bool], reason: str) -> None:
    ends_at = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < ends_at, f"it never came true that {reason}"
        time.sleep(0.01)


class Server:
    """A server in a temporary folder. It ends with the context, and with this process."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        self.folder = Path(tempfile.mkdtemp(prefix="gyre_"))
        if user:
            shutil.chown(self.folder, user)
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, command: list[str]) -> subprocess.Popen:
        missing = f"{command[0]} is missing: run tools/setup test"
        assert shutil.which(command[0]), missing
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user else None,
            )

    def launch(self, command: list[str], is_ready: Callable[[], bool]) -> None:
        """Runs the server until it is ready; again if it ends before, as after a kill it may."""
        ends_at = time.monotonic() + PATIENCE
        self.process = self.run(command)
        while not is_ready():
            if self.process.poll() is not None:
                self.process = self.run(command)
            assert time.monotonic() < ends_at, (self.folder / "log").read_text()
            time.sleep(0.01)

    def end(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Redis(Server):
    def __init__(self) -> None:
        super().__init__(None)
        self.socket = str(self.folder / "redis.sock")
        self.address = f"unix:{self.socket}"

    def start(self) -> None:
        command = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", ""]
        self.launch([*command, "--dir", str(self.folder)], self.is_ready)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
            peer.connect(self.socket)
            peer.sendall(b"PING\r\n")
            return peer.recv(5) == b"+PONG"
        return False


class Postgres(Server):
    def __init__(self) -> None:
        super().__init__("postgres" if os.geteuid() == 0 else None)
        newest = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parts)
        assert newest, "there is no /usr/lib/postgresql/*/bin: run tools/setup test"
        self.programs = newest[-1]
        host = str(self.folder)
        self.url = f"postgresql://postgres@/postgres?host={host}"
        self.patient_url = f"{self.url}&statement_timeout={STATEMENT_TIMEOUT}"
        self.psql = ["psql", "--host", host, "--username", "postgres", "--no-psqlrc", "-qAt"]
        self.data = self.folder / "data"
        made = self.run(
            [
                *(str(self.programs / "initdb"), f"--pgdata={self.data}", "--username=postgres"),
                *("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"),
            ]
        ).wait()
        assert made == 0, (self.folder / "log").read_text()

    def start(self) -> None:
        settings = {
            "unix_socket_directories": self.folder,
            "listen_addresses": "",
            "fsync": "off",
            "shared_buffers": "8MB",
            "dynamic_shared_memory_type": "mmap",
        }
        options = [text for each in settings.items() for text in ("-c", "=".join(map(str, each)))]
        program = str(self.programs / "postgres")
        self.launch([program, "-D", str(self.data), *options], self.is_ready)

    def is_ready(self) -> bool:
        return subprocess.run([*self.psql, "-c", "select 1"], capture_output=True).returncode == 0

    def query(self, text: str) -> str:
        command = [*self.psql, "-v", "ON_ERROR_STOP=1", "-c", text]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    @contextlib.contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """Makes all that use the table wait."""
        with subprocess.Popen(
            self.psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as session:
            session.stdin.write(f"begin;\nlock table {table};\nselect 'locked';\n")
            session.stdin.flush()
            assert session.stdout.readline() == "locked\n"
            yield
            session.stdin.close()

    def end(self) -> None:
        """Kills all processes of the server, as a power failure does."""
        self.process.send_signal(signal.SIGSTOP)  # so that it starts no further ones
        stat = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2][1] in "TZ", "it has stopped")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for process in map(int, children.read_text().split()):
            os.kill(process, signal.SIGKILL)
        super().end()
        # Its segment of shared memory remains, of which a system has few.
        facts = self.data / "postmaster.pid"
        lines = facts.read_text().splitlines() if facts.exists() else []
        if len(lines) > 6 and lines[6].split():
            subprocess.run(["ipcrm", "-m", lines[6].split()[1]], capture_output=True)


class Client:
    """Requests over one connection, which is replaced when it breaks."""

    def __init__(self, connection: HTTPConnection) -> None:
        self.connection = connection

    def ask(
        self, method: str, path: str, body: bytes | str | None = None
    ) -> tuple[int, bytes, HTTPResponse]:
        self.connection.request(method, path, body)
        answer = self.connection.getresponse()
        return answer.status, answer.read(), answer

    def status(self, path: str) -> int:
        return self.ask("GET", path)[0]


def client_of(server: Program) -> Client:
    host, port = server.addresses[0]
    return Client(HTTPConnection(host, port, timeout=PATIENCE))


def check_arguments(program: str, database: str, wrong: dict[str, list[str]]) -> None:
    """Each key of `wrong` is the message about its arguments."""
    for message, arguments in wrong.items():
        ended = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=PATIENCE
        )
        assert ended.returncode == 2, (arguments, ended)
        assert message in ended.stderr and "usage: " in ended.stderr, (arguments, ended)
    asked = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=PATIENCE)
    assert asked.returncode == 0 and "--database" in asked.stdout
    # A wrong URL of a database is told at the start.
    ended = subprocess.run(
        [program, "--listen", "127.0.0.1:0", "--database", database],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 1 and "/nowhere" in ended.stderr, ended


NO_DATABASE = "postgresql://postgres@/postgres?host=/nowhere"


def shortener(program: str) -> None:
    wrong = {
        "--database is missing": [],
        "--database: ": ["--database", "mysql://here"],
        "--listen: ": ["--database", NO_DATABASE, "--listen", "nowhere"],
        "--redis: ": ["--database", NO_DATABASE, "--redis", "300.1.1.1:80"],
        "--key needs a value": ["--database", NO_DATABASE, "--key"],
        "--certificate and --key need each other": ["--database", NO_DATABASE, "--key", "/key"],
        "unknown argument --verbose": ["--verbose", "yes"],
    }
    check_arguments(program, NO_DATABASE, wrong)
    with Postgres() as database:
        common = (program, "--listen", "127.0.0.1:0", "--database", database.patient_url)
        with Redis() as redis, Program(*common, "--redis", redis.address) as server:
            links(server, database, redis)
        without_redis(common, database)
        https(common, database)


def metrics(client: Client) -> dict[str, float]:
    status, text, answer = client.ask("GET", "/metrics")
    assert status == 200, text
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    samples = {}
    for line in text.decode().splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            samples[name] = float(value)
    return samples


def shorten(client: Client, target: str) -> str:
    status, body, answer = client.ask("POST", "/links", target)
    assert status == 201, (status, body)
    path = body.decode().strip()
    assert re.fullmatch("/[0-9A-Za-z]{8}", path), path
    assert answer.headers["Location"] == "/links" + path
    return path


def hits(client: Client, path: str) -> int:
    status, body, answer = client.ask("GET", "/links" + path)
    assert status == 200 and answer.headers["Content-Type"] == "application/json", body
    return json.loads(body)["hits"]


def links(server: Program, database: Postgres, redis: Redis) -> None:
    client = client_of(server)
    visited = 0
    target = "https://example.org/a?b=%22c%22&d=1#e"
    path = shorten(client, target)

    def visit() -> None:
        nonlocal visited
        status, body, answer = client.ask("GET", path)
        assert (status, answer.headers["Location"]) == (302, target), body
        visited += 1

    def until_cache_hit() -> None:
        before = metrics(client)['shortener_cache_reads_total{result="hit"}']

        def has_hit() -> bool:
            visit()
            return metrics(client)['shortener_cache_reads_total{result="hit"}'] > before

        wait_until(has_hit, "Redis had the link")

    until_cache_hit()
    described = json.loads(client.ask("GET", "/links" + path)[1])
    assert described["target"] == target and "created" in described
    wait_until(lambda: hits(client, path) == visited, "all hits were written")
    for bad in (
        "",
        "example.org",
        "ftp://example.org",
        "javascript:alert(1)",
        "https://",
        "http://a b",
    ):
        assert client.ask("POST", "/links", bad)[0] == 400, bad
    longest = "https://example.org/".ljust(2048, "x")
    assert client.ask("GET", shorten(client, longest))[2].headers["Location"] == longest
    assert client_of(server).ask("POST", "/links", longest + "x")[0] == 413
    for missing in ("/00000000", "/short", "/much-too-long", "/%27%20or%20%27", "/links/00000000"):
        assert client.status(missing) == 404, missing
    assert client.status("/health") == 200

    # Many requests miss at the same time: one query.
    path = shorten(client, target + "2")
    wanted = target + "2"
    before = metrics(client)
    with database.locked("link"), contextlib.ExitStack() as sockets:
        peers = [sockets.enter_context(server.connect()) for _ in range(50)]
        for peer in peers:
            peer.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())

        def are_waiting() -> bool:
            return metrics(client)["shortener_active_requests"] == len(peers) + 1

        wait_until(are_waiting, "all requests had come")
        sockets_of_peers = sockets.pop_all()
    with sockets_of_peers:
        for peer in peers:
            head = receive_all(peer).decode()
            assert " 302 " in head and f"Location: {wanted}\r\n" in head, head
    after = metrics(client)
    name = "shortener_database_lookups_total"
    assert after[name] == before[name] + 1, (before, after)
    wait_until(lambda: hits(client, path) == len(peers), "all concurrent hits were counted")

    # Redis dies, and comes back without its data.
    path = shorten(client, target)
    visited = 0
    redis.end()
    for _ in range(5):
        visit()
    assert metrics(client)['shortener_cache_reads_total{result="failure"}'] > 0
    redis.start()
    until_cache_hit()

    # PostgreSQL dies: what Redis knows is still served.
    wait_until(lambda: hits(client, path) == visited, "all hits were written")
    database.end()
    status, body, answer = client.ask("POST", "/links", target)
    assert status == 503 and answer.headers["Retry-After"] == "1", (status, body)
    assert client.status("/health") == 503 and client.status("/links" + path) == 503
    wait_until(lambda: client.status(path) == 302, "Redis had the link")
    visited += 1
    assert metrics(client)['shortener_responses_total{class="5xx"}'] >= 3
    database.start()
    wait_until(lambda: client.status("/health") == 200, "the database was found again")
    wait_until(lambda: hits(client, path) == visited, "no hit was lost")

    # The last hits are written at the end.
    for _ in range(5):
        visit()
    server.end()
    code = path[1:]
    assert database.query(f"select hits from link where code = '{code}'") == str(visited)


def without_redis(common: tuple[str, ...], database: Postgres) -> None:
    with Program(*common) as server:
        client = client_of(server)
        path = shorten(client, "http://example.org/")
        for _ in range(3):
            assert client.status(path) == 302
        assert metrics(client)["shortener_database_lookups_total"] == 3
        database.end()
        assert client.status(path) == 503
        server.ask_to_end()
        server.end()  # with status 0, although the last hits are lost
        database.start()


def https(common: tuple[str, ...], database: Postgres) -> None:
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = make_certificate(Path(folder))
        trusting = ssl.create_default_context(cafile=certificate)
        with Program(*common, "--certificate", certificate, "--key", key) as server:
            host, port = server.addresses[0]
            client = Client(HTTPSConnection(host, port, timeout=PATIENCE, context=trusting))
            path = shorten(client, "http://example.org/secret")
            assert client.ask("GET", path)[2].headers["Location"] == "http://example.org/secret"
            client.connection.close()


def benchmark_server(program: str) -> None:
    wrong = {
        "--database is missing": ["--files", "/"],
        "--listen: ": ["--listen", "nowhere"],
        "unknown argument extra": ["extra", "more"],
    }
    check_arguments(program, NO_DATABASE, wrong)
    with Postgres() as database, tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.html").write_bytes(b"<p>hello")
        Path(folder, "large").write_bytes(os.urandom(3_000_000))
        common = (program, "--listen", "127.0.0.1:0", "--database", database.patient_url)
        with Program(*common, "--files", folder) as first, Program(*common) as second:
            static_endpoints(client_of(first), Path(folder))
            websocket_echo(first)
            queries(client_of(first))
            items(client_of(first), client_of(second), database)


def static_endpoints(client: Client, folder: Path) -> None:
    assert client.ask("GET", "/plaintext")[1] == b"Hello, World!"
    status, body, answer = client.ask("GET", "/json/12?m=3")
    assert status == 200 and answer.headers["Content-Type"] == "application/json"
    listed = json.loads(body)
    assert listed["count"] == len(listed["items"]) == 12
    for each in listed["items"]:
        assert each["total"] == each["price"] * each["quantity"] * 3
    assert json.loads(client.ask("GET", "/json/0")[1]) == {"count": 0, "items": []}
    assert client.status("/json/1?m=x") == 400
    for count in ("1001", "-1", "x", "1x", ""):
        assert client.status(f"/json/{count}") == 404, count
    for size in (0, 1, 20_000_000):
        assert client.ask("POST", "/upload", b"x" * size)[1] == str(size).encode()
    pieces = [b"x" * 100_000] * 30
    client.connection.request("POST", "/upload", iter(pieces), encode_chunked=True)
    assert client.connection.getresponse().read() == b"3000000"
    assert client.ask("GET", "/static/page.html")[1] == b"<p>hello"
    assert client.ask("GET", "/static/large")[1] == (folder / "large").read_bytes()
    assert client.status("/static/none") == 404


def websocket_echo(server: Program) -> None:
    with WebSocketPeer(server, "/ws") as peer:
        for opcode, payload in (1, b"hello"), (2, os.urandom(3000)), (1, b""):
            peer.send(payload, opcode)
            assert peer.receive() == (opcode, payload)
        peer.send(b"\x03\xe8", 8)
        assert peer.receive() == (8, b"\x03\xe8") and receive_all(peer.socket) == b""


def queries(client: Client) -> None:
    found = json.loads(client.ask("GET", "/db?min=10&max=20&limit=7")[1])
    assert len(found) == 7 and all(10 <= each["price"] <= 20 for each in found), found
    assert found[0] == {"id": 10, "name": "item 10", "price": 10}
    assert json.loads(client.ask("GET", "/db?min=600")[1]) == []
    assert len(json.loads(client.ask("GET", "/db")[1])) == 50
    for bad in ("min=x", "min=-1", "max=2147483648", "limit=0", "limit=1001"):
        assert client.status(f"/db?{bad}") == 400, bad
    for count in (1, 20, 500):
        found = json.loads(client.ask("GET", f"/queries?n={count}")[1])
        assert len(found) == count and all(1 <= each["id"] <= 10_000 for each in found)
    assert client.status("/queries?n=501") == 400


def items(client: Client, other: Client, database: Postgres) -> None:
    def read(path: str, reader: Client = client) -> tuple[dict[str, object], str]:
        status, body, answer = reader.ask("GET", path)
        assert status == 200, (status, body)
        return json.loads(body), answer.headers["X-Cache"]

    def until_hit(path: str, reader: Client) -> dict[str, object]:
        wait_until(lambda: read(path, reader)[1] == "hit", "the item was in memory")
        return read(path, reader)[0]

    status, _, answer = client.ask("POST", "/items", '{"name": "a \\"b\\" <c>", "price": 7}')
    path = answer.headers["Location"]
    assert status == 201 and re.fullmatch(r"/items/\d+", path), path
    item = {"id": int(path.removeprefix("/items/")), "name": 'a "b" <c>', "price": 7}
    assert read(path) == (item, "miss")
    assert until_hit(path, client) == until_hit(path, other) == item

    # A change is seen at once by its client, and soon by the other process.
    item["price"] = 8
    assert json.loads(client.ask("PUT", path, json.dumps(item))[1]) == item
    assert read(path) == (item, "miss")
    wait_until(lambda: read(path, other)[0] == item, "the other process saw the change")
    bad_items = ("", "{", "[]", "7", "{}", '{"name": "x"}', '{"name": "x", "price": "y"}')
    for bad in (*bad_items, '{"name": "x", "price": 9999999999}', b'{"name": "\xff", "price": 1}'):
        assert client.ask("POST", "/items", bad)[0] == 400, bad
        assert client.ask("PUT", path, bad)[0] == 400, bad
    assert client.ask("POST", "/items", "[" * 100_000)[0] == 400  # too deep for PostgreSQL
    assert read(path)[0] == item
    for missing in ("/items/0", "/items/99999999999999999999", "/items/x"):
        assert client.status(missing) == 404, missing
        assert client.ask("PUT", missing, json.dumps(item))[0] == 404, missing
        assert client.ask("DELETE", missing)[0] == 404, missing

    # While PostgreSQL is away, requests that need it get 503. Then all goes on by itself.
    database.end()
    status, body, answer = client.ask("GET", "/db")
    assert status == 503 and answer.headers["Retry-After"] == "1", (status, body)
    assert client.ask("PUT", path, json.dumps(item))[0] == 503
    assert client.status("/plaintext") == 200
    database.start()
    wait_until(lambda: client.status("/db") == 200, "the database was found again")
    wait_until(lambda: other.status("/db") == 200, "the database was found again")
    until_hit(path, other)
    item["price"] = 9
    assert client.ask("PUT", path, json.dumps(item))[0] == 200
    wait_until(lambda: read(path, other)[0] == item, "notifications came again")

    assert client.ask("DELETE", path)[0] == 204
    assert client.status(path) == 404 and client.ask("DELETE", path)[0] == 404
    wait_until(lambda: other.status(path) == 404, "the other process saw the end of the item")


if __name__ == "__main__":
    {each.__name__: each for each in (shortener, benchmark_server)}[sys.argv[1]](sys.argv[2])
