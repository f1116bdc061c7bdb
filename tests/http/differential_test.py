#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares gyre's parser of HTTP/1 with h11 and Boost.Beast.

    differential_test.py JUDGE README [--list]

JUDGE is the program gyre_http_judge. All vectors, and messages that are mutated from them by a
generator with a fixed seed, are judged by the three parsers. Each way in which another parser
disagrees must have a row in the table of README, and each row must occur. --list prints the ways
with an example instead.

Exit status: 0 all is explained, 1 something is not, 77 h11 is not installed.
"""

import random
import re
import subprocess
import sys
from pathlib import Path

try:
    import h11
except ImportError:
    sys.exit(77)

MUTATIONS = 4000
SEED = 15
SPECIAL = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"0",
    b"\x7f",
    b"\xff",
    b"+",
]
ROW = re.compile(r"^\| (h11|Beast) \| (.+?) \| (.+?) \| (.+) \|$")
CHUNKED_HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def escaped(data: bytes) -> str:
    names = {13: "\\r", 10: "\\n", 92: "\\x5c"}
    return "".join(
        names.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in data
    )


def accepted(data: bytes, connection: h11.Connection) -> str:
    left = len(connection.trailing_data[0])
    return f"accept data=[{escaped(data)}]" + (f" left={left}" if left else "")


def read_with_h11(connection: h11.Connection, message: bytes, is_response: bool) -> str:
    connection.receive_data(message)
    data = b""
    at_end = False
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            return "incomplete" if at_end else f"refuse {error}"
        if event is h11.NEED_DATA:
            if at_end or not is_response:
                return "incomplete"
            at_end = True
            connection.receive_data(b"")
        elif isinstance(event, h11.Data):
            data += event.data
        elif isinstance(event, h11.EndOfMessage | h11.InformationalResponse) or event is h11.PAUSED:
            return accepted(data, connection)
        elif isinstance(event, h11.ConnectionClosed):
            return "incomplete"


def verdict_of_h11(direction: str, message: bytes) -> str:
    if not direction.startswith("response"):
        head = CHUNKED_HEAD if direction == "chunked" else b""
        return read_with_h11(h11.Connection(h11.SERVER, 64 * 1024), head + message, False)
    method = direction.partition(" ")[2] or "GET"
    connection = h11.Connection(h11.CLIENT, 64 * 1024)
    target = "a:1" if method == "CONNECT" else "/"
    connection.send(h11.Request(method=method, target=target, headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    return read_with_h11(connection, message, True)


def mutate(message: bytes, generator: random.Random) -> bytes:
    at = generator.randrange(len(message) + 1)
    kind = generator.randrange(5)
    if kind == 0:
        return message[:at] + generator.choice(SPECIAL) + message[at:]
    if kind == 1:
        return message[:at] + message[at + 1 :]
    if kind == 2:
        return message[:at] + generator.choice(SPECIAL) + message[at + 1 :]
    if kind == 3:
        return message[:at] + message[at : at + 1] + message[at:]
    line_end = message.find(b"\r\n", at)
    line = message[line_end + 2 : message.find(b"\r\n", line_end + 2) + 2]
    return message[: line_end + 2] + line + message[line_end + 2 :]


def judge(program: str, messages: list[tuple[str, bytes]]) -> list[list[str]]:
    lines = "".join(f"{direction}\t{message.hex()}\n" for direction, message in messages)
    output = subprocess.run(
        [program, "judge"], input=lines, capture_output=True, text=True, check=True
    ).stdout
    return [line.split("\t") for line in output.splitlines()]


def essence(verdict: str) -> str:
    """A verdict without the reason of a refusal and without what gyre alone tells."""
    kind = verdict.split(" ", 1)[0]
    if kind != "accept":
        return kind
    data = re.search(r" data=\[(.*?)\](?: (?:left|trailers)|$)", verdict)
    left = re.search(r" left=(\d+)$", verdict)
    return f"accept [{data[1] if data else ''}] {left[1] if left else 0}"


def reason(verdict: str) -> str:
    """A verdict with a reason, but without the bytes that it quotes."""
    kind = verdict.split(" ", 1)[0]
    if kind != "refuse":
        return kind
    text = re.split(r":|'|\(|\|", verdict)[0].strip()
    return re.sub(r" \d+.*", "", text)


def disagreement(gyre: str, other: str) -> tuple[str, str] | None:
    if essence(gyre) == essence(other):
        return None
    kinds = reason(gyre), reason(other)
    if kinds == ("accept", "accept"):
        return "accept", "accept otherwise"
    return kinds if kinds[0].split()[0] != "refuse" else (kinds[0], other.split(" ", 1)[0])


def main() -> int:
    program, readme = sys.argv[1:3]
    output = subprocess.run([program, "vectors"], capture_output=True, text=True, check=True).stdout
    vectors = [line.split("\t") for line in output.splitlines()]
    messages = [(direction, bytes.fromhex(data)) for _, direction, data, _ in vectors]
    generator = random.Random(SEED)
    short = [each for each in messages if 0 < len(each[1]) < 1000]
    for _ in range(MUTATIONS):
        direction, message = generator.choice(short)
        messages.append((direction, mutate(message, generator)))

    verdicts = judge(program, messages)
    passed = {"gyre": 0, "h11": 0, "Beast": 0}
    found: dict[tuple[str, str, str], list[str]] = {}
    for number, ((direction, message), (gyre, beast)) in enumerate(
        zip(messages, verdicts, strict=True)
    ):
        by_parser = {"gyre": gyre, "h11": verdict_of_h11(direction, message), "Beast": beast}
        for parser, verdict in by_parser.items():
            if number < len(vectors):
                passed[parser] += essence(verdict) == essence(vectors[number][3])
            ways = disagreement(gyre, verdict)
            if parser != "gyre" and ways:
                found.setdefault((parser, *ways), []).append(
                    f"{direction} {escaped(message)[:160]}"
                )

    total = ", ".join(f"{parser} {count}" for parser, count in passed.items())
    print(f"vectors judged as expected, of {len(vectors)}: {total}")
    if "--list" in sys.argv:
        for way, examples in sorted(found.items()):
            print(f"| {' | '.join(way)} | |  {len(examples)} x {examples[0]}")
        return 0
    lines = Path(readme).read_text().splitlines()
    explained = {match.group(1, 2, 3) for match in map(ROW.match, lines) if match}
    for way in sorted(found.keys() - explained):
        print(f"not explained: {' | '.join(way)}, such as {found[way][0]}")
    for way in sorted(explained - found.keys()):
        print(f"explained, but does not occur: {' | '.join(way)}")
    return int(found.keys() != explained or passed["gyre"] != len(vectors))


if __name__ == "__main__":
    sys.exit(main())
