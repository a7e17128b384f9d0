"""Batches on their way into an object: what the metadata is told of them, and what they hear."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch import read_header
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.metadata.port import BatchCommit, BatchOutcome, MetadataStore, TransactionUse
from storage.partition_log import PartitionLog
from storage.pending_object import MOST_RECORDS, BufferedBatch, PendingObject, Seal
from tests.contracts.metadata_stores import (
    KINDS,
    commit,
    create_partitions,
    open_store,
    short,
    whole_log,
)

SEAL = Seal(writer_id=UUID(int=1), sequence=0, written_ms=0)
SOMEBODY = 7


def buffered(
    log: PartitionLog, sequence: int = -1, records: int = 2, leader_epoch: int = 0
) -> BufferedBatch:
    """A batch of nobody, or of a producer that numbers its batches."""
    producer = {"producer_id": SOMEBODY, "producer_epoch": 0} if sequence >= 0 else {}
    content = [Record(offset_delta=delta, value=b"v" * (1 + delta)) for delta in range(records)]
    data = memoryview(bytearray(build_batch(content, base_sequence=sequence, **producer)))
    outcome = asyncio.get_running_loop().create_future()
    fields = (TransactionUse.NONE, None, leader_epoch, 0, outcome)
    return BufferedBatch(log, data, read_header(data), *fields)


def laid_out(batches: Sequence[BufferedBatch]) -> PendingObject:
    pending = PendingObject(asyncio.get_running_loop().create_future(), list(batches))
    pending.lay_out(SEAL, lambda _: "t")
    return pending


def each_alone(pending: PendingObject) -> list[BatchCommit]:
    """Return what the metadata would be told if every batch were told of."""
    commits, start = [], 0
    for batch in pending.batches:
        header = batch.header
        commits.append(
            BatchCommit(
                partition=batch.log.partition,
                start=start,
                length=len(batch.data),
                record_count=header.record_count,
                max_timestamp_ms=header.max_timestamp_ms,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                leader_epoch=batch.leader_epoch,
            )
        )
        start += len(batch.data)
    return commits


async def committed(store: MetadataStore, pending: PendingObject) -> list[BatchOutcome]:
    return [*pending.answers(await commit(store, pending.commits))]


async def rows_of(store: MetadataStore, partition: Partition) -> list[tuple[int, int]]:
    return [(row.start_offset, row.length) for row in await whole_log(store, partition)]


# Of a batch: partition, the last of which does not exist; sequence, which may repeat or leave one
# out; records; leader epoch.
BATCHES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.just(-1), st.integers(0, 3)),
        st.integers(1, 3),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=12,
)


@given(st.lists(BATCHES, min_size=1, max_size=3))
def test_batches_hear_what_they_would_hear_alone(
    objects: list[list[tuple[int, int, int, int]]],
) -> None:
    async def compare() -> None:
        async with open_store("memory") as told, open_store("memory") as apart:
            # Given two logs of the same
            places = [await create_partitions(each.store, 2) for each in (told, apart)]
            for batches in objects:
                outcomes, ends, rows = [], [], []

                # When an object is committed to both, to the second one batch by batch
                for each, place in zip((told, apart), places, strict=True):
                    logs = [PartitionLog(partition) for partition in place]
                    logs.append(PartitionLog(Partition(UUID(int=2**128 - 1), 0)))
                    pending = laid_out([buffered(logs[at], *rest) for at, *rest in batches])
                    if each is told:
                        answered = await committed(each.store, pending)
                    else:
                        answered = await commit(each.store, each_alone(pending))
                    outcomes.append([short(outcome) for outcome in answered])
                    ends.append([*(await each.store.partition_offsets(place)).values()])
                    rows.append([await rows_of(each.store, partition) for partition in place])

                # Then every batch has the same answer, and the logs the same offsets and rows
                assert outcomes[0] == outcomes[1]
                assert ends[0] == ends[1]
                assert rows[0] == rows[1]

    asyncio.run(compare())


async def test_batches_of_nobody_side_by_side_are_one_for_the_metadata() -> None:
    # Given batches of several partitions, in no order, of producers and of nobody
    async with open_store("memory") as opened:
        first, second = map(PartitionLog, await create_partitions(opened.store, 2))
        batches = [buffered(log) for log in (second, first, second, first)]
        batches += [buffered(second, sequence=0), buffered(second, sequence=2), buffered(second)]

        # When they are laid out
        pending = laid_out(batches)

        # Then those of nobody are told of together, where they lie side by side
        assert [len(run) for run in pending.runs] == [2, 2, 1, 1, 1]
        assert [told.record_count for told in pending.commits] == [4, 4, 2, 2, 2]

        # And each of them hears its own offset
        offsets = [outcome.base_offset for outcome in await committed(opened.store, pending)]
        assert offsets == [0, 2, 0, 2, 4, 6, 8]


@pytest.mark.parametrize("kind", KINDS)
async def test_claims_of_records_come_to_no_number_that_the_metadata_has_not(kind: str) -> None:
    # Given compressed batches that claim as many records as a header can say
    async with open_store(kind) as opened:
        (partition,) = await create_partitions(opened.store, 1)
        log = PartitionLog(partition)
        batches = [buffered(log) for _ in range(3)]
        for batch in batches[1:]:
            batch.header = batch.header._replace(
                record_count=MOST_RECORDS, last_offset_delta=MOST_RECORDS - 1
            )

        # When they are committed, then each has its offsets
        outcomes = await committed(opened.store, laid_out(batches))
        assert [outcome.base_offset for outcome in outcomes] == [0, 2, 2 + MOST_RECORDS]
