"""Fetch for read_committed, over stores in memory: what it returns, what it waits for."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry

from broker.broker_set import BrokerSet
from broker.cluster import Cluster
from broker.fetch_context import SessionlessFetchContext, Wanted
from broker.fetching import Fetch
from broker.read_failures import ReadFailures
from protocol.compression import Codec
from protocol.fetch import PartitionWanted, TopicWanted
from protocol.fetch_response import PartitionAnswer
from protocol.ids import Partition
from storage.aborted_indexes import AbortedIndexes
from storage.aborted_transaction import AbortedPage
from storage.errors import MetadataUnavailable
from storage.metadata.brokers import BrokerRecord, Membership
from tests.storage.log_bench import LogBench, Transactional, running_log
from tests.support.committed_reader import CommittedReader
from tests.support.fakes.metadata import MemoryMetadata

ALONE = Cluster(
    cluster_id="c",
    brokers=BrokerSet(
        Membership(
            node_id=0,
            generation=1,
            brokers=[BrokerRecord(node_id=0, addresses=("localhost:1",), rack=None)],
        )
    ),
    listener=0,
)


class AwayStore(MemoryMetadata):
    """Does not tell what was aborted."""

    async def aborted_transactions(
        self,
        partition: Partition,
        start_offset: int,
        end_offset: int,
        limit: int,
        *,
        aborted_count: int,
    ) -> AbortedPage:
        raise MetadataUnavailable("away")


async def fetch(
    bench: LogBench,
    partition: Partition,
    offset: int,
    *,
    max_bytes: int = 1 << 20,
    max_wait_s: float = 0.0,
    min_bytes: int = 1,
    read_committed: bool = True,
) -> PartitionAnswer:
    """Return the answer for one partition."""
    wanted = PartitionWanted(0, -1, offset, max_bytes)
    run = await begun(bench, {partition: wanted}, read_committed=read_committed)
    await run.run(min_bytes=min_bytes, max_wait_s=max_wait_s)
    return run.wanted[0].answer


async def begun(
    bench: LogBench, asked: Mapping[Partition, PartitionWanted], *, read_committed: bool = True
) -> Fetch:
    wanted = [
        Wanted(one, await bench.known(partition), PartitionAnswer(one.index))
        for partition, one in asked.items()
    ]
    context = SessionlessFetchContext()
    context.add(TopicWanted("t", None, list(asked.values())), wanted)
    return Fetch(
        *(bench.log, ALONE, context),
        failures=ReadFailures(CollectorRegistry(), lambda _: "t", time.monotonic),
        max_bytes=sum(one.max_bytes for one in asked.values()),
        read_committed=read_committed,
    )


async def test_only_what_is_stable_is_returned() -> None:
    async with running_log() as bench:
        # Given a plain record, an open transaction, and another plain record
        (partition,) = await bench.create_partitions()
        who = await bench.producer("p")
        await bench.append(partition, [b"a"])
        await bench.append(partition, [b"b"], who)
        await bench.append(partition, [b"c"])

        # Then a reader of committed records gets the first, of any records all of them
        committed = await fetch(bench, partition, 0)
        uncommitted = await fetch(bench, partition, 0, read_committed=False)
        assert len(committed.records) == 1
        assert len(uncommitted.records) == 3
        for answer in (committed, uncommitted):
            assert (answer.last_stable_offset, answer.high_watermark) == (1, 3)
        assert (committed.aborted, uncommitted.aborted) == ((), None)

        # And what is not stable yet is in range, but empty
        for offset in (1, 2, 3):
            empty = await fetch(bench, partition, offset)
            assert (empty.error_code, empty.size, empty.aborted) == (ErrorCode.none, 0, ())
        assert (await fetch(bench, partition, 4)).error_code == ErrorCode.offset_out_of_range


@pytest.mark.parametrize("restarted", [False, True])
async def test_aborted_transactions_of_the_returned_range_are_named(*, restarted: bool) -> None:
    async with running_log() as bench:
        # Given two aborted transactions that overlap, one that is committed, and an open one
        (partition,) = await bench.create_partitions()
        one, other, good, opened = [await bench.producer(name) for name in "pqrs"]
        await bench.append(partition, [b"0"], one)
        await bench.append(partition, [b"1"], other)
        await bench.append(partition, [b"2"], good)
        await bench.end(other, committed=False)  # 3
        await bench.end(good, committed=True)  # 4
        await bench.append(partition, [b"5"], one)
        await bench.end(one, committed=False)  # 6
        await bench.append(partition, [b"7"])
        await bench.append(partition, [b"8"], opened)
        if restarted:
            await bench.restart()
        first, second = ((who.producer.producer_id, at) for at, who in enumerate([one, other]))

        # Then each fetch hears of those that have not ended before it, by first offset
        async def aborted(offset: int, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
            return list((await fetch(bench, partition, offset, max_bytes=max_bytes)).aborted or ())

        assert await aborted(0) == [first, second]
        assert await aborted(0, max_bytes=1) == [first]
        assert await aborted(1, max_bytes=1) == [first, second]
        assert await aborted(3) == [first, second]
        assert await aborted(4) == [first]
        assert await aborted(6) == [first]
        assert await aborted(7) == []
        assert await aborted(8) == []


async def test_a_long_poll_waits_for_the_last_stable_offset() -> None:
    async with running_log() as bench:
        # Given a reader that waits behind an open transaction
        (partition,) = await bench.create_partitions()
        who = await bench.producer("p")
        await bench.append(partition, [b"a"], who)
        poll = asyncio.create_task(fetch(bench, partition, 0, max_wait_s=20))

        # When more records come, it goes on waiting
        await bench.append(partition, [b"b"], who)
        await bench.append(partition, [b"c"])
        await asyncio.wait([poll], timeout=0.05)
        assert not poll.done()

        # When the transaction ends, it has all of it
        await bench.end(who, committed=True)
        assert len((await poll).records) == 4


async def test_a_long_poll_hears_of_another_brokers_marker() -> None:
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        who = await bench.producer("p")
        await bench.append(partition, [b"a"], who)
        looking = asyncio.create_task(bench.log.poll())
        poll = asyncio.create_task(fetch(bench, partition, 0, max_wait_s=20))
        await bench.end(who, committed=False, elsewhere=True)
        answer = await poll
        looking.cancel()
        await asyncio.wait([looking])
        assert (answer.last_stable_offset, answer.aborted) == (2, [(who.producer.producer_id, 0)])


async def test_min_bytes_counts_what_is_stable() -> None:
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        who = await bench.producer("p")
        poll = asyncio.create_task(fetch(bench, partition, 0, max_wait_s=20, min_bytes=1000))
        await bench.append(partition, [b"a"])
        await bench.append(partition, [b"x" * 2000], who)
        await asyncio.wait([poll], timeout=0.05)
        assert not poll.done()
        await bench.end(who, committed=True)
        assert len((await poll).records) == 3


async def test_without_the_index_no_record_of_an_aborted_transaction_gets_out() -> None:
    async with running_log() as bench:
        # Given an aborted transaction, and a database that does not tell which
        (partition,) = await bench.create_partitions()
        who = await bench.producer("p")
        await bench.append(partition, [b"a"], who)
        await bench.end(who, committed=False)
        bench.log._aborted = AbortedIndexes(AwayStore(Random(0)))

        # Then the partition answers with an error that clients repeat, and any reader may read on
        answer = await fetch(bench, partition, 0)
        assert (answer.error_code, answer.size) == (ErrorCode.kafka_storage_error, 0)
        assert (await fetch(bench, partition, 0, read_committed=False)).size
        bench.log._aborted = AbortedIndexes(bench.metadata)
        assert (await fetch(bench, partition, 0)).aborted == [(who.producer.producer_id, 0)]


class BusyStore(MemoryMetadata):
    """Attributes: most is how many questions about aborted transactions it had at a time."""

    def __init__(self, *, is_away: bool) -> None:
        super().__init__(Random(0))
        self._is_away = is_away
        self._asked = 0
        self.most = 0

    async def aborted_transactions(
        self,
        partition: Partition,
        start_offset: int,
        end_offset: int,
        limit: int,
        *,
        aborted_count: int,
    ) -> AbortedPage:
        self._asked += 1
        self.most = max(self.most, self._asked)
        await asyncio.sleep(0)
        self._asked -= 1
        if self._is_away:
            raise MetadataUnavailable("away")
        return AbortedPage(log_start_offset=0, transactions=[])


@pytest.mark.parametrize(("is_away", "most"), [(False, 3), (True, 17)])
async def test_what_was_aborted_in_many_partitions_is_asked_for_few_at_a_time(
    *, is_away: bool, most: int
) -> None:
    async with running_log() as bench:
        # Given many partitions, each with an aborted transaction
        partitions = await bench.create_partitions(20)
        who = await bench.producer("p")
        for partition in partitions:
            await bench.append(partition, [b"a"], who)
        await bench.end(who, committed=False)
        store = BusyStore(is_away=is_away)
        bench.log._aborted = AbortedIndexes(store)

        # When all of them are read at once
        asked = {one: PartitionWanted(one.index, -1, 0, 1 << 20) for one in partitions}
        run = await begun(bench, asked)
        await run.run(min_bytes=1, max_wait_s=0)

        # Then others can ask Postgres meanwhile; unless it is away: nobody waits for that in a row
        code = ErrorCode.kafka_storage_error if is_away else ErrorCode.none
        assert [one.answer.error_code for one in run.wanted] == [code] * 20
        assert store.most == most


@pytest.mark.parametrize("restarted", [False, True])
async def test_records_whose_transactions_are_forgotten_are_given_to_nobody(
    *, restarted: bool
) -> None:
    async with running_log() as bench:
        # Given an aborted transaction that retention, which is another process's, has passed since
        # its broker heard of the log start; its tail still has the records
        (partition,) = await bench.create_partitions()
        who = await bench.producer("p")
        await bench.append(partition, [b"a"], who)
        await bench.end(who, committed=False)
        await bench.append(partition, [b"plain"])
        if restarted:
            await bench.restart()
        await bench.known(partition)
        get = bench.objects.get

        async def expire() -> None:
            await bench.metadata.delete_records({partition: 2})
            assert await bench.metadata.purge(1000)

        async def get_while_it_expires(path: str, start: int, length: int) -> bytearray:
            bench.objects.get = get  # type: ignore[method-assign] # as it was
            await expire()
            return await get(path, start, length)

        # When its records are read after that, or while that happens
        if restarted:
            bench.objects.get = get_while_it_expires  # type: ignore[method-assign]
        else:
            await expire()
        refused = await fetch(bench, partition, 0)

        # Then the reader is told that the log begins later, where it may go on
        assert (refused.error_code, refused.size) == (ErrorCode.offset_out_of_range, 0)
        answer = await fetch(bench, partition, 2)
        assert (answer.error_code, answer.aborted) == (ErrorCode.none, [])
        assert answer.size

        # And once the topic is gone, nobody remembers any of them
        bench.log._aborted = AbortedIndexes(bench.metadata)
        await bench.metadata.delete_topic(partition.topic_id)
        refused = await fetch(bench, partition, 2)
        gone = ErrorCode.unknown_topic_or_partition
        assert (refused.error_code, refused.size) == (gone, 0)


@dataclass
class History:
    """What producers did to a partition, and what is to be read of it.

    Attributes:
        opened: values of each open transaction, by offset.
        committed: values that stay, by offset.
    """

    bench: LogBench
    partition: Partition
    producers: list[Transactional]
    codec: Codec
    max_kept: int
    opened: dict[int, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    committed: dict[int, bytes] = field(default_factory=dict)
    written: int = 0

    def values(self, count: int) -> list[bytes]:
        self.written += count
        return [b"%d" % (self.written - at) for at in range(count)]

    def __post_init__(self) -> None:
        self.keep_few()

    def keep_few(self) -> None:
        """Let the broker remember so many aborted transactions only."""
        indexes = AbortedIndexes(self.bench.metadata, max_kept=self.max_kept)
        self.bench.log._aborted = indexes

    async def step(
        self, step: str, who: int, argument: int, readers: list[CommittedReader]
    ) -> None:
        log = await self.bench.known(self.partition)
        if step == "write":
            await self.write(who, argument)
        elif step == "end":
            await self.end(who, committed=argument in {0, 1}, elsewhere=argument in {1, 2})
        elif step == "fetch":
            await self.read(readers[who], argument)
        elif step == "restart":
            await self.bench.restart()
            self.keep_few()
        else:
            await self.bench.log.refresh([log])

    async def write(self, producer: int, count: int) -> None:
        """Write two batches, which come into the same object; -1 is in no transaction."""
        writers = [producer, producer if count % 2 else -1]
        pieces = [self.values(count), self.values(1)]
        futures = [
            self.bench.append(
                self.partition,
                piece,
                None if writer < 0 else self.producers[writer],
                codec=self.codec,
            )
            for writer, piece in zip(writers, pieces, strict=True)
        ]
        for writer, piece, future in zip(writers, pieces, futures, strict=True):
            outcome = await future
            assert outcome.refusal is None
            kept = self.committed if writer < 0 else self.opened[writer]
            kept.update((outcome.base_offset + at, value) for at, value in enumerate(piece))

    async def end(self, producer: int, *, committed: bool, elsewhere: bool) -> None:
        if producer not in self.opened:
            return
        values = self.opened.pop(producer)
        if committed:
            self.committed.update(values)
        who = self.producers[producer]
        await self.bench.end(who, committed=committed, elsewhere=elsewhere)

    async def read(self, reader: CommittedReader, max_bytes: int) -> int:
        """Let a consumer fetch once; return how far it came."""
        before = reader.position
        answer = await fetch(self.bench, self.partition, before, max_bytes=max_bytes, min_bytes=0)
        assert answer.error_code == ErrorCode.none
        reader.take(b"".join(answer.records), answer.aborted or ())
        assert reader.position <= answer.last_stable_offset
        return reader.position - before


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(-1, 2), st.integers(1, 4)),
        st.tuples(st.just("end"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("fetch"), st.integers(0, 2), st.sampled_from([1, 150, 400, 1 << 20])),
        st.tuples(st.sampled_from(["restart", "news"]), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(
    steps=STEPS,
    codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD]),
    tail_bytes=st.sampled_from([1, 3000, 1 << 20]),
    max_kept=st.sampled_from([1, 3, 10_000]),
    size=st.sampled_from([1, 100, 300, 1 << 20]),
)
def test_what_readers_keep_are_the_committed_records(
    steps: list[tuple[str, int, int]], codec: Codec, tail_bytes: int, max_kept: int, size: int
) -> None:
    async def run() -> None:
        async with running_log(tail_bytes=tail_bytes) as bench:
            (partition,) = await bench.create_partitions()
            producers = [await bench.producer(name) for name in "pqr"]
            history = History(bench, partition, producers, codec, max_kept)

            # Given readers that read along while transactions begin and end, here and elsewhere
            readers = [CommittedReader() for _ in range(3)]
            for step, who, argument in steps:
                await history.step(step, who, argument, readers)

            # When what is open is aborted, and they read on to the end with answers of any size
            for producer in list(history.opened):
                await history.end(producer, committed=False, elsewhere=False)
            log = await bench.known(partition)
            await bench.log.refresh([log])
            for reader in [*readers, CommittedReader()]:
                while await history.read(reader, size):
                    pass

                # Then each was given just what was committed
                assert reader.position == log.high_watermark
                assert reader.values == history.committed

    asyncio.run(run())
