"""`streams topics`: what there is to read."""

import anyio

from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.terminal import print_json, print_table, say


def list_topics(*, database: Database = DATABASE, as_json: Json = False, logging: Logging = LOGGING) -> None:
    """List the topics, with the number of records in their logs."""
    logging.set_up()
    topics = anyio.run(database.ask, lambda admin: admin.topics())
    if as_json:
        print_json(topics)
        return
    print_table(
        ("topic", "partitions", "codec", "records"), [(t.topic, t.partitions, t.codec, t.records) for t in topics]
    )
    if not topics:
        say("There is no topic yet: a program that declares one makes it on first use.")
