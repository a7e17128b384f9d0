"""Topics that one broker has changed, and what another is asked about them at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from uuid import UUID

import asyncpg
import pytest
from kio.schema.errors import ErrorCode

from sql import query
from tests.broker.admin.pair import PATIENCE_S, Pair
from tests.broker.admin.questions import (
    SET,
    TOPIC,
    add_partitions,
    change,
    create,
    delete,
    delete_by_id,
    partitions_of,
)
from tests.broker.admin.questions import describe as describe_configs
from tests.broker.admin.wire import Wire
from tests.support.wire import WireClient

GLANCE_S: Final = 0.02


@pytest.mark.parametrize(("kind", "config"), [(TOPIC, "segment.ms"), (16, "interval.ms")])
def test_what_one_broker_was_told_another_tells(pair: Pair, kind: int, config: str) -> None:
    # Given a topic, and a subscription
    (one, other), name = pair.wires, f"told-{kind}"
    assert kind != TOPIC or create(one, name).error_code is ErrorCode.none

    for value in ("10000", "20000", "30000"):
        # When it is altered at one broker
        changed = change(one, name, (config, SET, value), kind=kind)
        assert changed.error_code is ErrorCode.none

        # Then the other knows
        (found,) = describe_configs(other, name, kind=kind, keys=(config,)).configs
        assert found.value == value


async def test_a_topic_is_known_to_all_who_ask_another_broker_at_a_time(
    pair: Pair, topic: str
) -> None:
    # Given clients of one broker that have asked it for a topic that there is not
    one, other = pair.brokers
    async with AsyncExitStack() as connections:
        clients = [
            await connections.enter_async_context(await WireClient.connect(other.bootstrap))
            for _ in range(8)
        ]
        for client in clients:
            (unknown,) = (await client.describe(topic)).topics
            assert unknown.error_code is ErrorCode.unknown_topic_or_partition

        # When it is made at another, and they ask again, all at a time
        assert create(Wire("127.0.0.1", one.port), topic).error_code is ErrorCode.none
        answers = await asyncio.gather(*(client.describe(topic) for client in clients))

    # Then it is known to each
    assert [answer.topics[0].error_code for answer in answers] == [ErrorCode.none] * len(clients)


def _make_again(wire: Wire, topic: str) -> None:
    assert delete(wire, topic)[0].error_code is ErrorCode.none
    assert create(wire, topic).error_code is ErrorCode.none


def test_a_topic_that_was_made_again_elsewhere_can_be_deleted(pair: Pair, topic: str) -> None:
    # Given a topic that two brokers know, and one has made again
    one, other = pair.wires
    assert create(one, topic).error_code is ErrorCode.none
    assert _exists(other, topic)
    _make_again(one, topic)

    # When the other is to delete it, then it does
    assert delete(other, topic)[0].error_code is ErrorCode.none
    assert not _exists(other, topic)


def test_a_topic_that_was_made_again_elsewhere_can_grow(pair: Pair, topic: str) -> None:
    # Given a topic that two brokers know, and one has made again
    one, other = pair.wires
    assert create(one, topic).error_code is ErrorCode.none
    assert _exists(other, topic)
    _make_again(one, topic)

    # When the other is to add partitions, then it does; then it can shrink at neither
    assert add_partitions(other, topic, 3).error_code is ErrorCode.none
    assert add_partitions(one, topic, 2).error_code is ErrorCode.invalid_partitions


def test_a_topic_that_was_deleted_elsewhere_can_be_made_again(pair: Pair, topic: str) -> None:
    # Given a topic that two brokers know, and one has deleted
    one, other = pair.wires
    assert create(one, topic).error_code is ErrorCode.none
    assert _exists(other, topic)
    assert delete(one, topic)[0].error_code is ErrorCode.none

    # When the other is to make it, or only to say whether it can, then it does
    assert create(other, topic, check=True).error_code is ErrorCode.none
    assert create(other, topic).error_code is ErrorCode.none


def _exists(wire: Wire, topic: str) -> bool:
    ((found,), _) = partitions_of(wire, topic)
    return bool(found.error_code == ErrorCode.none)


@asynccontextmanager
async def _made_again_before(
    change: str, pair: Pair, topic_id: UUID, topic: str
) -> AsyncIterator[None]:
    """Make a topic again, which others see once somebody waits for that `change` of it."""
    async with AsyncExitStack() as connections:
        database, watcher = [await asyncpg.connect(pair.dsn) for _ in range(2)]
        connections.push_async_callback(database.close)
        connections.push_async_callback(watcher.close)
        async with database.transaction(), asyncio.timeout(PATIENCE_S):
            await database.execute(query("topic_delete"), topic_id)
            await database.execute(query("topic_create"), topic, 1, 1, "{}")
            yield
            while not await watcher.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()"
                " AND strpos(query, $1) > 0",
                change,
            ):
                await asyncio.sleep(GLANCE_S)


async def test_a_change_goes_to_the_topic_that_was_made_again_meanwhile(
    pair: Pair, topic: str
) -> None:
    # Given a topic
    wire = pair.wires[0]
    old = create(wire, topic).topic_id

    # When it is to grow while it is made again, then the new one does
    async with _made_again_before("add_partitions", pair, old, topic):
        growing = asyncio.create_task(asyncio.to_thread(add_partitions, wire, topic, 3))
    assert (await growing).error_code is ErrorCode.none
    ((found,), _) = partitions_of(wire, topic)
    assert found.topic_id != old
    assert len(found.partitions) == 3

    # When it is to be deleted while it is made again, then the new one is
    async with _made_again_before("delete_topic", pair, found.topic_id, topic):
        deleting = asyncio.create_task(asyncio.to_thread(delete, wire, topic))
    assert (await deleting)[0].error_code is ErrorCode.none
    assert not _exists(wire, topic)


async def test_who_deletes_by_id_does_not_mean_the_topic_that_was_made_again(
    pair: Pair, topic: str
) -> None:
    # Given a topic
    wire = pair.wires[0]
    old = create(wire, topic).topic_id

    # When the topic with its id is to be deleted while it is made again
    async with _made_again_before("delete_topic", pair, old, topic):
        deleting = asyncio.create_task(asyncio.to_thread(delete_by_id, wire, old))

    # Then that is gone, and the new one stays
    assert (await deleting).error_code is ErrorCode.unknown_topic_id
    assert _exists(wire, topic)
