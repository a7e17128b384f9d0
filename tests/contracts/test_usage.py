"""What storage/metadata/usage.py promises, asked of every metadata store."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from storage.metadata.port import MetadataStore
from storage.metadata.usage import (
    BROKER_CLIENT,
    DELETED_TOPIC,
    HOUR_MS,
    NO_TOPIC,
    OTHER,
    UsageBy,
    UsageCounts,
    UsageRow,
    UsageTotal,
    hour_of,
)
from tests.contracts.metadata_stores import KINDS, a_batch, commit, create_partitions, open_store

DAY_MS = 24 * HOUR_MS
THEN_MS = hour_of(1_790_000_000_000)  # 2026-09-21T14:00 in UTC


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[MetadataStore]:
    """Each store in turn, empty."""
    async with open_store(request.param) as opened:
        yield opened.store


def a_row(
    topic_id: UUID, client_id: str, *, hour_ms: int = THEN_MS, puts: float = 1.0, produced: int = 0
) -> UsageRow:
    counts = UsageCounts(puts=puts, produced_bytes=produced)
    return UsageRow(hour_ms=hour_ms, topic_id=topic_id, client_id=client_id, counts=counts)


async def topic_named(store: MetadataStore, name: str) -> UUID:
    topic = await store.create_topic(name, partition_count=1, replication_factor=1, configs={})
    return topic.topic_id


async def everything(
    store: MetadataStore, by: UsageBy = UsageBy.TOPIC, limit: int = 100
) -> list[UsageTotal]:
    return await store.usage(0, 2 * THEN_MS, by, limit=limit)


def puts_of(totals: list[UsageTotal]) -> dict[str, float]:
    return {total.key: total.counts.puts for total in totals}


async def test_every_number_is_added_to_its_own(store: MetadataStore) -> None:
    # Given usage of an hour
    topic_id = await topic_named(store, "orders")
    counts = UsageCounts(
        puts=0.25,
        put_bytes=2**40,
        gets=0.5,
        get_bytes=2**41,
        lists=3.0,
        deletes=4.0,
        produced_bytes=2**42,
        fetched_bytes=2**43,
    )
    row = UsageRow(hour_ms=THEN_MS, topic_id=topic_id, client_id="c", counts=counts)
    await store.add_usage([row])

    # When another broker adds the same
    await store.add_usage([row])

    # Then all of it is there twice
    twice = UsageCounts()
    twice.add(counts)
    twice.add(counts)
    assert await everything(store) == [
        UsageTotal(key="orders", first_hour_ms=THEN_MS, counts=twice)
    ]


async def test_usage_is_added_up_by_topic_client_and_day(store: MetadataStore) -> None:
    # Given two topics, three clients, one of them without an id, and work for no topic; two days
    orders, clicks = await topic_named(store, "orders"), await topic_named(store, "clicks")
    await store.add_usage(
        [
            a_row(NO_TOPIC, BROKER_CLIENT, puts=8.0),
            a_row(orders, "one", puts=0.5),
            a_row(orders, "", puts=4.0),
            a_row(clicks, "two", puts=0.25),
            a_row(clicks, "one", hour_ms=THEN_MS + DAY_MS, puts=2.0),
        ]
    )

    # Then each way of adding up has it all, in key order
    by_topic = await everything(store, UsageBy.TOPIC)
    by_client = await everything(store, UsageBy.CLIENT)
    by_day = await everything(store, UsageBy.DAY)
    assert list(puts_of(by_topic).items()) == [("", 8.0), ("clicks", 2.25), ("orders", 4.5)]
    assert list(puts_of(by_client).items()) == [
        *[("", 4.0), ("(broker)", 8.0), ("one", 2.5), ("two", 0.25)]
    ]
    assert list(puts_of(by_day).items()) == [("2026-09-21", 12.75), ("2026-09-22", 2.0)]
    assert [total.first_hour_ms for total in by_day] == [THEN_MS, THEN_MS + DAY_MS]


async def test_only_hours_that_began_in_the_range_count(store: MetadataStore) -> None:
    # Given three hours
    hours = [THEN_MS, THEN_MS + HOUR_MS, THEN_MS + 2 * HOUR_MS]
    await store.add_usage([a_row(NO_TOPIC, "c", hour_ms=hour_ms) for hour_ms in hours])

    # When the second is asked for, then it is there, and neither the first nor the third
    (total,) = await store.usage(hours[1], hours[2], UsageBy.CLIENT, limit=10)
    assert (total.first_hour_ms, total.counts.puts) == (hours[1], 1.0)
    assert await store.usage(hours[0] + 1, hours[1], UsageBy.CLIENT, limit=10) == []


async def test_beyond_the_limit_keys_are_taken_together(store: MetadataStore) -> None:
    # Given clients with different numbers of requests, and one that is called like the rest
    clients = {"a": 1.0, "b": 16.0, "c": 2.0, "d": 8.0, OTHER: 4.0}
    await store.add_usage([a_row(NO_TOPIC, name, puts=puts) for name, puts in clients.items()])

    # When two are asked for, then those with the most requests are, and the rest as one
    few = await everything(store, UsageBy.CLIENT, limit=2)
    assert list(puts_of(few).items()) == [(OTHER, 7.0), ("b", 16.0), ("d", 8.0)]
    three = await everything(store, UsageBy.CLIENT, limit=3)
    assert list(puts_of(three).items()) == [(OTHER, 7.0), ("b", 16.0), ("d", 8.0)]


async def test_a_topic_keeps_its_name_when_it_is_gone(store: MetadataStore) -> None:
    # Given usage of a topic
    topic_id = await topic_named(store, "orders")
    await store.add_usage([a_row(topic_id, "c")])

    # When it is deleted, more is added, and there is one of the same name again
    await store.delete_topic(topic_id)
    await store.add_usage([a_row(topic_id, "c")])
    again = await topic_named(store, "orders")
    await store.add_usage([a_row(again, "c")])

    # Then all of it is under that name; what nobody knew when it was added has none
    await store.add_usage([a_row(uuid4(), "c")])
    assert puts_of(await everything(store)) == {DELETED_TOPIC: 1.0, "orders": 3.0}


@pytest.mark.parametrize("client_id", ["", "a\x00b\x01", "é" * 255, "𝄞" * 255, "(upkeep)"])
async def test_a_client_may_call_itself_as_it_likes(store: MetadataStore, client_id: str) -> None:
    await store.add_usage([a_row(NO_TOPIC, client_id)])
    await store.add_usage([a_row(NO_TOPIC, client_id)])
    assert puts_of(await everything(store, UsageBy.CLIENT)) == {client_id: 2.0}


async def test_old_hours_are_forgotten_a_few_at_a_time(store: MetadataStore) -> None:
    # Given three hours long ago, and one to come
    old = [HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS]
    to_come = hour_of(10**13)
    await store.add_usage([a_row(NO_TOPIC, "c", hour_ms=hour_ms) for hour_ms in [*old, to_come]])

    # When what is older than now is forgotten, then the oldest go first, and no more than told
    keep_ms = -10 * DAY_MS  # a clock in memory stands still at 0
    assert await store.forget_usage(keep_ms, 2) == 2
    (left,) = await store.usage(0, 2 * to_come, UsageBy.CLIENT, limit=10)
    assert (left.first_hour_ms, left.counts.puts) == (3 * HOUR_MS, 2.0)
    assert await store.forget_usage(keep_ms, 2) == 1
    assert await store.forget_usage(keep_ms, 2) == 0
    (left,) = await store.usage(0, 2 * to_come, UsageBy.CLIENT, limit=10)
    assert left.first_hour_ms == to_come


async def test_what_is_stored_is_what_the_index_names(store: MetadataStore) -> None:
    # Given an empty store
    nothing = await store.stored_bytes()
    assert (nothing.topics, nothing.total) == ({}, 0)

    # When objects have batches of two topics, and a third topic has none
    (orders,) = await create_partitions(store, 1)
    clicks, more_clicks = await create_partitions(store, 2)
    await create_partitions(store, 1)
    changes = await store.topic_changes(0)
    name = {topic.topic_id: topic.name for topic in changes.changed}
    batches = sorted([orders, clicks, more_clicks])
    await commit(store, [a_batch(each, at * 100) for at, each in enumerate(batches)])
    await commit(store, [a_batch(orders, 0, length=1000)])

    # Then each topic has its bytes, and all objects together no less
    stored = await store.stored_bytes()
    assert stored.topics == {name[orders.topic_id]: 1100, name[clicks.topic_id]: 200}
    assert stored.total >= 1300

    # When a topic is deleted, then its bytes are there, but nobody's
    await store.delete_topic(clicks.topic_id)
    after = await store.stored_bytes()
    assert after.topics == {name[orders.topic_id]: 1100}
    assert after.total == stored.total
