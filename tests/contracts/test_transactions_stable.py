"""What storage/metadata/transactions.py promises, asked of every metadata store: what is stable."""

from collections.abc import AsyncIterator

import pytest

from storage.errors import UnknownPartition
from storage.metadata.port import TransactionUse
from storage.metadata.transactions import ProducerState, Verdict
from storage.segment_entry import SegmentEntry
from tests.contracts.metadata_stores import (
    KINDS,
    a_batch,
    commit,
    reserved,
    short,
    whole_log,
    write,
)
from tests.contracts.transaction_stores import Transactions, open_transactions

NONE, ADDED, ADDS = TransactionUse.NONE, TransactionUse.ADDED, TransactionUse.ADDS


@pytest.fixture(params=KINDS)
async def transactions(request: pytest.FixtureRequest) -> AsyncIterator[Transactions]:
    """Each store in turn, empty."""
    async with open_transactions(request.param) as opened:
        yield opened


async def test_what_is_stable_ends_where_the_earliest_open_transaction_begins(
    transactions: Transactions,
) -> None:
    # Given three overlapping transactions in a partition, with records of nobody between
    (partition,) = await transactions.partitions(1)
    one, two, three = [await transactions.producer(name) for name in ("one", "two", "three")]
    await commit(transactions.store, [a_batch(partition, 0)])
    assert await transactions.stands(partition) == (10, 10, 0)
    assert await transactions.send(one, partition) == 10
    assert await transactions.send(two, partition) == 20
    await commit(transactions.store, [a_batch(partition, 0)])
    assert await transactions.send(one, partition, 10) == 40
    assert await transactions.send(three, partition) == 50
    assert await transactions.stands(partition) == (60, 10, 0)

    # When the middle one is aborted, then what is stable does not move, but it is written down
    outcome = await transactions.end(two, committed=False)
    assert outcome.markers[partition].high_watermark == 61
    assert outcome.markers[partition].last_stable_offset == 10
    assert outcome.markers[partition].aborted_count == 1
    assert await transactions.stands(partition) == (61, 10, 1)
    assert await transactions.aborted(partition) == [(two.producer_id, 20, 60)]

    # And when the first is committed, then it moves to the last
    await transactions.end(one)
    assert await transactions.stands(partition) == (62, 50, 1)

    # And with the last to the end; the aborted ones are in the order of their markers
    await transactions.end(three, committed=False)
    assert await transactions.stands(partition) == (63, 63, 2)
    two_range, three_range = (two.producer_id, 20, 60), (three.producer_id, 50, 62)
    assert await transactions.aborted(partition) == [two_range, three_range]

    # And one finds those that have records in a range
    assert await transactions.aborted(partition, 0, 20) == []
    assert await transactions.aborted(partition, 0, 21) == [two_range]
    assert await transactions.aborted(partition, 59, 60) == [two_range, three_range]
    assert await transactions.aborted(partition, 61, 99) == [three_range]
    assert await transactions.aborted(partition, 63, 99) == []
    assert await transactions.aborted(partition, 0, 99, limit=1) == [two_range]


async def test_partitions_are_stable_each_for_itself(transactions: Transactions) -> None:
    # Given transactions that overlap in one partition only
    first, second, third = await transactions.partitions(3)
    one, two = await transactions.producer("one"), await transactions.producer("two")
    await transactions.send(one, first)
    await transactions.send(one, second)
    await transactions.send(two, second)
    await transactions.send(two, third)

    # When one is aborted
    outcome = await transactions.end(one, committed=False)

    # Then it moves in its own, and where the other is open only as far as that
    assert {each: found.last_stable_offset for each, found in outcome.markers.items()} == {
        first: 11,
        second: 10,
    }
    assert await transactions.stands(third) == (10, 0, 0)
    assert await transactions.aborted(third) == []
    await transactions.end(two)
    assert [await transactions.stands(each) for each in (first, second, third)] == [
        (11, 11, 1),
        (22, 22, 1),
        (11, 11, 0),
    ]


async def test_a_commit_tells_what_is_stable_at_its_end(transactions: Transactions) -> None:
    # Given a partition with an aborted transaction, and one that is open nowhere
    first, second = await transactions.partitions(2)
    one, two = await transactions.producer("one"), await transactions.producer("two")
    await transactions.send(two, first)
    two = await transactions.goes_on(two, committed=False)

    # When an object has records of nobody, then the first of a transaction, and others
    path = await reserved(transactions.store)
    turns = [
        (first, None, 0),
        (first, one, 0),
        (first, one, 77),
        (first, two, 0),
        (first, one, 10),
        (first, one, 0),
        (second, None, 0),
        (second, two, 0),
    ]
    batches = [
        a_batch(partition, 100 * number)
        if producer is None
        else a_batch(
            partition,
            100 * number,
            producer=producer.producer_id,
            owner=producer.transactional_id,
            epoch=producer.producer_epoch,
            sequence=sequence,
            transaction=ADDS,
        )
        for number, (partition, producer, sequence) in enumerate(turns)
    ]
    outcomes = await transactions.store.commit_object(path, 800, batches)

    # Then each batch is told the same of its partition, also when the answer is repeated later
    assert [short(outcome) for outcome in outcomes] == [
        11,
        21,
        "OutOfOrderSequence",
        31,
        41,
        "duplicate of 21",
        0,
        10,
    ]
    stable = [(outcome.last_stable_offset, outcome.aborted_count) for outcome in outcomes]
    assert stable == [(21, 1), (21, 1), (-1, -1), (21, 1), (21, 1), (21, 1), (10, 0), (10, 0)]
    await transactions.end(one)
    again = await transactions.store.commit_object(path, 800, batches)
    assert [short(outcome) for outcome in again] == [short(outcome) for outcome in outcomes]
    assert [(each.last_stable_offset, each.aborted_count) for each in again] == stable
    assert await transactions.stands(first) == (52, 31, 1)


