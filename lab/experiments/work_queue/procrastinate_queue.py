# SPDX-License-Identifier: Apache-2.0
"""The programs of the contender procrastinate: see workload.hpp for their words.

One pool of psycopg's compiled asynchronous connections serves the library and the tasks. They
commit each statement by itself, so that a task's effect is one round trip, as are the library's
own calls. The event loop is uvloop.
"""

import asyncio
import sys

import procrastinate
import psycopg
import psycopg_pool
import uvloop

CONCURRENCY = 16

connector = procrastinate.PsycopgConnector()
app = procrastinate.App(connector=connector)
insert_effect = "insert into effect (number, payload) values (%s, %s)"
insert_submission = "insert into submission (first, count) values (%s, %s)"


@app.task(name="effect", queue="effect")
async def effect(payload):
    async with connector.pool.connection() as connection:
        await connection.execute(insert_effect, (int(payload[:8]), payload))


def payload_of(number):
    return f"{number:08d}" + "." * 56


async def submit(first, count, interval):
    async with connector.pool.connection() as connection:
        jobs = effect.configure(connection=connection)
        if interval == 0:
            async with connection.transaction():
                await connection.execute(insert_submission, (first, count))
                await jobs.batch_defer_async(
                    *({"payload": payload_of(first + n)} for n in range(count))
                )
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        for n in range(count):
            await asyncio.sleep(began + n * interval - loop.time())
            async with connection.transaction():
                await connection.execute(insert_submission, (first + n, 1))
                await jobs.defer_async(payload=payload_of(first + n))


async def work():
    async with connector.pool.connection() as connection:
        await connection.execute("insert into worker default values")
    await app.run_worker_async(
        queues=["effect"],
        concurrency=CONCURRENCY,
        delete_jobs="successful",
        install_signal_handlers=False,
    )


async def commit_each_statement(connection):
    await connection.set_autocommit(True)


async def play(role, host, database, numbers):
    pool = psycopg_pool.AsyncConnectionPool(
        psycopg.conninfo.make_conninfo(host=host, user="postgres", dbname=database),
        min_size=CONCURRENCY + 4 if role == "work" else 1,
        max_size=CONCURRENCY + 4,
        configure=commit_each_statement,
        open=False,
    )
    async with pool, app.open_async(pool):
        match role:
            case "prepare":
                await app.schema_manager.apply_schema_async()
            case "work":
                await work()
            case "submit":
                first, count, interval_us = numbers
                await submit(first, count, interval_us / 1e6)


if __name__ == "__main__":
    uvloop.run(play(sys.argv[1], sys.argv[2], sys.argv[3], [int(word) for word in sys.argv[4:]]))
