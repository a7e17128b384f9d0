"""What a leader that was overtaken still had under way is refused, by every metadata store."""

from collections.abc import AsyncIterator

import pytest

from protocol.ids import Partition
from storage.metadata.port import MetadataStore
from tests.contracts.metadata_stores import (
    KINDS,
    a_batch,
    commit,
    create_partitions,
    open_store,
    short,
)

OLD, NEW = 7, 8


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[MetadataStore]:
    """Each store in turn, empty."""
    async with open_store(request.param) as opened:
        yield opened.store


async def send(store: MetadataStore, partition: Partition, sequence: int, leader_epoch: int) -> str:
    """Commit ten records of producer 1; return what became of them."""
    batch = a_batch(partition, 0, producer=1, epoch=0, sequence=sequence, leader_epoch=leader_epoch)
    return str(short(*await commit(store, [batch])))


async def test_what_a_new_leader_called_out_of_order_is_not_put_in_order_later(
    store: MetadataStore,
) -> None:
    # Given a producer whose second batch is under way at a leader that does not move
    (partition,) = await create_partitions(store, 1)
    assert await send(store, partition, 0, OLD) == "0"

    # When the third comes to a new leader, which refuses it
    assert await send(store, partition, 20, NEW) == "OutOfOrderSequence"

    # Then the second does not turn up any more: the producer may have begun a new epoch with it
    assert await send(store, partition, 10, OLD) == "FencedLeaderEpoch"
    assert await send(store, partition, 10, NEW) == "10"


async def test_only_partitions_that_were_overtaken_are_refused(store: MetadataStore) -> None:
    # Given two partitions, of which one has a new leader
    first, second = await create_partitions(store, 2)
    await commit(store, [a_batch(first, 0, leader_epoch=NEW)])

    # When the old leader of both commits an object
    batches = [a_batch(first, 0, leader_epoch=OLD), a_batch(second, 100, leader_epoch=OLD)]
    outcomes = await commit(store, batches)

    # Then only what is for the other one is in the log
    assert [short(outcome) for outcome in outcomes] == ["FencedLeaderEpoch", 0]
    offsets = await store.partition_offsets([first, second])
    assert [offsets[each].high_watermark for each in (first, second)] == [10, 10]


async def test_batches_that_were_taken_before_and_after_count_as_taken_before(
    store: MetadataStore,
) -> None:
    # Given an object with batches of a leader from before and after the brokers changed
    (partition,) = await create_partitions(store, 1)
    both = [a_batch(partition, 0, leader_epoch=OLD), a_batch(partition, 100, leader_epoch=NEW)]
    assert [short(outcome) for outcome in await commit(store, both)] == [0, 10]

    # When others come that were taken before, then they are not overtaken
    assert [short(*await commit(store, [a_batch(partition, 0, leader_epoch=OLD)]))] == [20]

    # Until all of an object was taken after
    assert [short(*await commit(store, [a_batch(partition, 0, leader_epoch=NEW)]))] == [30]
    older = await commit(store, [a_batch(partition, 0, leader_epoch=OLD)])
    assert [short(*older)] == ["FencedLeaderEpoch"]