async def test_batches_of_one_object_see_each_other(transactions: Transactions) -> None:
    # Given a producer without a transaction, and a partition
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()

    # When an object has batches that need the partition to be added, that add it, and of none
    turns = [(ADDED, 0), (NONE, 0), (ADDS, 10), (ADDED, 20), (NONE, 30), (ADDS, 30), (ADDED, 40)]
    batches = [
        a_batch(
            partition,
            100 * number,
            producer=producer.producer_id,
            owner=producer.transactional_id,
            epoch=producer.producer_epoch,
            sequence=sequence,
            transaction=use,
        )
        for number, (use, sequence) in enumerate(turns)
    ]
    outcomes = await commit(transactions.store, batches)

    # Then each is judged as if it had come alone, one after the other
    assert [short(outcome) for outcome in outcomes] == [
        "InvalidTransactionState",
        0,
        10,
        20,
        "InvalidTransactionState",
        30,
        40,
    ]
    assert await transactions.stands(partition) == (50, 10, 0)
    assert (await transactions.record()).partitions == [partition]


async def test_a_marker_lies_in_the_index(transactions: Transactions) -> None:
    # Given a transaction with records in one partition, and none in another
    first, second = await transactions.partitions(2)
    producer = await transactions.producer()
    await transactions.send(producer, first)
    await transactions.store.add_to_transaction(producer, [second])

    # When it is aborted
    outcome = await transactions.end(producer, committed=False, timestamp_ms=1234)
    assert list(outcome.markers) == [first, second]

    # Then the marker is the last record of each
    for partition, offset in ((first, 10), (second, 0)):
        assert (await whole_log(transactions.store, partition))[-1] == SegmentEntry(
            start_offset=offset,
            end_offset=offset,
            path=f"{partition.topic_id}/{partition.index}@{offset}",
            start=0,
            length=len(b"abort!!"),
            max_timestamp_ms=1234,
            inline=b"abort!!",
        )
        found = await transactions.store.find_timestamp(partition, 1000)
        assert found is not None
        assert found.inline == b"abort!!"
        assert await transactions.store.find_max_timestamp(partition) == found

    # And it is an aborted range only where there is something to skip
    assert await transactions.aborted(first) == [(producer.producer_id, 0, 10)]
    assert await transactions.aborted(second) == []
    assert await transactions.stands(second) == (1, 1, 0)


async def test_producers_are_described(transactions: Transactions) -> None:
    # Given an idempotent producer, one with an open transaction, and one that has ended its own
    first, second = await transactions.partitions(2)
    idempotent = await transactions.store.allocate_producer_ids(1)
    await write(transactions.store, first, idempotent, 3, 0)
    ended, going = await transactions.producer("ended"), await transactions.producer("going")
    await transactions.send(ended, first)
    await transactions.send(going, first)
    await transactions.send(going, first, 10)
    await transactions.end(ended)

    # Then each is as it last wrote
    states = await transactions.store.producer_states([first, second])
    assert states[second] == []
    times = [state.last_timestamp_ms for state in states[first]]
    assert min(times) > 0
    described = [
        (idempotent, 3, 9, -1),
        (ended.producer_id, 1, -1, -1),
        (going.producer_id, 0, 19, 20),
    ]
    assert states[first] == [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_sequence=last_sequence,
            last_timestamp_ms=last_timestamp_ms,
            transaction_start_offset=start_offset,
        )
        for (producer_id, epoch, last_sequence, start_offset), last_timestamp_ms in zip(
            described, times, strict=True
        )
    ]


async def test_aborted_ranges_go_with_their_topic(transactions: Transactions) -> None:
    # Given a partition with an aborted transaction
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.send(producer, partition)
    assert (await transactions.end(producer, committed=False)).verdict is Verdict.DONE
    assert len(await transactions.aborted(partition)) == 1

    # When its topic is deleted, then nobody speaks of it any more
    await transactions.store.delete_topic(partition.topic_id)
    with pytest.raises(UnknownPartition):
        await transactions.aborted(partition)


async def test_what_is_stable_is_never_before_the_start(transactions: Transactions) -> None:
    # Given a partition with two open transactions, and records of nobody before, between and after
    (partition,) = await transactions.partitions(1)
    one, two = await transactions.producer("one"), await transactions.producer("two")
    await commit(transactions.store, [a_batch(partition, 0)])
    assert await transactions.send(one, partition) == 10
    await commit(transactions.store, [a_batch(partition, 0)])
    assert await transactions.send(two, partition) == 30
    await commit(transactions.store, [a_batch(partition, 0)])

    # When records are deleted before, in and behind the first of them
    stands = []
    for offset in (10, 20, 40):
        found = await transactions.store.delete_records({partition: offset})
        assert await transactions.store.partition_offsets([partition]) == found
        stands.append((found[partition].log_start_offset, found[partition].last_stable_offset))

    # Then what is stable does not end before the start, also when the first has ended
    assert stands == [(10, 10), (20, 20), (40, 40)]
    await transactions.end(one, committed=False)
    assert await transactions.stands(partition) == (51, 40, 1)
    assert await transactions.send(two, partition, 10) == 51
    assert await transactions.stands(partition) == (61, 40, 1)

    # And ends as ever when both have
    await transactions.end(two, committed=False)
    assert await transactions.stands(partition) == (62, 62, 2)
    assert await transactions.aborted(partition, 40) == [
        (one.producer_id, 10, 50),
        (two.producer_id, 30, 61),
    ]
