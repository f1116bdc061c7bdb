#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has programs of others talk to a server of gyre: curl, ab, wrk, h2load and openssl.

    foreign_programs_test.py SERVER [--mib N]

SERVER is the program gyre_http_foreign_server. Each upload has N MiB (default: 256, with sanitizers
16). A program that is not installed is left out, with a line that says so.

Exit status: 0 all is as it should be, 1 something is not, 77 no program is installed.
"""

import argparse
import http.client
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from server_program import (
    IS_SANITIZED,
    MOST_MEMORY_KIB,
    PATIENCE,
    Server,
    make_certificates,
    run,
    serving,
)

BODY = os.urandom(300_000)


def curl(*words: str, status: int = 0) -> str:
    return run("curl", "--silent", "--show-error", "--http1.1", *words, status=status)


def answer_of(*words: str, status: int = 0) -> tuple[str, str]:
    """The status of the answer, and its body."""
    text = curl("--write-out", "\n%{http_code}", *words, status=status)
    body, _, code = text.rpartition("\n")
    return code, body


def test_curl(server: Server, folder: Path, mib: int) -> None:
    site = f"http://127.0.0.1:{server.port}"
    assert answer_of(f"{site}/hello") == ("200", "hello")
    assert answer_of("--head", f"{site}/hello")[0] == "200"
    assert answer_of(f"{site}/nowhere")[0] == "404"
    assert answer_of("--data", "abc", f"{site}/echo") == ("200", "abc")
    assert answer_of("--http1.0", f"{site}/hello") == ("200", "hello")
    # Two requests on one connection.
    text = curl("--verbose", "--stderr", "-", f"{site}/hello", f"{site}/hello")
    assert "existing connection" in text, text

    small = folder / "small"
    small.write_bytes(BODY)
    talk = curl(
        *("--verbose", "--stderr", "-", "--header", "Expect: 100-continue"),
        *("--expect100-timeout", "60", "--upload-file", str(small), f"{site}/sink"),
    )
    assert "HTTP/1.1 100" in talk and f"\n{len(BODY)}" in talk, talk[-500:]
    large = folder / "large"
    with large.open("wb") as file:
        file.truncate(mib << 20)
    assert answer_of("--upload-file", str(large), f"{site}/sink") == ("200", str(mib << 20))
    chunked = ("--header", "Transfer-Encoding: chunked", "--upload-file", str(large))
    assert answer_of(*chunked, f"{site}/sink") == ("200", str(mib << 20))
    # The server may refuse it before curl has sent all of it.
    post = ("--request", "POST", "--upload-file", str(large))
    refused = (*post, "--header", "Expect:", f"{site}/echo")
    done = subprocess.run(
        ["curl", "--silent", "--http1.1", "--write-out", "%{http_code}", *refused],
        capture_output=True,
        timeout=PATIENCE,
    )
    assert done.stdout.endswith(b"413"), done
    peak = int(curl(f"{site}/peak"))
    assert peak < MOST_MEMORY_KIB or IS_SANITIZED, f"{peak} KiB"

    (folder / "served").write_bytes(BODY)
    file = f"{site}/files/served"
    whole = BODY.decode("latin-1")
    assert answer_of(file) == ("200", whole)
    assert answer_of("--range", "10-19", file) == ("206", whole[10:20])
    assert answer_of("--range", "-5", file) == ("206", whole[-5:])
    code, parts = answer_of("--range", "0-4,100-104", file)
    assert code == "206" and whole[:5] in parts and whole[100:105] in parts
    assert answer_of("--range", "400000-", file)[0] == "416"
    tag = re.search(r"(?im)^etag: *(\S+)", curl("--head", file))[1]
    assert answer_of("--header", f"If-None-Match: {tag}", file)[0] == "304"
    assert answer_of("--path-as-is", f"{site}/files/../authority.key")[0] == "404"


def test_load(server: Server) -> None:
    site = f"http://127.0.0.1:{server.port}/hello"
    if shutil.which("ab"):
        for more in (["-k"], []):
            text = run("ab", "-q", *more, "-n", "2000", "-c", "20", site)
            assert re.search(r"Complete requests: +2000\n", text), text
            assert re.search(r"Failed requests: +0\n", text), text
            assert "Non-2xx" not in text, text
    else:
        print("left out: ab is not installed")
    if shutil.which("wrk"):
        text = run("wrk", "-t", "1", "-c", "50", "-d", "1s", "--timeout", "60s", site)
        assert re.search(r"[1-9]\d* requests in", text), text
        assert "Socket errors" not in text and "Non-2xx" not in text, text
    else:
        print("left out: wrk is not installed")


def test_http2(site: str, folder: Path, mib: int, *options: str) -> None:
    """Requests of HTTP/2, by options of curl that begin it: the same handlers answer."""
    probe = ("--output", os.devnull, "--write-out", "%{http_version}")
    if "HTTP2" not in run("curl", "--version"):
        print("left out: HTTP/2, which this curl does not speak")
        return
    assert curl(*probe, *options, f"{site}/hello") == "2"
    assert answer_of(*options, f"{site}/hello") == ("200", "hello")
    assert answer_of(*options, "--head", f"{site}/hello")[0] == "200"
    assert answer_of(*options, f"{site}/nowhere")[0] == "404"
    assert answer_of(*options, "--data", "abc", f"{site}/echo") == ("200", "abc")
    large = str(folder / "large")
    upload = (*options, "--upload-file", large, f"{site}/sink")
    assert answer_of(*upload) == ("200", str(mib << 20))
    file = f"{site}/files/served"
    whole = BODY.decode("latin-1")
    assert answer_of(*options, file) == ("200", whole)
    assert answer_of(*options, "--range", "10-19", file) == ("206", whole[10:20])
    count = 20
    together = ("--parallel", "--parallel-immediate", *(f"{file}?[1-{count}]",))
    outputs = folder / "outputs"
    outputs.mkdir(exist_ok=True)
    curl(*options, *together, "--output", str(outputs / "#1"))
    assert all((outputs / str(i)).read_bytes() == BODY for i in range(1, count + 1))
    if not shutil.which("h2load"):
        print("left out: h2load is not installed")
        return
    if site.startswith("http:"):
        text = run("h2load", "-n", "5000", "-c", "5", "-m", "50", f"{site}/hello")
        assert "5000 succeeded, 0 failed, 0 errored" in text, text


def test_tls(server: Server, folder: Path, mib: int) -> None:
    site = f"https://localhost:{server.port}"
    here = ("--connect-to", f"localhost:{server.port}:127.0.0.1:{server.port}")
    trusting = (*here, "--cacert", str(folder / "authority.pem"))
    assert answer_of(*trusting, f"{site}/hello") == ("200", "hello")
    for version in ("1.2", "1.3"):
        limits = (f"--tlsv{version}", "--tls-max", version)
        assert answer_of(*trusting, *limits, f"{site}/hello") == ("200", "hello")
    curl(*trusting, "--tls-max", "1.1", "--tlsv1.1", f"{site}/hello", status=35)
    stranger = (*here, "--cacert", str(folder / "stranger.pem"))
    curl(*stranger, f"{site}/hello", status=60)
    large = str(folder / "large")
    upload = (*trusting, "--upload-file", large, f"{site}/sink")
    assert answer_of(*upload) == ("200", str(mib << 20))
    file = answer_of(*trusting, f"{site}/files/served")
    assert file == ("200", BODY.decode("latin-1"))
    plain = f"http://127.0.0.1:{server.port}/hello"
    for method in ("GET", "DELETE"):
        text = run("curl", "--silent", "--include", "--http1.1", "--request", method, plain)
        assert text.startswith("HTTP/1.1 400 ") and "speaks TLS" in text, text


def test_reload(server: Server, folder: Path) -> None:
    """Certificates change while clients come: none fails, and new ones see the new certificate.

    A connection that was open before is still served.
    """
    site = f"https://127.0.0.1:{server.port}"
    trusting = ("--cacert", str(folder / "authority.pem"))
    over = threading.Event()
    failures: list[AssertionError] = []

    def come() -> None:
        while not over.is_set():
            try:
                assert answer_of(*trusting, f"{site}/hello") == ("200", "hello")
            except AssertionError as error:
                failures.append(error)
                return

    def issued_to() -> str:
        text = curl(*trusting, "--verbose", "--stderr", "-", f"{site}/hello")
        return re.search(r"subject: *CN=(\w+)", text)[1]

    trust = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    early = http.client.HTTPSConnection(
        "127.0.0.1", int(server.port), context=trust, timeout=PATIENCE
    )

    def ask_early() -> None:
        early.request("GET", "/hello")
        assert early.getresponse().read() == b"hello"

    ask_early()
    stream = early.sock
    assert issued_to() == "server"
    clients = [threading.Thread(target=come) for _ in range(3)]
    for each in clients:
        each.start()
    try:
        for name in ("renewed", "server", "renewed"):
            for kind in ("pem", "key"):
                shutil.copy(folder / f"{name}.{kind}", folder / f"current.{kind}")
            assert answer_of(*trusting, "--data", "", f"{site}/reload") == ("200", "done")
            assert issued_to() == name
    finally:
        over.set()
        for each in clients:
            each.join()
    assert not failures, failures[0]
    ask_early()
    assert early.sock is stream, "the server has ended a connection that was open"
    early.close()
    # Files that do not belong together change nothing.
    shutil.copy(folder / "stranger.key", folder / "current.key")
    assert answer_of(*trusting, "--data", "", f"{site}/reload")[0] == "500"
    assert issued_to() == "renewed"


def test_client_certificates(server: Server, folder: Path) -> None:
    site = f"https://127.0.0.1:{server.port}"
    trusting = ("--cacert", str(folder / "authority.pem"))

    def own(name: str) -> tuple[str, ...]:
        return ("--cert", str(folder / f"{name}.pem"), "--key", str(folder / f"{name}.key"))

    assert answer_of(*trusting, *own("client"), f"{site}/hello") == ("200", "hello")
    for certificate in ((), own("stranger")):
        done = subprocess.run(
            ["curl", "--silent", "--http1.1", *trusting, *certificate, f"{site}/hello"],
            capture_output=True,
            timeout=PATIENCE,
        )
        assert done.returncode in (35, 55, 56) and not done.stdout, done


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("server")
    arguments.add_argument("--mib", type=int, default=16 if IS_SANITIZED else 256)
    given = arguments.parse_args()
    if not shutil.which("curl") or not shutil.which("openssl"):
        print("left out: curl or openssl is not installed")
        return 77

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_certificates(folder)
        with serving(given.server, name) as server:
            test_curl(server, folder, given.mib)
            test_load(server)
            site = f"http://127.0.0.1:{server.port}"
            test_http2(site, folder, given.mib, "--http2-prior-knowledge")
        for kind in ("pem", "key"):
            shutil.copy(folder / f"server.{kind}", folder / f"current.{kind}")
        own = (str(folder / "current.pem"), str(folder / "current.key"))
        with serving(given.server, name, *own) as server:
            test_tls(server, folder, given.mib)
            trusting = ("--cacert", str(folder / "authority.pem"))
            site = f"https://127.0.0.1:{server.port}"
            test_http2(site, folder, given.mib, "--http2", *trusting)
            test_reload(server, folder)
        own = (str(folder / "server.pem"), str(folder / "server.key"))
        with serving(given.server, name, *own, str(folder / "authority.pem")) as server:
            test_client_certificates(server, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
