"""Run a server by hand, for developing and benchmarks: prints the URL of an empty database, and runs until Ctrl-C."""

import argparse
import signal
import sys

from tests.servers.binaries import servers
from tests.servers.server import Server


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is not name=value")
    return name, value


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("--oldest", action="store_true", help="the oldest of the system's instead of the newest")
    parser.add_argument(
        "--set", action="append", type=_setting, default=[], metavar="NAME=VALUE", help="a line of its postgresql.conf"
    )
    options = parser.parse_args()
    binaries = servers().oldest if options.oldest else servers().newest
    if binaries is None:
        sys.exit("This machine has no such server: install the system package postgresql")
    # A shell starts what runs in its background deaf to Ctrl-C; and SIGTERM, too, has to end the block below.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with Server(binaries, dict(options.set)) as server:
            print(server.create_database(), flush=True)
            print(f"PostgreSQL {server.version} in {server.folder}", file=sys.stderr)
            signal.pause()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
