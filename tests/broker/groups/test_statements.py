"""What groups cost Postgres: counted in the server's log of all statements."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.broker.groups.conftest import SETTINGS
from tests.support.broker import start_broker
from tests.support.group_members import Member, stable
from tests.support.group_wire import consumer_heartbeat_request, new_member_id
from tests.support.postgres import create_database, postgres_server
from tests.support.wire import WireClient

OF_GROUPS = re.compile(r"write_groups|take_groups|group_offsets|streamhouse_internal\.groups")
ROUNDS = 20


class StatementLog:
    """The statements about groups that the test's database has run."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._start = log.stat().st_size

    def since(self) -> Counter[str]:
        """Count them since the last time, by the function or table that they use."""
        with self._log.open("rb") as log:
            log.seek(self._start)
            text = log.read().decode()
        self._start += len(text.encode())
        statements = text.split("LOG:  ")[1:]
        return Counter(
            found[0]
            for one in statements
            if one.startswith(("statement", "execute")) and (found := OF_GROUPS.search(one))
        )


@pytest.fixture
async def logged(tmp_path: Path) -> AsyncIterator[tuple[WireClient, StatementLog]]:
    """Run a broker on a database that logs every statement."""
    dsn = await create_database()
    connection = await asyncpg.connect(dsn)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE \"{name}\" SET log_statement = 'all'")
    await connection.close()
    log = StatementLog(postgres_server().directory.parent / "server.log")
    broker = await asyncio.to_thread(
        start_broker, tmp_path / "broker", "--postgres", dsn, *SETTINGS
    )
    try:
        async with await WireClient.connect(broker.bootstrap) as client:
            yield client, log
    finally:
        await asyncio.to_thread(broker.stop)


async def test_a_commit_costs_one_statement_and_heartbeats_none(
    logged: tuple[WireClient, StatementLog],
) -> None:
    client, log = logged
    # Given a classic group and a consumer group, both settled
    await client.create_topic("t", 3)
    member = Member(client, "g")
    await stable(member)
    me = new_member_id()
    joining = consumer_heartbeat_request("modern", me, 0, subscribed_topic_names=("t",))
    epoch = (await client.ask(joining)).member_epoch
    assert await member.commit("t", {0: 1}) == [0]  # the log shows what it is looked for
    assert log.since()["write_groups"] > 0

    # When both send heartbeats
    for _ in range(ROUNDS):
        assert await member.heartbeat() == 0
        beat = await client.ask(consumer_heartbeat_request("modern", me, epoch))
        assert beat.error_code == 0

    # Then Postgres hears nothing of it
    assert log.since() == {}

    # And each commit, of several partitions, is one statement
    for offset in range(ROUNDS):
        assert await member.commit("t", {0: offset, 1: offset, 2: offset}) == [0, 0, 0]
    assert log.since() == {"write_groups": ROUNDS}
