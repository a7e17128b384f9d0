"""What storage/metadata/topics.py promises, asked of every metadata store."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.errors import (
    ConfigsChanged,
    InvalidPartitionCount,
    TopicAlreadyExists,
    UnknownPartition,
)
from storage.metadata.port import MetadataStore
from storage.metadata.topics import Topic
from tests.contracts.metadata_stores import KINDS, a_batch, commit, open_store, whole_log


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[MetadataStore]:
    """Each store in turn, empty."""
    async with open_store(request.param) as opened:
        yield opened.store


async def test_a_topic_is_what_was_asked_for(store: MetadataStore) -> None:
    # When a topic is created
    configs = {"retention.ms": "-1", "compression.type": "lz4"}
    topic = await store.create_topic(
        "orders", partition_count=3, replication_factor=2, configs=configs
    )

    # Then it is as it was asked for, and its partitions are empty
    assert (topic.name, topic.partition_count, topic.replication_factor) == ("orders", 3, 2)
    assert topic.configs == configs
    offsets = await store.partition_offsets([Partition(topic.topic_id, n) for n in range(4)])
    assert {partition.index: found.high_watermark for partition, found in offsets.items()} == {
        0: 0,
        1: 0,
        2: 0,
    }


async def test_a_name_is_taken_until_its_topic_is_deleted(store: MetadataStore) -> None:
    # Given a topic with records
    first = await store.create_topic("t", partition_count=1, replication_factor=1, configs={})
    await commit(store, [a_batch(Partition(first.topic_id, 0), 0)])

    # When its name is asked for again, then it is refused until the topic is deleted
    with pytest.raises(TopicAlreadyExists):
        await store.create_topic("t", partition_count=1, replication_factor=1, configs={})
    await store.delete_topic(first.topic_id)
    second = await store.create_topic("t", partition_count=1, replication_factor=1, configs={})

    # And the new topic has another id, and nothing of the old one's records
    assert second.topic_id != first.topic_id
    assert await whole_log(store, Partition(second.topic_id, 0)) == []
    assert await store.partition_offsets([Partition(first.topic_id, 0)]) == {}
    assert await store.find_max_timestamp(Partition(first.topic_id, 0)) is None


async def test_changes_are_told_since_a_version(store: MetadataStore) -> None:
    # Given a store without topics
    none = await store.topic_changes(0)
    assert (list(none.changed), list(none.deleted)) == ([], [])

    # When topics are created
    one = await store.create_topic("one", partition_count=1, replication_factor=1, configs={})
    two = await store.create_topic("two", partition_count=1, replication_factor=1, configs={})
    created = await store.topic_changes(none.version)
    assert {topic.name for topic in created.changed} == {"one", "two"}

    # And then one is altered and the other deleted
    altered = await store.alter_topic_configs(one.topic_id, {"retention.ms": "1"}, replace=False)
    await store.delete_topic(two.topic_id)

    # Then who asks since then hears of both, and who asks now of nothing
    changes = await store.topic_changes(created.version)
    assert list(changes.changed) == [altered]
    assert list(changes.deleted) == [two.topic_id]
    now = await store.topic_changes(changes.version)
    assert now.server == changes.server == (await store.entity_config_changes(0)).server
    assert (list(now.changed), list(now.deleted), now.version) == ([], [], changes.version)

    # And who knows nothing hears of what is there
    everything = await store.topic_changes(0)
    assert list(everything.changed) == [altered]
    assert list(everything.deleted) == []


async def test_partitions_are_added_and_data_stays(store: MetadataStore) -> None:
    # Given a topic of two partitions with records
    topic = await store.create_topic("t", partition_count=2, replication_factor=1, configs={})
    await commit(store, [a_batch(Partition(topic.topic_id, 0), 0)])
    version = (await store.topic_changes(0)).version

    # When it is grown to four
    grown = await store.add_partitions(topic.topic_id, 4)

    # Then it has two more, empty ones, and that is a change
    assert grown.partition_count == 4
    offsets = await store.partition_offsets([Partition(topic.topic_id, n) for n in range(5)])
    assert [offsets[partition].high_watermark for partition in sorted(offsets)] == [10, 0, 0, 0]
    assert list((await store.topic_changes(version)).changed) == [grown]

    # And it cannot shrink, nor can one be grown that does not exist
    for count in (4, 3):
        with pytest.raises(InvalidPartitionCount):
            await store.add_partitions(topic.topic_id, count)
    with pytest.raises(UnknownPartition):
        await store.add_partitions(uuid4(), 9)


async def test_configs_are_set_unset_and_replaced(store: MetadataStore) -> None:
    # Given a topic with two configs
    topic = await store.create_topic(
        "t", partition_count=1, replication_factor=1, configs={"a": "1", "b": "2"}
    )

    # When one is changed, one unset and one added
    changes = {"a": "9", "b": None, "c": "3"}
    altered = await store.alter_topic_configs(topic.topic_id, changes, replace=False)
    assert altered.configs == {"a": "9", "c": "3"}

    # Or all are replaced
    replaced = await store.alter_topic_configs(topic.topic_id, {"d": "4", "e": None}, replace=True)

    # Then that is what the topic has
    assert replaced.configs == {"d": "4"}
    assert list((await store.topic_changes(0)).changed) == [replaced]
    with pytest.raises(UnknownPartition):
        await store.alter_topic_configs(uuid4(), {}, replace=True)


async def test_a_change_of_configs_that_rests_on_something_else_is_not_made(
    store: MetadataStore,
) -> None:
    # Given a topic with a config
    topic = await store.create_topic(
        "t", partition_count=1, replication_factor=1, configs={"a": "1"}
    )
    version = (await store.topic_changes(0)).version

    async def alter(value: str, expected: dict[str, str]) -> Topic:
        changes = {"a": value}
        return await store.alter_topic_configs(
            topic.topic_id, changes, replace=False, expected=expected
        )

    # When changes rest on something else, then they are not made
    for other in ({}, {"a": "0"}, {"a": "1", "b": "2"}):
        with pytest.raises(ConfigsChanged):
            await alter("9", other)
    assert not (await store.topic_changes(version)).changed

    # And of those at a time that rest on what is set, one is
    done = await asyncio.gather(
        *(alter(each, {"a": "1"}) for each in "2345"), return_exceptions=True
    )
    (made,) = [each for each in done if not isinstance(each, ConfigsChanged)]
    assert list((await store.topic_changes(version)).changed) == [made]
    with pytest.raises(UnknownPartition):
        await store.alter_topic_configs(uuid4(), {}, replace=True, expected={})


async def test_a_thousand_partitions_are_created_at_once(store: MetadataStore) -> None:
    # When a topic of 1,000 partitions is created
    topic = await store.create_topic("t", partition_count=1000, replication_factor=1, configs={})

    # Then all are there, and one object may hold batches of all of them
    batches = [a_batch(Partition(topic.topic_id, n), 100 * n) for n in range(1000)]
    outcomes = await commit(store, batches)
    assert {outcome.base_offset for outcome in outcomes} == {0}
    offsets = await store.partition_offsets([batch.partition for batch in batches])
    assert {found.high_watermark for found in offsets.values()} == {10}
