#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has the library `websockets` talk to a server and to a client of gyre.

    websocket_peers_test.py PROGRAM

PROGRAM is gyre_websocket_peer. Fails by an exception.
"""

import asyncio
import os
import sys

from server_program import PATIENCE, Server, serving

try:
    from websockets.asyncio.client import connect
    from websockets.asyncio.connection import Connection
    from websockets.asyncio.server import ServerConnection, serve
    from websockets.exceptions import ConnectionClosed
except ImportError:
    sys.exit("the Python package websockets is missing: run tools/setup test")

# Sizes around those where the length of a frame's header changes, and of several reads.
SIZES = (0, 1, 125, 126, 65_535, 65_536, 1_000_000)
COMPRESSIONS = (None, "deflate")
SETTINGS = {"max_size": None, "open_timeout": PATIENCE, "ping_timeout": PATIENCE}


def connect_to(url: str, compression: str | None, **more: int) -> connect:
    # A proxy of the environment is not for this machine's own address.
    return connect(url, compression=compression, proxy=None, **SETTINGS, **more)


def is_compressed(peer: Connection) -> bool:
    return any(each.name == "permessage-deflate" for each in peer.protocol.extensions)


async def expect_echoes(peer: Connection) -> None:
    """Expects that all messages come back, of each kind, size and form."""
    for size in SIZES:
        for message in (size * "\u20ac", os.urandom(size), size * b"a"):
            await peer.send(message)
            assert await peer.recv() == message, (size, type(message))
    # Fragments, which a message is joined from.
    pieces = ["", "Gr\u00fc", "", "\u00dfe ", 100_000 * "x"]
    await peer.send(pieces)
    assert await peer.recv() == "".join(pieces)
    # Many small messages on their way at the same time, and a ping between them.
    texts = [f"message {number}" for number in range(300)]
    for text in texts[:150]:
        await peer.send(text)
    pong = await peer.ping()
    for text in texts[150:]:
        await peer.send(text)
    assert [await peer.recv() for _ in texts] == texts
    await pong


async def expect_end(peer: Connection, code: int, reason: str) -> None:
    try:
        raise AssertionError(f"no end, but {await peer.recv()!r}")
    except ConnectionClosed:
        assert (peer.close_code, peer.close_reason) == (code, reason)


async def test_server(server: Server, deflates: bool) -> None:
    for path in ("/", "/callbacks"):
        url = f"ws://127.0.0.1:{server.port}{path}"
        for compression in COMPRESSIONS:
            async with connect_to(url, compression) as peer:
                assert is_compressed(peer) == (deflates and compression == "deflate")
                await expect_echoes(peer)
                await peer.close(4000, "enough")
                assert peer.close_code == 4000
        # Text that is not UTF-8.
        async with connect_to(url, None) as peer:
            await peer.send(b"\xff", text=True)
            await expect_end(peer, 1007, "a text of a WebSocket is not UTF-8")
        # The server serves others while one peer sends and does not read.
        async with (
            connect_to(url, None, max_queue=1) as busy,
            connect_to(url, None) as honest,
        ):
            sending = asyncio.gather(*(busy.send(1_000_000 * b"x") for _ in range(20)))
            await expect_echoes(honest)
            for _ in range(20):
                assert await busy.recv() == 1_000_000 * b"x"
            await sending


async def test_client(program: str, compression: str | None, *flags: str) -> None:
    served = asyncio.get_running_loop().create_future()

    async def serve_peer(peer: ServerConnection) -> None:
        try:
            assert is_compressed(peer) == (compression == "deflate" and "--deflate" in flags)
            await expect_echoes(peer)
            await peer.close(4001, "done")
            served.set_result(None)
        except BaseException as error:
            served.set_exception(error)
            raise

    async with serve(serve_peer, "127.0.0.1", 0, compression=compression, **SETTINGS) as server:
        port = server.sockets[0].getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(program, "echo", f"ws://127.0.0.1:{port}", *flags), stdout=asyncio.subprocess.PIPE
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        finally:
            if process.returncode is None:
                process.kill()
        await served
        assert process.returncode == 0 and output == b"closed: 4001 done\n", output


async def test_clients(program: str) -> None:
    for compression in COMPRESSIONS:
        for flags in ((), ("--deflate",), ("--callbacks",), ("--deflate", "--callbacks")):
            await test_client(program, compression, *flags)


def main() -> None:
    program = sys.argv[1]
    for flags in ((), ("--deflate",)):
        with serving(program, "serve", *flags) as server:
            asyncio.run(test_server(server, bool(flags)))
    asyncio.run(test_clients(program))


if __name__ == "__main__":
    main()
