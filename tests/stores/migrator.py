"""A process that waits for a line, opens the store that its argument names, and says what it wrote into it.

It is started several times at once: `python -m tests.stores.migrator sqlite:////path`.
"""

import sys

import anyio

from streams.stores import open_store


async def main(url: str) -> None:
    store = open_store(url)
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open(migrate=True, create=True)
    topic = await store.ensure_topic("orders", 4, "json")
    await store.ensure_group("billing", "orders", "earliest")
    print(topic.id, len((await store.view([("billing", "orders")])).leases))
    await store.close()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
