# SPDX-License-Identifier: Apache-2.0
"""The programs of the contender pgqueuer: see workload.hpp for their words.

A pool of asyncpg serves the library and the handlers. The library takes jobs, and stores their
ends, in batches. The pool resets no settings of a connection that is given back, as none are
changed: a round trip less for each statement. The event loop is uvloop.
"""

import asyncio
import sys

import asyncpg
import pgqueuer
import uvloop
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

BATCH = 100
CONNECTIONS = 8

insert_effect = "insert into effect (number, payload) values ($1, $2)"
insert_submission = "insert into submission (first, count) values ($1, $2)"


def payload_of(number):
    return (f"{number:08d}" + "." * 56).encode()


async def submit(connection, first, count, interval):
    queries = Queries(AsyncpgDriver(connection))
    if interval == 0:
        async with connection.transaction():
            await connection.execute(insert_submission, first, count)
            await queries.enqueue(
                ["effect"] * count, [payload_of(first + n) for n in range(count)], [0] * count
            )
        return
    loop = asyncio.get_running_loop()
    began = loop.time()
    for n in range(count):
        await asyncio.sleep(began + n * interval - loop.time())
        async with connection.transaction():
            await connection.execute(insert_submission, first + n, 1)
            await queries.enqueue("effect", payload_of(first + n))


async def keep_settings(connection):
    pass


async def work(where):
    async with asyncpg.create_pool(
        **where, min_size=CONNECTIONS, max_size=CONNECTIONS, reset=keep_settings
    ) as pool:
        queue = pgqueuer.PgQueuer(AsyncpgPoolDriver(pool))

        @queue.entrypoint("effect")
        async def effect(job):
            payload = job.payload.decode()
            await pool.execute(insert_effect, int(payload[:8]), payload)

        await pool.execute("insert into worker default values")
        await queue.run(batch_size=BATCH, max_concurrent_tasks=4 * BATCH)


async def play(role, host, database, numbers):
    where = {"host": host, "user": "postgres", "database": database}
    if role == "work":
        return await work(where)
    connection = await asyncpg.connect(**where)
    if role == "prepare":
        await Queries(AsyncpgDriver(connection)).install()
    else:
        first, count, interval_us = numbers
        await submit(connection, first, count, interval_us / 1e6)
    await connection.close()


if __name__ == "__main__":
    uvloop.run(play(sys.argv[1], sys.argv[2], sys.argv[3], [int(word) for word in sys.argv[4:]]))
