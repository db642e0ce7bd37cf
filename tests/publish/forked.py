"""A process that enters an app, forks, and says what its child and it itself can do.

`python -m tests.publish.forked sqlite:////path`
"""

import asyncio
import gc
import os
import sys
import weakref

import anyio

from streams import Streams, StreamsError

app = Streams(sys.argv[1])
orders = app.topic("orders", int, partitions=1)


async def child() -> None:
    try:
        await orders.publish("a", 0)
    except StreamsError as error:
        print(f"child: {type(error).__name__}: {error}", flush=True)
    # SQLite would end the parent's transaction with the child's copy of its connection.
    weakref.finalize(app._session, print, "child: closed what is its parent's", flush=True)
    try:
        async with app:
            print("child:", (await orders.publish("a", 2)).offset, flush=True)
    except StreamsError as error:
        print(f"child: {type(error).__name__}: {error}", flush=True)
    gc.collect()


async def main() -> None:
    async with app:
        await orders.publish("a", 1)
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(child())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        print("parent:", (await orders.publish("a", 3)).offset)
    async with app:
        print("parent again:", (await orders.publish("a", 4)).offset)


anyio.run(main)
