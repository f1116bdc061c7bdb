# SPDX-License-Identifier: Apache-2.0
"""Uses an example in Debian's Chromium, without a window.

    python browser.py NAME PROGRAM

Needs playwright of .venv. Fails by an exception, as talk.py does.
"""

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from talk import PATIENCE, Program, WebSocketPeer

CHROMIUM = Path("/usr/bin/chromium")
try:
    from playwright.sync_api import Browser, Page, expect, sync_playwright
except ImportError:
    sys.exit("the Python package playwright is missing: run tools/setup")

WAIT = 1000 * PATIENCE  # milliseconds
page_errors: list[str] = []


class Gate:
    """A port that forwards to that of a server, and that can be shut."""

    def __init__(self, port: int) -> None:
        self.port = port  # of the server; None while the gate is shut
        self.lock = threading.Lock()
        self.open: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(None)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            peer, _ = self.listener.accept()
            peer.settimeout(None)
            with self.lock:
                if self.port is None:
                    peer.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.port))
                server.settimeout(None)
                self.open += [peer, server]
            for source, target in (peer, server), (server, peer):
                threading.Thread(target=self.copy, args=(source, target), daemon=True).start()

    @staticmethod
    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def shut(self) -> None:
        """Cuts all connections, and refuses others until lead_to()."""
        with self.lock:
            self.port = None
            for each in self.open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self.open.clear()

    def lead_to(self, port: int) -> None:
        with self.lock:
            self.port = port


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    assert CHROMIUM.exists(), f"{CHROMIUM} is missing: run tools/setup"
    expect.set_options(timeout=WAIT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox"], timeout=WAIT
        )
        yield browser
        browser.close()


def join(browser: Browser, url: str, name: str) -> Page:
    page = browser.new_context().new_page()
    page.set_default_timeout(WAIT)
    page.on("pageerror", lambda error: page_errors.append(f"{name}: {error}"))
    page.goto(url)
    page.fill("#name", name)
    page.click("#join button")
    expect(page.locator("#state")).to_have_text("connected")
    return page


def say(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.press("#text", "Enter")


def web_chat(program: str) -> None:
    with chromium() as browser, contextlib.ExitStack() as running:
        server = running.enter_context(Program(program, "127.0.0.1:0"))
        gate = Gate(server.addresses[0][1])
        pages = [join(browser, gate.url, name) for name in ("Ada", "Bob")]
        lines = []

        def expect_lines(*more: str) -> None:
            lines.extend(more)
            for page in pages:
                expect(page.locator("#lines li")).to_have_text(lines)

        say(pages[0], "hello <b>all</b>")
        expect_lines("Adahello <b>all</b>")
        say(pages[1], "hello Ada")
        expect_lines("Bobhello Ada")

        # The network fails. The pages connect again, and get what was said meanwhile.
        gate.shut()
        for page in pages:
            expect(page.locator("#state")).to_have_text("connecting again")
        with WebSocketPeer(server, "/chat?name=Eve") as eve:
            eve.send("eve-1\tare you there")
            assert [eve.text() for _ in range(3)][2].endswith("are you there")
        say(pages[0], "said while away")
        gate.lead_to(server.addresses[0][1])
        expect_lines("Eveare you there", "Adasaid while away")

        # The server is replaced. Both pages connect to the next one.
        gate.shut()
        server.end()
        replacement = running.enter_context(Program(program, "127.0.0.1:0"))
        gate.lead_to(replacement.addresses[0][1])
        for page in pages:
            expect(page.locator("#state")).to_have_text("connected")
        say(pages[1], "again")
        expect_lines("Bobagain")
        assert pages[0].evaluate("unconfirmed.size") == 0
        assert not page_errors, page_errors


if __name__ == "__main__":
    {"web_chat": web_chat}[sys.argv[1]](sys.argv[2])
