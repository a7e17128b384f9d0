"""The write path against stores that fail, lie and dawdle: what is answered, what is in the log."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from random import Random
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from protocol.batch import read_header
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.config import WriterConfig
from storage.errors import (
    BufferClosed,
    CommitOutcomeUnknown,
    MetadataUnavailable,
    MetadataWentBack,
    ObjectStoreUnavailable,
    UnknownPartition,
)
from storage.metadata.port import BatchCommit, BatchOutcome, SegmentLookup
from storage.metrics import StorageMetrics
from storage.objects.object_paths import ReservedPaths
from storage.objects.port import Buffer
from storage.partition_log import PartitionLog
from storage.reading.read_planner import END
from storage.tail import TailCache
from storage.writer import Writer
from tests.support import virtual_time
from tests.support.appends import append
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore

NOW_MS = 1_700_000_000_000
WRITER_ID = UUID(int=77)


class FaultyStore(MemoryStore):
    """Refuses some puts, and holds others until it is told to let them go.

    Attributes:
        failures: how many of the next puts fail, after they were stored.
        gate: puts wait until it is set.
        takes_s: each put, at least.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.takes_s = 0.0
        self.gate = asyncio.Event()
        self.gate.set()
        self.puts = 0

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        self.puts += 1
        await asyncio.sleep(self.takes_s)
        await self.gate.wait()
        await super().put(path, parts)
        if self.failures:
            self.failures -= 1
            raise ObjectStoreUnavailable("the answer was lost")


class FaultyMetadata(MemoryMetadata):
    """Loses some of its answers, after it has done what was asked.

    Attributes:
        lost_answers: how many of the next commits are done but not answered.
        gate: commits wait until it is set.
    """

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.lost_answers = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.commits = 0
        self.unknown = False

    async def commit_object(
        self, path: str, size: int, batches: Sequence[BatchCommit]
    ) -> list[BatchOutcome]:
        self.commits += 1
        await self.gate.wait()
        if self.unknown:
            raise CommitOutcomeUnknown("doomed")
        outcomes = await super().commit_object(path, size, batches)
        if self.lost_answers:
            self.lost_answers -= 1
            raise MetadataUnavailable("the answer was lost")
        return outcomes


