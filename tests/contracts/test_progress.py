"""What storage/metadata/progress.py promises, asked of every metadata store."""

from collections.abc import AsyncIterator, Mapping

import pytest

from protocol.ids import Partition
from storage.metadata.groups import CommittedOffset, GroupWrite
from storage.metadata.port import BatchCommit, MetadataStore
from storage.metadata.progress import NO_TIMESTAMP, GroupProgress, TopicProgress
from tests.contracts.metadata_stores import KINDS, a_batch, commit, open_store

EVERYTHING = 1000


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[MetadataStore]:
    """Each store in turn, empty."""
    async with open_store(request.param) as opened:
        yield opened.store


async def topic_named(store: MetadataStore, name: str, partitions: int) -> list[Partition]:
    topic = await store.create_topic(
        name, partition_count=partitions, replication_factor=1, configs={}
    )
    return [Partition(topic.topic_id, index) for index in range(partitions)]


async def commit_offsets(
    store: MetadataStore, group_id: str, offsets: Mapping[Partition, int]
) -> None:
    (taken,) = await store.take_groups([group_id], create=True)
    committed = {each: CommittedOffset(offset=offset) for each, offset in offsets.items()}
    write = GroupWrite(group_id=group_id, owner_epoch=taken.owner_epoch, offsets=committed)
    outcome = await store.write_groups([write])
    assert not outcome.fenced
    assert not outcome.unknown


def readable(progress: list[TopicProgress] | list[GroupProgress]) -> list[dict[str, object]]:
    """Return each with plain lists, whatever sequences it has."""
    return [
        {
            name: value if isinstance(value, str) else list(value)
            for name in one.__dataclass_fields__
            for value in (getattr(one, name),)
        }
        for one in progress
    ]


async def test_there_is_no_progress_without_topics_and_groups(store: MetadataStore) -> None:
    assert await store.topic_progress(EVERYTHING) == []
    assert await store.group_progress(EVERYTHING) == []


async def test_each_partition_tells_where_it_begins_and_ends(store: MetadataStore) -> None:
    # Given two topics, the later name first, with records in some partitions, some of them deleted
    orders = await topic_named(store, "orders", 2)
    (clicks,) = await topic_named(store, "clicks", 1)
    await commit(store, sorted_batches(orders[1], clicks))
    await store.delete_records({orders[1]: 4})

    # Then all of it comes in the order of names and partitions
    assert readable(await store.topic_progress(EVERYTHING)) == [
        {
            "topic": "clicks",
            "partitions": [0],
            "log_start_offsets": [0],
            "high_watermarks": [10],
        },
        {
            "topic": "orders",
            "partitions": [0, 1],
            "log_start_offsets": [0, 4],
            "high_watermarks": [0, 10],
        },
    ]

    # And a limit leaves out what comes last
    assert [list(one.partitions) for one in await store.topic_progress(2)] == [[0], [0]]


def sorted_batches(*partitions: Partition) -> list[BatchCommit]:
    return [a_batch(each, at * 100) for at, each in enumerate(sorted(partitions))]


async def test_a_group_lags_by_what_it_has_not_read(store: MetadataStore) -> None:
    # Given three objects of ten records each, produced one second after the other
    (partition,) = await topic_named(store, "orders", 1)
    for at in range(3):
        await commit(store, [a_batch(partition, 0, timestamp_ms=1000 * (at + 1))])

    # When groups have read nothing, some, all; and one has gone beyond, with a log that is gone
    offsets = {"nothing": 0, "some": 10, "more": 19, "all": 30, "beyond": 99}
    for group_id, offset in offsets.items():
        await commit_offsets(store, group_id, {partition: offset})

    # Then each knows its lag, and when the oldest record was produced that it has not read
    progress = {one.group_id: one for one in await store.group_progress(EVERYTHING)}
    told = {
        group_id: (one.committed_offsets[0], one.lags[0], one.unread_since_ms[0])
        for group_id, one in progress.items()
    }
    assert told == {
        "nothing": (0, 30, 1000),
        "some": (10, 20, 2000),
        "more": (19, 11, 2000),
        "all": (30, 0, NO_TIMESTAMP),
        "beyond": (99, 0, NO_TIMESTAMP),
    }
    assert {one.topic for one in progress.values()} == {"orders"}


async def test_records_that_are_gone_are_no_lag(store: MetadataStore) -> None:
    # Given a group behind the log start
    (partition,) = await topic_named(store, "orders", 1)
    for at in range(2):
        await commit(store, [a_batch(partition, 0, timestamp_ms=1000 * (at + 1))])
    await commit_offsets(store, "late", {partition: 3})
    await store.delete_records({partition: 15})

    # Then only what can still be read counts
    (late,) = await store.group_progress(EVERYTHING)
    assert (list(late.lags), list(late.unread_since_ms)) == ([5], [2000])


async def test_groups_come_in_order_and_up_to_a_limit(store: MetadataStore) -> None:
    # Given two groups with offsets of two topics; one that committed nothing; odd names
    orders = await topic_named(store, "orders", 3)
    (clicks,) = await topic_named(store, "clicks", 1)
    everywhere = dict.fromkeys([*orders, clicks], 0)
    for group_id in ("b\x00\x01\n", "a"):
        await commit_offsets(store, group_id, everywhere)
    await store.take_groups(["idle"], create=True)

    # Then they come by group, topic and partition, and a limit leaves out what comes last
    def places(progress: list[GroupProgress]) -> list[tuple[str, str, list[int]]]:
        return [(one.group_id, one.topic, list(one.partitions)) for one in progress]

    assert places(await store.group_progress(EVERYTHING)) == [
        ("a", "clicks", [0]),
        ("a", "orders", [0, 1, 2]),
        ("b\x00\x01\n", "clicks", [0]),
        ("b\x00\x01\n", "orders", [0, 1, 2]),
    ]
    assert places(await store.group_progress(3)) == [("a", "clicks", [0]), ("a", "orders", [0, 1])]

    # And what is deleted is gone
    await store.delete_topic(orders[0].topic_id)
    remaining = await store.group_progress(EVERYTHING)
    assert [(one.group_id, one.topic) for one in remaining] == [
        ("a", "clicks"),
        ("b\x00\x01\n", "clicks"),
    ]
