"""What storage/metadata/segments.py promises, asked of every store: what has had its time."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.errors import MetadataUnavailable, UnknownPartition
from tests.contracts.metadata_stores import KINDS, a_batch, reserved, write
from tests.contracts.segment_side import HOUR_MS, Segments, keeps, open_segments

DAYS_30_MS = 30 * 24 * HOUR_MS  # no 32-bit number


@pytest.fixture(params=KINDS)
async def segments(request: pytest.FixtureRequest) -> AsyncIterator[Segments]:
    """Each store in turn, empty."""
    async with open_segments(request.param) as opened:
        yield opened


async def test_records_go_by_time(segments: Segments) -> None:
    # Given rows of which the third is older than the second
    (partition,) = await segments.partitions(1)
    for timestamp_ms in (DAYS_30_MS, DAYS_30_MS + 20, DAYS_30_MS + 5, DAYS_30_MS + 30):
        await segments.write(partition, timestamp_ms=timestamp_ms)
    store = segments.store

    # When those from a time on are kept, then the log begins with the first of them
    for before_ms, moved, log_start in (
        (DAYS_30_MS, {}, 0),
        (DAYS_30_MS + 10, {partition: 10}, 10),
        (DAYS_30_MS + 20, {}, 10),
        (0, {}, 10),
        (DAYS_30_MS + 30, {partition: 30}, 30),
        (2**62, {partition: 40}, 40),
    ):
        assert await store.expire_records([keeps(partition, before_ms=before_ms)]) == moved
        assert await segments.log_start(partition) == log_start

    # And the log goes on where it ended
    assert (await segments.write(partition)).start_offset == 40


async def test_records_without_a_timestamp_are_as_old_as_their_object(segments: Segments) -> None:
    # Given a row of records whose producer gave them no time
    (partition,) = await segments.partitions(1)
    await segments.write(partition, timestamp_ms=-1)

    # When what is older than a moment before it was stored has to go, then it stays
    assert await segments.store.expire_records([keeps(partition, before_ms=0)]) == {}

    # But not for ever
    later = keeps(partition, before_ms=2**62)
    assert await segments.store.expire_records([later]) == {partition: 10}


async def test_records_go_by_size(segments: Segments) -> None:
    # Given rows of 100, 200, 300 and 400 bytes
    (partition,) = await segments.partitions(1)
    for length in (100, 200, 300, 400):
        await segments.write(partition, length=length)
    store = segments.store

    # When so many bytes are kept, then rows go while the rest has as much
    for keep_bytes, moved, log_start in (
        (1000, {}, 0),
        (901, {}, 0),
        (900, {partition: 10}, 10),
        (401, {partition: 20}, 20),
        (2**62, {}, 20),
        (400, {partition: 30}, 30),
        (1, {}, 30),
        (0, {partition: 40}, 40),
    ):
        assert await store.expire_records([keeps(partition, keep_bytes=keep_bytes)]) == moved
        assert await segments.log_start(partition) == log_start


async def test_records_go_by_time_or_size_whichever_is_more(segments: Segments) -> None:
    # Given partitions with three old rows of 100 bytes and a new one, and one with none
    partitions = await segments.partitions(3)
    by_time, by_size, empty = partitions
    for partition in (by_time, by_size):
        for timestamp_ms in (1, 2, 3, 100):
            await segments.write(partition, timestamp_ms=timestamp_ms)

    # When both are asked for, of those and of partitions that do not exist
    missing = [Partition(by_time.topic_id, 9), Partition(uuid4(), 0)]
    moved = await segments.store.expire_records(
        [
            keeps(missing[0], before_ms=2**62, keep_bytes=0),
            keeps(by_time, before_ms=100, keep_bytes=300),
            keeps(missing[1], before_ms=2**62, keep_bytes=0),
            keeps(by_size, before_ms=2, keep_bytes=200),
            keeps(empty, before_ms=2**62, keep_bytes=0),
        ]
    )

    # Then each has lost what one of them does not keep, and all is kept where nothing is asked
    assert moved == {by_time: 30, by_size: 20}
    assert await segments.store.expire_records([keeps(by_time), keeps(by_size)]) == {}
    assert await segments.store.expire_records([]) == {}


async def test_a_log_that_begins_inside_a_row_counts_it(segments: Segments) -> None:
    # Given a log that begins in the middle of its second row of three
    (partition,) = await segments.partitions(1)
    for timestamp_ms in (9, 1, 5):
        await segments.write(partition, timestamp_ms=timestamp_ms)
    await segments.store.delete_records({partition: 15})

    # Then the first row holds nothing, and the second goes as a whole
    assert await segments.store.expire_records([keeps(partition, keep_bytes=101)]) == {}
    assert await segments.store.expire_records([keeps(partition, before_ms=2)]) == {partition: 20}


async def test_built_segments_have_their_time_too(segments: Segments) -> None:
    # Given a segment with little left in it, and a row behind it
    (partition,) = await segments.partitions(1)
    for timestamp_ms in (10, 20):
        await segments.write(partition, timestamp_ms=timestamp_ms)
    built = await segments.build(partition, length=5)
    await segments.write(partition, timestamp_ms=30)

    # When it is too old, then the log begins behind it, and purge takes it
    assert await segments.store.expire_records([keeps(partition, before_ms=20)]) == {}
    assert await segments.store.expire_records([keeps(partition, before_ms=21)]) == {partition: 20}
    assert (await segments.states())[built.path] == "live"
    assert await segments.purge() == 1
    assert (await segments.states())[built.path] == "doomed"


async def test_records_of_open_transactions_stay(segments: Segments) -> None:
    # Given stable records, an open transaction's, and others behind it
    (partition,) = await segments.partitions(1)
    await segments.write(partition)
    producer = await segments.transactions.producer()
    assert await segments.transactions.send(producer, partition) == 10
    await segments.write(partition)

    # When nothing is to be kept, then the log begins with the transaction
    everything = [keeps(partition, before_ms=2**62, keep_bytes=0)]
    assert await segments.store.expire_records(everything) == {partition: 10}
    assert await segments.store.expire_records(everything) == {}

    # And behind its marker once it has ended
    await segments.transactions.goes_on(producer)
    assert await segments.store.expire_records(everything) == {partition: 31}


async def test_rows_go_after_the_log_start_and_objects_after_them(segments: Segments) -> None:
    # Given an object of two partitions, one of which begins with its last offset
    first, second = await segments.partitions(2)
    shared = await reserved(segments.store)
    await segments.store.commit_object(shared, 200, [a_batch(first, 0), a_batch(second, 100)])
    kept = await segments.write(first)
    await segments.store.delete_records({first: 9})
    assert await segments.purge() == 0
    await segments.store.delete_records({first: 19})
    assert len(await segments.rows(first)) == 2

    # When it is purged, then the row goes that cannot be read, and the object stays
    assert await segments.purge() == 1
    assert await segments.rows(first) == [kept]
    assert (await segments.states())[shared] == "live"

    # When the other begins later, too, then the object has no row any more
    await segments.store.delete_records({second: 10})
    assert await segments.purge() == 1
    assert await segments.rows(second) == []
    states = await segments.states()
    assert (states[shared], states[kept.path]) == ("doomed", "live")
    assert await segments.log_start(first) == 19
    assert (await segments.write(second)).start_offset == 10


async def test_all_of_a_deleted_topic_goes(segments: Segments) -> None:
    # Given a topic with rows, a segment, markers, an aborted transaction, and a producer
    first, second = await segments.partitions(2)
    (other,) = await segments.partitions(1)
    producer = await segments.transactions.producer()
    for partition in (first, second):
        assert await segments.transactions.send(producer, partition) == 0
    await segments.transactions.goes_on(producer, committed=False)
    await segments.build(first)
    shared = await reserved(segments.store)
    batches = sorted([a_batch(other, 0), a_batch(second, 100)], key=lambda batch: batch.partition)
    await segments.store.commit_object(shared, 200, batches)

    # When it is deleted, and purged in small steps
    await segments.store.delete_topic(first.topic_id)
    steps = 0
    while await segments.store.purge(1):
        steps += 1
        assert steps < 50

    # Then no object is left that only it had
    states = await segments.states()
    assert [path for path, state in states.items() if state == "live"] == [shared]
    assert "pending" not in states.values()
    with pytest.raises(UnknownPartition):
        await segments.store.aborted_transactions(first, 0, 99, 9, aborted_count=0)
    await segments.store.delete_topic(other.topic_id)
    assert await segments.purge()
    assert set((await segments.states()).values()) == {"doomed"}


async def test_aborted_transactions_go_with_their_records(segments: Segments) -> None:
    # Given three aborted transactions
    (partition,) = await segments.partitions(1)
    producer = await segments.transactions.producer()
    for offset in (0, 11, 22):
        assert await segments.transactions.send(producer, partition) == offset
        producer = await segments.transactions.goes_on(producer, committed=False)
    stands = await segments.transactions.stands(partition)
    assert stands == (33, 33, 3)

    # When the log begins inside the second, and is purged
    await segments.store.delete_records({partition: 15})
    await segments.purge()

    # Then the first is gone, and how many there were is not forgotten
    aborted = await segments.transactions.aborted(partition)
    assert [(first, last) for _, first, last in aborted] == [(11, 21), (22, 32)]
    assert await segments.transactions.stands(partition) == stands
    found = await segments.store.aborted_transactions(partition, 15, 99, 9, aborted_count=3)
    assert len(found.transactions) == 2
    assert found.log_start_offset == 15
    with pytest.raises(MetadataUnavailable):
        await segments.store.aborted_transactions(partition, 15, 99, 9, aborted_count=4)


async def test_producers_are_forgotten_who_wrote_long_ago(segments: Segments) -> None:
    # Given producers that wrote long ago, one of them in a transaction that is open, and a new one
    (partition,) = await segments.partitions(1)
    for old in (1001, 1002):
        assert isinstance(await write(segments.store, partition, old, 0, 0), int)
    owner = await segments.transactions.producer()
    assert await segments.transactions.send(owner, partition) == 20
    await segments.passes(2 * HOUR_MS)
    assert isinstance(await write(segments.store, partition, 1003, 0, 0), int)

    async def known() -> set[int]:
        states = (await segments.store.producer_states([partition]))[partition]
        return {state.producer_id for state in states}

    # When those are forgotten that did not write for an hour, then it is the first two
    assert await segments.forget_producers(3 * HOUR_MS) == 0
    assert await segments.forget_producers(HOUR_MS) == 2
    assert await segments.forget_producers(HOUR_MS) == 0
    assert await known() == {owner.producer_id, 1003}


async def test_producers_are_forgotten_in_steps_that_go_on_where_the_last_one_ended(
    segments: Segments,
) -> None:
    # Given producers in two partitions, the second of which wrote of late
    first, second = sorted(await segments.partitions(2))
    for partition, producer_id in ((first, 1001), (first, 1003), (second, 1001)):
        await write(segments.store, partition, producer_id, 0, 0)
    await segments.passes(2 * HOUR_MS)
    await write(segments.store, first, 1002, 0, 0)

    # When a step looks at as many as there are up to a key, then the next goes on behind that
    expire = segments.store.expire_producers
    assert await expire(None, HOUR_MS, 2) == (1, (first, 1002))
    assert await expire((first, 1002), HOUR_MS, 2) == (2, (second, 1001))
    assert await expire((second, 1001), HOUR_MS, 2) == (0, None)
    assert await expire(None, HOUR_MS, 2) == (0, None)
