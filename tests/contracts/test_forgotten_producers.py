"""Which producers may go on where nothing is known of them, asked of every metadata store.

Only those of which something may be forgotten: else a first batch that is not sequence 0 comes
before one that was refused, and a client that hears that it is in the log takes that one for
written.
"""

from collections.abc import AsyncIterator

import pytest

from protocol.ids import Partition
from storage.metadata.port import TransactionUse
from tests.contracts.metadata_stores import KINDS, create_partitions, write
from tests.contracts.segment_side import HOUR_MS, Segments, open_segments

EARLY = "OutOfOrderSequence"
FOREIGN = 2**60


@pytest.fixture(params=KINDS)
async def segments(request: pytest.FixtureRequest) -> AsyncIterator[Segments]:
    """Each store in turn, empty."""
    async with open_segments(request.param) as opened:
        yield opened


async def test_a_second_batch_waits_for_the_first(segments: Segments) -> None:
    # Given a producer whose first batch was refused, as its leader was overtaken
    (partition,) = await segments.partitions(1)
    producer = await segments.store.allocate_producer_ids(1)

    # When the second comes before the first comes again, then it is refused, too
    assert await write(segments.store, partition, producer, 0, 10) == EARLY
    assert await write(segments.store, partition, producer, 0, 0) == 0
    assert await write(segments.store, partition, producer, 0, 10) == 10


async def test_a_producer_that_was_forgotten_goes_on(segments: Segments) -> None:
    # Given three producers, of which the second wrote to a partition, long ago
    partition, other = await segments.partitions(2)
    older = await segments.store.allocate_producer_ids(3)
    forgotten, newer = older + 1, older + 2
    assert await write(segments.store, partition, forgotten, 0, 0) == 0
    await segments.passes(2 * HOUR_MS)
    assert await write(segments.store, partition, newer, 0, 0) == 10

    # When it is forgotten, then it goes on; so does who may have been forgotten earlier
    assert await segments.forget_producers(HOUR_MS) == 1
    assert await write(segments.store, partition, forgotten, 0, 10) == 20
    assert await write(segments.store, partition, older, 0, 70) == 30

    # But nobody who came later, and nobody elsewhere
    assert await write(segments.store, partition, newer, 0, 30) == EARLY
    latest = await segments.store.allocate_producer_ids(1)
    assert await write(segments.store, partition, latest, 0, 10) == EARLY
    assert await write(segments.store, other, forgotten, 0, 10) == EARLY


async def test_a_producer_of_another_cluster_goes_on(segments: Segments) -> None:
    # Given a producer that was led here from another cluster, under the same name
    (partition,) = await segments.partitions(1)
    producer = await segments.store.allocate_producer_ids(1)
    assert await write(segments.store, partition, producer + 1, 0, 70) == 0

    # Then its batches follow each other, and the cluster's own producers begin with 0
    assert await write(segments.store, partition, producer + 1, 0, 70) == "duplicate of 0"
    assert await write(segments.store, partition, producer + 1, 0, 90) == EARLY
    assert await write(segments.store, partition, producer + 1, 0, 80) == 10
    assert await write(segments.store, partition, producer, 0, 70) == EARLY


async def test_a_producer_of_another_cluster_that_is_forgotten_lets_nobody_else_go_on(
    segments: Segments,
) -> None:
    # Given a partition that has forgotten one of its own producers, and one of another cluster
    (partition,) = await segments.partitions(1)
    own = await segments.store.allocate_producer_ids(1)
    assert await write(segments.store, partition, own, 0, 0) == 0
    assert await write(segments.store, partition, FOREIGN, 0, 70) == 10
    await segments.passes(2 * HOUR_MS)
    assert await segments.forget_producers(HOUR_MS) == 2

    # Then these two may go on, but nobody who came later
    later = await segments.store.allocate_producer_ids(1)
    assert await write(segments.store, partition, later, 0, 5) == EARLY
    assert await write(segments.store, partition, own, 0, 10) == 20
    assert await write(segments.store, partition, FOREIGN, 0, 80) == 30


async def test_who_is_forgotten_last_counts_whatever_its_id(segments: Segments) -> None:
    # Given two producers that are forgotten one after the other, the newer one first
    (partition,) = await segments.partitions(1)
    older = await segments.store.allocate_producer_ids(2)
    for producer in (older + 1, older):
        assert isinstance(await write(segments.store, partition, producer, 0, 0), int)
        await segments.passes(2 * HOUR_MS)
        assert await segments.forget_producers(HOUR_MS) == 1

    # Then both may go on
    for producer in (older + 1, older):
        assert isinstance(await write(segments.store, partition, producer, 0, 10), int)


async def test_a_producer_goes_on_where_a_topic_was_made_again(segments: Segments) -> None:
    # Given producers that wrote to a topic, which was deleted and made again with fewer partitions
    producer = await segments.store.allocate_producer_ids(2)
    first, second = await create_partitions(segments.store, 2, name="again")
    for partition in (first, second):
        assert await write(segments.store, partition, producer, 0, 0) == 0
    await segments.store.delete_topic(first.topic_id)
    (fresh,) = await create_partitions(segments.store, 1, name="again")
    (other,) = await create_partitions(segments.store, 1)

    # When the first goes on, then it may, also in a partition that comes back later
    assert await write(segments.store, fresh, producer, 0, 10) == 0
    await segments.store.add_partitions(fresh.topic_id, 2)
    assert await write(segments.store, Partition(fresh.topic_id, 1), producer, 0, 10) == 0

    # But not in a topic of another name, nor does one that got its id since
    assert await write(segments.store, other, producer, 0, 10) == EARLY
    later = await segments.store.allocate_producer_ids(1)
    assert await write(segments.store, fresh, later, 0, 10) == EARLY

    # And when it is deleted once more, then that one may, too
    await segments.store.delete_topic(fresh.topic_id)
    (fresh,) = await create_partitions(segments.store, 1, name="again")
    assert await write(segments.store, fresh, later, 0, 10) == 0


async def test_an_older_client_goes_on_in_a_transaction_a_newer_never_does(
    segments: Segments,
) -> None:
    # Given a transactional producer that a partition has forgotten (KIP-890: the newer begin anew)
    transactions = segments.transactions
    (partition,) = await segments.partitions(1)
    producer = await transactions.producer()
    await segments.store.add_to_transaction(producer, [partition])
    assert await transactions.send(producer, partition, 10, use=TransactionUse.ADDED) == EARLY
    assert await transactions.send(producer, partition, 0, use=TransactionUse.ADDED) == 0
    await transactions.end(producer, bumps=False)
    await segments.passes(2 * HOUR_MS)
    assert await segments.forget_producers(HOUR_MS) == 1

    # When it goes on, then that is for its kind to say
    assert await transactions.send(producer, partition, 10, use=TransactionUse.ADDS) == EARLY
    await segments.store.add_to_transaction(producer, [partition])
    assert await transactions.send(producer, partition, 10, use=TransactionUse.ADDED) == 11
