"""What groups keep when their coordinator, or its Postgres, is killed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from kio.schema.errors import ErrorCode

from tests.broker.groups.conftest import SETTINGS
from tests.crash.external_postgres import ExternalPostgres, external_postgres
from tests.support.broker import BrokerProcess, start_broker
from tests.support.group_members import Member, stable
from tests.support.group_wire import (
    codes,
    commit_request,
    committed,
    consumer_heartbeat_request,
    fetch_request,
    join_request,
    new_member_id,
)
from tests.support.ports import free_port
from tests.support.wire import WireClient

NONE = ErrorCode.none
PATIENCE_S = 30.0
AGAIN = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}
"""What makes every stock client try again."""


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[ExternalPostgres]:
    with external_postgres(tmp_path / "external") as server:
        yield server


class Killable:
    """A broker that comes back at its address."""

    def __init__(self, data: Path, postgres: ExternalPostgres) -> None:
        self._data = data
        self._arguments = ("--postgres", postgres.dsn, *SETTINGS)
        self._listen = f"127.0.0.1:{free_port()}"
        self.process = self.start()

    def start(self) -> BrokerProcess:
        self.process = start_broker(self._data, *self._arguments, listen=self._listen)
        return self.process

    @asynccontextmanager
    async def client(self) -> AsyncIterator[WireClient]:
        async with await WireClient.connect(self._listen) as client:
            yield client


@pytest.fixture
def killable(tmp_path: Path, postgres: ExternalPostgres) -> Iterator[Killable]:
    broker = Killable(tmp_path / "broker", postgres)
    yield broker
    broker.process.stop()


async def test_members_go_on_after_their_coordinator_was_killed(killable: Killable) -> None:
    # Given a stable group of two, a consumer group of one, and offsets
    me = new_member_id()
    async with killable.client() as one, killable.client() as two:
        await one.create_topic("t", 2)
        first, second = Member(one, "g"), Member(two, "g")
        await stable(first, second)
        assert await first.commit("t", {0: (5, "note")}) == [NONE]
        joining = consumer_heartbeat_request("modern", me, 0, subscribed_topic_names=("t",))
        epoch = (await one.ask(joining)).member_epoch

    # When the broker is killed and comes back
    killable.process.kill()
    killable.start()

    # Then all members heartbeat on, in the same generation, with their assignments
    async with killable.client() as one, killable.client() as two:
        first.client, second.client = one, two
        async with asyncio.timeout(PATIENCE_S):
            while (code := await first.heartbeat()) in AGAIN:
                await asyncio.sleep(0.02)
        assert code == NONE
        assert await second.heartbeat() == NONE
        synced = await second.sync()
        assert (synced.error_code, synced.assignment) == (NONE, second.member_id.encode())
        beat = await one.ask(consumer_heartbeat_request("modern", me, epoch))
        assert (beat.error_code, beat.member_epoch) == (NONE, epoch)

        # And the offsets are there, and more can be committed
        assert await second.commit("t", {1: 7}) == [NONE]
        answer = await one.ask(fetch_request("g", None))
        assert committed(answer) == {"t": {0: (5, "note"), 1: (7, "")}}


async def test_while_postgres_is_away_everybody_is_told_to_try_again(
    killable: Killable, postgres: ExternalPostgres
) -> None:
    # Given a stable group with an offset
    async with killable.client() as client:
        await client.create_topic("t")
        member = Member(client, "g")
        await stable(member)
        assert await member.commit("t", {0: 5}) == [NONE]

        # When Postgres is killed
        postgres.kill_all()

        # Then heartbeats do not need it
        assert await member.heartbeat() == NONE

        # And whatever needs it is refused in a way that clients repeat
        (code,) = await member.commit("t", {0: 6})
        assert code in AGAIN
        assert (await client.ask(join_request("new", version=3))).error_code in AGAIN
        fetched = await client.ask(fetch_request("g", {"t": [0]}, version=8))
        assert fetched.groups[0].error_code == ErrorCode.coordinator_load_in_progress
        for version in range(1, 8):  # some clients look at the code of the group, some at these
            answer = await client.ask(fetch_request("g", {"t": [0, 1]}, version=version))
            assert codes(answer) == [ErrorCode.coordinator_load_in_progress] * 2
            assert version == 1 or answer.error_code == ErrorCode.coordinator_load_in_progress
        request = commit_request("new", {"t": {0: 1}})
        assert codes(await client.ask(request))[0] in AGAIN

        # And when it is back, the same member commits on in its generation
        postgres.start()
        async with asyncio.timeout(PATIENCE_S):
            while (code := (await member.commit("t", {0: 7}))[0]) in AGAIN:
                await asyncio.sleep(0.02)
        assert code == NONE
        assert await member.heartbeat() == NONE
        answer = await client.ask(fetch_request("g", {"t": [0]}))
        assert committed(answer) == {"t": {0: (7, "")}}


FindOffset = Callable[[], Awaitable[int | None]]
"""Ask a client what the group "g" committed of the first partition of "t"; None for nothing."""


@asynccontextmanager
async def aiokafka_finds(bootstrap: str) -> AsyncIterator[FindOffset]:
    """It looks at the codes of partitions only."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id="g", enable_auto_commit=False)
    await consumer.start()
    try:
        yield lambda: consumer.committed(TopicPartition("t", 0))
    finally:
        await consumer.stop()


@asynccontextmanager
async def librdkafka_finds(bootstrap: str) -> AsyncIterator[FindOffset]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})

    async def find() -> int | None:
        wanted = [confluent_kafka.TopicPartition("t", 0)]
        (found,) = await asyncio.to_thread(consumer.committed, wanted, timeout=PATIENCE_S)
        return None if found.offset < 0 else int(found.offset)

    try:
        yield find
    finally:
        consumer.close()


@pytest.mark.parametrize("finds", [aiokafka_finds, librdkafka_finds])
async def test_no_client_takes_an_offset_that_cannot_be_read_for_none(
    finds: Callable[[str], AbstractAsyncContextManager[FindOffset]],
    killable: Killable,
    postgres: ExternalPostgres,
) -> None:
    # Given a group with an offset, and a consumer that has not read it yet
    async with killable.client() as client:
        await client.create_topic("t")
        await client.ask(commit_request("g", {"t": {0: 5}}))
    async with finds(killable.process.bootstrap) as find:
        # When it asks while Postgres is away
        postgres.kill_all()
        found = asyncio.ensure_future(find())
        ended, _ = await asyncio.wait([found], timeout=3)

        # Then it goes on asking
        assert not ended

        # And finds the offset when Postgres is back
        postgres.start()
        async with asyncio.timeout(PATIENCE_S):
            assert await found == 5
