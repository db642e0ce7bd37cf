"""`streams members`: which workers are alive."""

import anyio

from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.terminal import print_json, print_table, say, timestamp
from streams.stores.rows import MemberRow


def list_members(*, database: Database = DATABASE, as_json: Json = False, logging: Logging = LOGGING) -> None:
    """List the workers that are alive by the database's clock, and the groups they serve."""
    logging.set_up()
    members = anyio.run(database.ask, lambda admin: admin.members())
    if as_json:
        print_json([_as_json(member) for member in members])
        return
    print_table(
        ("member", "host", "pid", "groups", "alive until"),
        [(m.member, m.host, m.pid, ", ".join(_groups(m)), timestamp(m.alive_until)) for m in members],
    )
    if not members:
        say("No worker is alive: start one with `streams worker MODULE:APP`.")


def _groups(member: MemberRow) -> list[str]:
    return sorted({group for group, _ in member.serves})


def _as_json(member: MemberRow) -> dict[str, object]:
    return {
        "member": member.member,
        "host": member.host,
        "pid": member.pid,
        "groups": _groups(member),
        "alive_until": timestamp(member.alive_until),
    }