class Bench:
    """A writer on faulty stores, with one topic of four partitions."""

    def __init__(self, config: WriterConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.objects = FaultyStore()
        self.metadata = FaultyMetadata()
        ids = itertools.count()
        self.paths = ReservedPaths(self.metadata, lambda: UUID(int=next(ids)))
        self.writer = Writer(
            objects=self.objects,
            metadata=self.metadata,
            paths=self.paths,
            tail=TailCache(1 << 20),
            config=config,
            metrics=StorageMetrics(CollectorRegistry()),
            clock=clock,
            now_ms=lambda: NOW_MS,
            writer_id=WRITER_ID,
            name_of=lambda _: "t",
        )
        self.logs: list[PartitionLog] = []

    async def make_topic(self) -> None:
        topic = await self.metadata.create_topic(
            "t", partition_count=4, replication_factor=1, configs={}
        )
        self.logs = [PartitionLog(Partition(topic.topic_id, index)) for index in range(4)]

    def append(
        self,
        partition: int = 0,
        value: bytes = b"v",
        sequence: int = -1,
        leader_epoch: int = 0,
    ) -> asyncio.Future[BatchOutcome]:
        producer = {"producer_id": 7, "producer_epoch": 0} if sequence >= 0 else {}
        data = bytearray(
            build_batch([Record(offset_delta=0, value=value)], base_sequence=sequence, **producer)
        )
        view = memoryview(data)
        return append(self.writer, self.logs[partition], view, leader_epoch=leader_epoch)

    async def append_with_slow_commit(self) -> asyncio.Future[BatchOutcome]:
        """Return once its object is uploaded; it is committed when the gate is opened."""
        self.metadata.gate.clear()
        outcome = self.append()
        while not self.metadata.commits:
            await asyncio.sleep(0)
        return outcome

    async def high_watermark(self, partition: int = 0) -> int:
        asked = self.logs[partition].partition
        return (await self.metadata.partition_offsets([asked]))[asked].high_watermark


@asynccontextmanager
async def running(
    config: WriterConfig | None = None, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[Bench]:
    bench = Bench(config or WriterConfig(), clock)
    await bench.make_topic()
    run = asyncio.create_task(bench.writer.run())
    try:
        yield bench
    finally:
        run.cancel()
        await asyncio.wait([run])
        await bench.paths.close()


async def test_what_arrives_together_becomes_one_object() -> None:
    async with running() as bench:
        # When batches for several partitions arrive in one turn of the event loop
        futures = [bench.append(partition) for partition in (3, 0, 0, 1)]
        outcomes = [await future for future in futures]

        # Then they are one object and one commit, and each has its own offset
        assert (bench.objects.puts, bench.metadata.commits) == (1, 1)
        assert [outcome.base_offset for outcome in outcomes] == [0, 0, 1, 0]


async def test_nothing_is_answered_before_it_is_durable() -> None:
    async with running() as bench:
        bench.objects.gate.clear()
        future = bench.append()
        await asyncio.sleep(0)
        done, _ = await asyncio.wait([future], timeout=0.05)
        assert not done
        assert bench.logs[0].buffered_records == 1
        bench.objects.gate.set()
        assert (await future).base_offset == 0
        assert bench.logs[0].buffered_records == 0
        assert bench.logs[0].high_watermark == 1


async def test_a_put_whose_answer_is_lost_is_appended_once() -> None:
    async with running() as bench:
        bench.objects.failures = 3
        assert (await bench.append()).base_offset == 0
        assert await bench.high_watermark() == 1
        assert bench.objects.puts == 4


async def test_a_commit_whose_answer_is_lost_is_appended_once() -> None:
    async with running() as bench:
        bench.metadata.lost_answers = 3
        first, second = bench.append(), bench.append(1)
        assert ((await first).base_offset, (await second).base_offset) == (0, 0)
        assert await bench.high_watermark() == 1
        assert (await bench.append()).base_offset == 1


async def test_objects_are_committed_in_the_order_they_were_sealed() -> None:
    # Given small objects, several of them uploading at a time
    async with running(WriterConfig(flush_bytes=1, max_uploads=3)) as bench:
        bench.objects.gate.clear()

        # When an idempotent producer has ten batches on the way and the first upload fails
        bench.objects.failures = 1
        futures = [bench.append(sequence=sequence) for sequence in range(10)]
        bench.objects.gate.set()
        outcomes = [await future for future in futures]

        # Then no batch overtook another: each has the next offset, none is out of order
        assert [outcome.refusal for outcome in outcomes] == [None] * 10
        assert [outcome.base_offset for outcome in outcomes] == list(range(10))


async def test_an_object_is_uploaded_while_the_one_before_it_is_committed() -> None:
    async with running() as bench:
        # Given an object that is uploaded, and whose commit takes its time
        first = await bench.append_with_slow_commit()

        # When the next batch comes, then it is uploaded soon, but waits for its turn
        second = bench.append()
        while bench.objects.puts < 2:
            await asyncio.sleep(0)
        assert bench.metadata.commits == 1
        assert not first.done()
        assert not second.done()

        # And both are committed in their order
        bench.metadata.gate.set()
        assert ((await first).base_offset, (await second).base_offset) == (0, 1)


async def test_what_comes_while_an_object_is_under_way_goes_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given an object that is uploaded, and not committed yet, as the next one may be before long
    monkeypatch.setattr("storage.writer.LEAST_SPACING_S", 60.0)
    async with running(WriterConfig(flush_ms=60_000)) as bench:
        first = await bench.append_with_slow_commit()

        # When batches come one after the other
        others = []
        for partition in range(4):
            others.append(bench.append(partition))
            await asyncio.sleep(0)
        bench.metadata.gate.set()

        # Then they make one object
        await asyncio.gather(first, *others)
        assert bench.objects.puts == 2


async def test_an_object_is_full_of_many_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.writer.MOST_BATCHES", 3)
    async with running() as bench:
        # Given an object that is uploaded, and not committed yet
        first = await bench.append_with_slow_commit()

        # When more batches come than one object takes
        others = [bench.append() for _ in range(7)]
        bench.metadata.gate.set()

        # Then they make as many as they need, in order
        outcomes = await asyncio.gather(first, *others)
        assert [outcome.base_offset for outcome in outcomes] == list(range(8))
        assert bench.objects.puts == 1 + 3


def test_producers_that_wait_for_answers_come_back_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("storage.writer.LEAST_SPACING_S", 1.0)

    async def scenario() -> None:
        # Given a store that takes its time, and an object that is begun only when none is under way
        clock = asyncio.get_running_loop().time
        async with running(WriterConfig(flush_ms=1_000), clock) as bench:
            bench.objects.takes_s = 0.04

            async def produce(partition: int) -> None:
                for _ in range(15):
                    await bench.append(partition)
                    await asyncio.sleep(0.002)  # until its next request is here

            # When producers that begin one after the other send their next when they are answered
            async with asyncio.TaskGroup() as producers:
                for partition in range(4):
                    producers.create_task(produce(partition))
                    await asyncio.sleep(0.002)

            # Then they do not take turns: nearly every object has a batch of each
            assert bench.objects.puts <= 20

    virtual_time.run(scenario())


async def test_a_doomed_object_is_an_unknown_outcome() -> None:
    async with running() as bench:
        bench.metadata.unknown = True
        with pytest.raises(CommitOutcomeUnknown):
            await bench.append()
        assert bench.logs[0].buffered_records == 0


async def test_a_database_that_gives_offsets_away_again_ends_the_writer() -> None:
    # Given records that were acknowledged after a backup of the database
    bench = Bench(WriterConfig())
    await bench.make_topic()
    writing = asyncio.create_task(bench.writer.run())
    assert (await bench.append()).base_offset == 0
    backup = deepcopy(vars(bench.metadata))
    assert [(await bench.append()).base_offset for _ in range(2)] == [1, 2]

    # When the backup takes the place of the database
    vars(bench.metadata).update(backup)
    unanswered = bench.append()

    # Then the writer ends and takes no more, and nobody is told that what comes has their offsets
    with pytest.raises(ExceptionGroup) as ended:
        await writing
    assert ended.group_contains(MetadataWentBack, match="ends at 1 in it, and ended at 3 before")
    assert not unanswered.done()
    with pytest.raises(BufferClosed):
        bench.append()
    await bench.paths.close()


async def test_a_deleted_topic_refuses_and_the_others_go_on() -> None:
    async with running() as bench:
        gone = PartitionLog(Partition(UUID(int=9), 0))
        bench.logs.append(gone)
        refused, appended = bench.append(4), bench.append(0)
        assert isinstance((await refused).refusal, UnknownPartition)
        assert (await appended).base_offset == 0


async def test_a_duplicate_is_not_served_from_the_tail() -> None:
    async with running() as bench:
        await bench.append(sequence=0)
        again = await bench.append(sequence=0)
        assert (again.duplicate, again.base_offset) == (True, 0)
        batches, _ = bench.logs[0].tail.read(0, 1 << 20, END)
        assert len(batches) == 1


async def test_shutdown_makes_durable_what_was_appended() -> None:
    async with running() as bench:
        future = bench.append()
        await bench.writer.close(deadline_s=5)
        assert future.done()
        assert (await future).base_offset == 0
        with pytest.raises(BufferClosed):
            bench.append()


async def test_shutdown_without_an_answer_is_an_unknown_outcome() -> None:
    async with running() as bench:
        bench.objects.gate.clear()
        future = bench.append()
        await bench.writer.close(deadline_s=0.05)
        with pytest.raises(CommitOutcomeUnknown):
            await future


async def test_a_request_that_gave_up_does_not_disturb_the_commit() -> None:
    async with running() as bench:
        bench.objects.gate.clear()
        gave_up, other = bench.append(), bench.append()
        await asyncio.sleep(0)
        gave_up.cancel()
        bench.objects.gate.set()
        assert (await other).base_offset == 1
        assert await bench.high_watermark() == 2


async def test_memory_and_index_tell_the_same() -> None:
    async with running(WriterConfig(flush_bytes=200)) as bench:
        for number in range(20):
            assert (await bench.append(value=b"%d" % number)).base_offset == number
        batches, size = bench.logs[0].tail.read(5, 1 << 20, END)
        assert [read_header(batch).base_offset for batch in batches] == list(range(5, 20))
        assert size == sum(map(len, batches))
        lookup = SegmentLookup(partition=bench.logs[0].partition, offset=5, max_bytes=1 << 20)
        (entries,) = await bench.metadata.find_segments([lookup])
        assert [entry.start_offset for entry in entries] == list(range(5, 20))


async def test_an_end_while_an_upload_comes_back_is_no_failure() -> None:
    # Given an upload that the committer waits for
    bench = Bench(WriterConfig())
    await bench.make_topic()
    run = asyncio.create_task(bench.writer.run())
    bench.objects.gate.clear()
    bench.append()
    while not bench.objects.puts:
        await asyncio.sleep(0)

    # When it comes back in the very turn in which all ends
    bench.objects.gate.set()
    run.cancel()

    # Then it is cancelled, and nothing else
    await asyncio.wait([run])
    assert run.cancelled()
    await bench.paths.close()
