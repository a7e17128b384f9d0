"""What storage/metadata/port.py promises, asked of every metadata store: objects and the log."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.errors import CommitOutcomeUnknown, UnknownPartition
from storage.metadata.port import MetadataStore, SegmentLookup
from storage.segment_entry import SegmentEntry
from tests.contracts.metadata_stores import (
    EVERYTHING,
    KINDS,
    StoreUnderTest,
    a_batch,
    commit,
    create_partitions,
    ends_at,
    open_store,
    reserved,
    short,
    whole_log,
    write,
)

LAST_SEQUENCE = 2**31 - 1


@pytest.fixture(params=KINDS)
async def metadata(request: pytest.FixtureRequest) -> AsyncIterator[StoreUnderTest]:
    """Each store in turn, empty."""
    async with open_store(request.param) as opened:
        yield opened


@pytest.fixture
def store(metadata: StoreUnderTest) -> MetadataStore:
    return metadata.store


async def test_a_cluster_has_one_id(store: MetadataStore) -> None:
    # When the id is asked for twice, then it is one of Kafka's kind, and the same
    assert len(await store.cluster_id()) == 22
    assert await store.cluster_id() == await store.cluster_id()


async def test_a_cluster_has_one_store(store: MetadataStore) -> None:
    # Given a cluster without a store
    assert await store.store_id() is None

    # When two are claimed at once, then the first one is its store, for ever
    claimed = await asyncio.gather(store.claim_store("a"), store.claim_store("b"))
    (mine,) = set(claimed)
    assert mine in ("a", "b")
    assert await store.claim_store("c") == mine
    assert await store.store_id() == mine


async def test_offsets_are_dense_and_start_where_the_log_ended(store: MetadataStore) -> None:
    # Given two partitions, the first of which has ten records
    first, second = await create_partitions(store, 2)
    await commit(store, [a_batch(first, 0)])

    # When an object with batches of both is committed
    outcomes = await commit(
        store, [a_batch(first, 0, records=3), a_batch(first, 100), a_batch(second, 200, records=7)]
    )

    # Then each batch begins where its partition ended
    assert [outcome.base_offset for outcome in outcomes] == [10, 13, 0]
    assert {outcome.log_start_offset for outcome in outcomes} == {0}
    assert [outcome.last_stable_offset for outcome in outcomes] == [23, 23, 7]
    assert {outcome.aborted_count for outcome in outcomes} == {0}
    missing = Partition(uuid4(), 0)
    assert await store.partition_offsets([first, missing, second]) == {
        first: ends_at(23),
        second: ends_at(7),
    }


async def test_only_offsets_that_are_not_known_are_told(store: MetadataStore) -> None:
    # Given what is known of four partitions and of one that there never was
    partitions = await create_partitions(store, 4)
    await commit(store, [a_batch(partitions[0], 0)])
    missing = Partition(uuid4(), 0)
    known = await store.partition_offsets(partitions) | {missing: ends_at(0)}
    assert await store.changed_offsets({}) == {}
    assert await store.changed_offsets(known) == {missing: None}

    # When records come to one of them, and go from another
    await commit(store, [a_batch(partitions[1], 100)])
    started = await store.delete_records({partitions[0]: 4})

    # Then these are told of
    assert await store.changed_offsets(known) == {
        missing: None,
        partitions[0]: started[partitions[0]],
        partitions[1]: ends_at(10),
    }

    # And when the topic is deleted, all are gone
    await store.delete_topic(partitions[0].topic_id)
    assert await store.changed_offsets(known) == dict.fromkeys(known)


async def test_batches_that_lie_together_are_one_run(store: MetadataStore) -> None:
    # Given an object in which the third batch of a partition does not follow the second in bytes
    first, second = await create_partitions(store, 2)
    path = await reserved(store)
    batches = [
        a_batch(first, 0, timestamp_ms=5),
        a_batch(first, 100, timestamp_ms=9),
        a_batch(first, 300, timestamp_ms=7),
        a_batch(second, 400),
    ]

    # When it is committed
    await store.commit_object(path, 500, batches)

    # Then the first two are one run, which knows the largest timestamp
    run = SegmentEntry(
        start_offset=0, end_offset=19, path=path, start=0, length=200, max_timestamp_ms=9
    )
    other = SegmentEntry(
        start_offset=20, end_offset=29, path=path, start=300, length=100, max_timestamp_ms=7
    )
    assert await whole_log(store, first) == [run, other]
    assert len(await whole_log(store, second)) == 1


async def test_a_refused_batch_splits_a_run(store: MetadataStore) -> None:
    # Given three batches side by side, the middle one a producer's with a gap in its sequence
    (partition,) = await create_partitions(store, 1)
    await write(store, partition, producer=1, epoch=0, sequence=0)
    outcomes = await commit(
        store,
        [
            a_batch(partition, 0),
            a_batch(partition, 100, producer=1, epoch=0, sequence=99),
            a_batch(partition, 200),
        ],
    )

    # Then it is not in the log, and its bytes are in no run
    assert [short(outcome) for outcome in outcomes] == [10, "OutOfOrderSequence", 20]
    entries = await whole_log(store, partition)
    assert [(entry.start, entry.length) for entry in entries] == [(0, 100), (0, 100), (200, 100)]


async def test_a_repeated_commit_gets_the_first_answer(store: MetadataStore) -> None:
    # Given a committed object with an appended, a duplicate and a refused batch, and later ones
    first, second = await create_partitions(store, 2)
    await write(store, first, producer=1, epoch=0, sequence=0)
    path = await reserved(store)
    batches = [
        a_batch(first, 0, producer=1, epoch=0, sequence=0),
        a_batch(first, 100, producer=1, epoch=0, sequence=10),
        a_batch(first, 200, producer=1, epoch=0, sequence=99),
        a_batch(second, 300),
        a_batch(Partition(second.topic_id, 9), 400),
    ]
    answer = await store.commit_object(path, 500, batches)
    await commit(store, [a_batch(first, 0), a_batch(second, 100)])
    before = [await whole_log(store, first), await whole_log(store, second)]

    # When its commit is repeated, and its path reserved again
    await store.reserve_objects([path])
    again = await store.commit_object(path, 500, batches)

    # Then the answer is the same and nothing changed
    expected = ["duplicate of 0", 10, "OutOfOrderSequence", 0, "UnknownPartition"]
    assert [short(outcome) for outcome in answer] == expected
    assert [short(outcome) for outcome in again] == expected
    assert [outcome.last_stable_offset for outcome in answer] == [20, 20, -1, 10, -1]
    assert [outcome.last_stable_offset for outcome in again] == [20, 20, -1, 10, -1]
    assert [await whole_log(store, first), await whole_log(store, second)] == before


async def test_an_object_that_was_not_reserved_or_is_doomed_is_refused(
    metadata: StoreUnderTest,
) -> None:
    # Given a partition, and an object that the sweeper gave up
    store = metadata.store
    (partition,) = await create_partitions(store, 1)
    doomed = await reserved(store)
    await metadata.doom(doomed)

    # When it, or one that was never reserved, is committed; even if it is reserved again
    await store.reserve_objects([doomed])
    for path in (doomed, "wal/never-reserved"):
        with pytest.raises(CommitOutcomeUnknown):
            await store.commit_object(path, 100, [a_batch(partition, 0)])

    # Then the log stays empty
    assert await whole_log(store, partition) == []


async def test_an_unknown_partition_does_not_stop_the_others(store: MetadataStore) -> None:
    # Given a topic of one partition, and one that was deleted
    (partition,) = await create_partitions(store, 1)
    (gone,) = await create_partitions(store, 1)
    await commit(store, [a_batch(gone, 0)])
    await store.delete_topic(gone.topic_id)

    # When an object has batches for both and for a partition that never was
    batches = [a_batch(partition, 0), a_batch(Partition(partition.topic_id, 1), 100)]
    batches.append(a_batch(gone, 200, producer=1, epoch=0, sequence=0))
    outcomes = await commit(store, sorted(batches, key=lambda batch: batch.partition))

    # Then only the one that exists gets its batch
    assert sorted(str(short(outcome)) for outcome in outcomes) == [
        "0",
        "UnknownPartition",
        "UnknownPartition",
    ]
    assert len(await whole_log(store, partition)) == 1
    with pytest.raises(UnknownPartition):
        await store.delete_topic(gone.topic_id)


async def test_an_object_may_have_no_batches(store: MetadataStore) -> None:
    # When an object without batches is committed, then its answer is empty, also when repeated
    path = await reserved(store)
    assert await store.commit_object(path, 0, []) == []
    assert await store.commit_object(path, 0, []) == []


async def test_sequences_follow_each_other(store: MetadataStore) -> None:
    """KIP-98: gaps, old and new epochs."""
    (partition,) = await create_partitions(store, 1)

    # Given a producer without state, whose first batch may have any sequence
    assert await write(store, partition, producer=1, epoch=3, sequence=500) == 0

    # Then only its next sequence is appended
    assert await write(store, partition, producer=1, epoch=3, sequence=509) == "OutOfOrderSequence"
    assert await write(store, partition, producer=1, epoch=3, sequence=511) == "OutOfOrderSequence"
    assert await write(store, partition, producer=1, epoch=3, sequence=510) == 10

    # When its epoch changes, then it begins with 0, and the old epoch is over
    assert await write(store, partition, producer=1, epoch=2, sequence=520) == (
        "InvalidProducerEpoch"
    )
    assert await write(store, partition, producer=1, epoch=4, sequence=520) == "OutOfOrderSequence"
    assert await write(store, partition, producer=1, epoch=4, sequence=0) == 20
    assert await write(store, partition, producer=1, epoch=3, sequence=510) == (
        "InvalidProducerEpoch"
    )
    assert await write(store, partition, producer=1, epoch=4, sequence=500) == "OutOfOrderSequence"
    assert await write(store, partition, producer=1, epoch=4, sequence=10) == 30

    # And another producer, and the same one elsewhere, know nothing of it
    assert await write(store, partition, producer=2, epoch=0, sequence=7) == 40
    (elsewhere,) = await create_partitions(store, 1)
    assert await write(store, elsewhere, producer=1, epoch=0, sequence=7) == 0


async def test_the_last_five_batches_of_a_producer_are_remembered(store: MetadataStore) -> None:
    # Given a producer with six batches
    (partition,) = await create_partitions(store, 1)
    for number in range(6):
        await write(store, partition, producer=1, epoch=0, sequence=10 * number)

    # When each comes again, then the last five are duplicates with their offsets; the first is late
    assert await write(store, partition, producer=1, epoch=0, sequence=0) == "OutOfOrderSequence"
    for number in range(1, 6):
        again = await write(store, partition, producer=1, epoch=0, sequence=10 * number)
        assert again == f"duplicate of {10 * number}"

    # And a batch that only overlaps one of them is not a duplicate
    shorter = a_batch(partition, 0, records=5, producer=1, epoch=0, sequence=50)
    assert [short(outcome) for outcome in await commit(store, [shorter])] == ["OutOfOrderSequence"]
    assert (await whole_log(store, partition))[-1].end_offset == 59


async def test_sequences_wrap_to_zero(store: MetadataStore) -> None:
    # Given a producer whose batch ends at the last sequence, and one whose batch goes beyond it
    (partition,) = await create_partitions(store, 1)
    assert await write(store, partition, producer=1, epoch=0, sequence=LAST_SEQUENCE - 9) == 0
    assert await write(store, partition, producer=2, epoch=0, sequence=LAST_SEQUENCE - 4) == 10

    # Then the first goes on with 0, the second with 5, and both batches can be repeated
    assert await write(store, partition, producer=1, epoch=0, sequence=0) == 20
    assert await write(store, partition, producer=2, epoch=0, sequence=5) == 30
    again = await write(store, partition, producer=1, epoch=0, sequence=LAST_SEQUENCE - 9)
    assert again == "duplicate of 0"
    again = await write(store, partition, producer=2, epoch=0, sequence=LAST_SEQUENCE - 4)
    assert again == "duplicate of 10"


async def test_batches_of_one_object_see_each_other(store: MetadataStore) -> None:
    # Given an object in which two producers take turns, repeat themselves and raise their epochs
    first, second = await create_partitions(store, 2)
    turns = [
        (first, 1, 0, 0),  # 0
        (first, 2, 0, 0),  # 10
        (first, 1, 0, 10),  # 20
        (first, 1, 0, 0),  # again
        (first, 2, 0, 20),  # a gap
        (first, 1, 1, 0),  # 30, a new epoch
        (first, 1, 0, 20),  # of the old epoch
        (first, 1, 1, 10),  # 40
        (second, 1, 0, 77),  # 0, no state here
        (second, 1, 0, 87),  # 10
    ]
    batches = [
        a_batch(partition, 100 * number, producer=producer, epoch=epoch, sequence=sequence)
        for number, (partition, producer, epoch, sequence) in enumerate(turns)
    ]

    # When it is committed
    outcomes = await commit(store, batches)

    # Then each batch is judged as if it had come alone, one after the other
    assert [short(outcome) for outcome in outcomes] == [
        0,
        10,
        20,
        "duplicate of 0",
        "OutOfOrderSequence",
        30,
        "InvalidProducerEpoch",
        40,
        0,
        10,
    ]
    assert await write(store, first, producer=1, epoch=1, sequence=20) == 50
    assert await write(store, first, producer=2, epoch=0, sequence=10) == 60
    assert [entry.start for entry in await whole_log(store, first)] == [0, 500, 700, 0, 0]


async def test_lookups_are_answered_from_the_run_that_holds_the_offset(
    store: MetadataStore,
) -> None:
    # Given a partition of five runs of ten records and 100 bytes, and an empty one
    full, empty = await create_partitions(store, 2)
    for _ in range(5):
        await commit(store, [a_batch(full, 0)])

    # When several ranges are looked up at once
    questions = [
        (full, 0, EVERYTHING),
        (full, 29, 150),
        (empty, 0, EVERYTHING),
        (full, 49, 1),
        (full, 0, 0),
        (full, 50, EVERYTHING),
        (Partition(uuid4(), 0), 0, EVERYTHING),
        (full, 10, 200),
    ]
    answers = await store.find_segments(
        [
            SegmentLookup(partition=partition, offset=offset, max_bytes=max_bytes)
            for partition, offset, max_bytes in questions
        ]
    )

    # Then each gets runs until their lengths add up, and at least one where there is one
    assert [[entry.start_offset for entry in found] for found in answers] == [
        [0, 10, 20, 30, 40],
        [20, 30],
        [],
        [40],
        [0],
        [],
        [],
        [10, 20],
    ]


async def test_runs_are_found_by_timestamp(store: MetadataStore) -> None:
    # Given runs whose largest timestamps do not ascend, and an empty partition
    (partition,) = await create_partitions(store, 1)
    (empty,) = await create_partitions(store, 1)
    for timestamp_ms in (100, 300, 200, 300, 250):
        await commit(store, [a_batch(partition, 0, timestamp_ms=timestamp_ms)])

    # Then the first in offset order that is late enough is found, and the first of the latest
    found = [await store.find_timestamp(partition, wanted) for wanted in (0, 100, 101, 300, 301)]
    assert [entry and entry.start_offset for entry in found] == [0, 0, 10, 10, None]
    latest = await store.find_max_timestamp(partition)
    assert latest is not None
    assert (latest.start_offset, latest.max_timestamp_ms) == (10, 300)
    later = [await store.find_max_timestamp(partition, start) for start in (19, 20, 40, 50)]
    assert [entry and entry.start_offset for entry in later] == [10, 30, 40, None]
    assert await store.find_timestamp(empty, 0) is None
    assert await store.find_max_timestamp(empty) is None


async def test_producer_ids_are_given_out_once(store: MetadataStore) -> None:
    # When ids are taken in blocks, then no block overlaps another
    first, *others = [await store.allocate_producer_ids(count) for count in (1, 1000, 5)]
    assert others == [first + 1, first + 1001]
