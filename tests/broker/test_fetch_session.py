"""Fetch sessions over a log in memory: a client that names only changes misses nothing.

The client does as Kafka's does (KIP-227): it names what it has read on, takes in or gives up, and
reads what it is told of. Whatever happens to the log meanwhile, it comes to the end of everything.
"""

import asyncio
import time
from collections.abc import Mapping
from random import Random
from typing import Final

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry

from broker.cluster import Cluster
from broker.fetch_context import Wanted
from broker.fetch_session import AWAKE_S, FetchSession
from broker.fetching import Fetch
from broker.read_failures import ReadFailures
from protocol.batch import read_header
from protocol.fetch import (
    READ_COMMITTED,
    FetchRequest,
    PartitionWanted,
    TopicForgotten,
    TopicWanted,
)
from protocol.fetch_response import PartitionAnswer
from protocol.ids import Partition
from storage.log import POLL_S, POLLED_AT_ONCE
from storage.partition_log import POLLS_AFTER_FETCH, PartitionLog
from storage.partition_offsets import PartitionOffsets
from tests.broker.test_fetching import alone
from tests.storage.log_bench import LogBench, Transactional, running_log

MAX_BYTES: Final = 400
"""Some three batches: what is there does not fit into one answer."""

PATIENCE_S: Final = 10.0
WAIT_S: Final = 1.0


class SessionClient:
    """A consumer with a session.

    Args:
        max_bytes: of an answer; of one partition it takes MAX_BYTES.

    Attributes:
        positions: the next offset of each partition that it wants.
        ends: where it was last told that logs begin and end.
        read: how many records it was given of each partition.
        looked_at: partitions that its last fetch looked at.
    """

    def __init__(
        self, bench: LogBench, *, read_committed: bool, max_bytes: int = MAX_BYTES
    ) -> None:
        self._bench = bench
        self._max_bytes = max_bytes
        self.read_committed = read_committed
        self.session = FetchSession(1, by_topic_id=True)
        self._cluster = Cluster(cluster_id="c", brokers=alone(1), listener=0)
        self.positions: dict[Partition, int] = {}
        self.ends: dict[Partition, tuple[int, int]] = {}
        self.read: dict[Partition, int] = {}
        self.looked_at = 0
        self._changed: set[Partition] = set()
        self._left: set[Partition] = set()

    def want(self, partition: Partition, offset: int) -> None:
        self.positions[partition] = offset
        self._changed.add(partition)
        self._left.discard(partition)

    def leave(self, partition: Partition) -> None:
        del self.positions[partition]
        self._changed.discard(partition)
        self._left.add(partition)

    async def fetch(
        self, max_wait_s: float = 0.0, *, min_bytes: int = 1
    ) -> Mapping[Partition, PartitionAnswer]:
        """Ask for what is new, take it in, and return what was told."""
        topics = [
            TopicWanted("", one.topic_id, [PartitionWanted(one.index, -1, offset, MAX_BYTES)])
            for one, offset in self.positions.items()
            if one in self._changed
        ]
        forgotten = [TopicForgotten("", one.topic_id, [one.index]) for one in self._left]
        isolation = READ_COMMITTED if self.read_committed else 0
        request = FetchRequest(0, 1, self._max_bytes, isolation, 1, 1, topics, forgotten)
        self._changed.clear()
        self._left.clear()
        self.session.change(request)
        for topic, partitions in self.session.unknown(0, read_committed=self.read_committed):
            assert topic.topic_id is not None
            found = [
                await self._found(Partition(topic.topic_id, p.index), p) for p in topic.partitions
            ]
            self.session.found(partitions, found)
        fetch = Fetch(
            *(self._bench.log, self._cluster, self.session),
            failures=ReadFailures(CollectorRegistry(), lambda _: "t", time.monotonic),
            max_bytes=self._max_bytes,
            read_committed=self.read_committed,
        )
        await fetch.run(min_bytes=min_bytes, max_wait_s=max_wait_s)
        self.looked_at = len(fetch.wanted)
        told = {
            Partition(topic.topic_id, answer.index): answer
            for topic in self.session.answers()
            for answer in topic.partitions
            if topic.topic_id is not None
        }
        for partition, answer in told.items():
            self._take(partition, answer)
        return told

    async def _found(self, partition: Partition, wanted: PartitionWanted) -> Wanted:
        log = await self._bench.known(partition)
        return Wanted(wanted, log, PartitionAnswer(partition.index))

    def _take(self, partition: Partition, answer: PartitionAnswer) -> None:
        assert partition in self.positions, "told of what it does not want"
        if answer.error_code == ErrorCode.offset_out_of_range:
            log = self._bench.log.partition(partition)
            self.want(partition, log.log_start_offset)
            return
        assert answer.error_code == 0
        self.ends[partition] = answer.log_start_offset, answer.high_watermark
        for batch in answer.records:
            header = read_header(batch)
            end = header.base_offset + header.last_offset_delta + 1
            assert header.base_offset <= self.positions[partition] < end, "a gap, or old records"
            self.read[partition] = self.read.get(partition, 0) + end - self.positions[partition]
            self.want(partition, end)


async def read_all(client: SessionClient) -> None:
    """Ask until there is nothing new."""
    for _ in range(1_000):
        if not await client.fetch():
            return
    raise AssertionError("there is always something new")


def end_of(log: PartitionLog, *, read_committed: bool) -> int:
    return log.last_stable_offset if read_committed else log.high_watermark


class World:
    """What happens to the log, and to what a client wants of it."""

    def __init__(
        self, bench: LogBench, client: SessionClient, partitions: list[Partition], rng: Random
    ) -> None:
        self._bench = bench
        self._client = client
        self._partitions = partitions
        self._rng = rng
        self._open: list[Transactional] = []

    async def happen(self) -> None:
        """Let one thing happen."""
        rng, bench, client = self._rng, self._bench, self._client
        partition = rng.choice(self._partitions)
        log = await bench.known(partition)
        match rng.randrange(9):
            case 0 | 1 | 2:
                await bench.append(partition, [b"x" * rng.randrange(60)] * rng.randrange(1, 4))
            case 3:
                who = await bench.producer(f"t{rng.randrange(10**9)}")
                for one in rng.sample(self._partitions, 2):
                    await bench.append(one, [b"t"], who)
                self._open.append(who)
            case 4 if self._open:
                who = self._open.pop(rng.randrange(len(self._open)))
                await bench.end(who, committed=rng.random() < 0.5, elsewhere=rng.random() < 0.5)
            case 5:
                before = rng.randint(log.log_start_offset, log.high_watermark)
                await bench.metadata.delete_records({partition: before})
            case 6:
                bench.log.wake_waiters()
            case 7 if partition in client.positions:
                client.leave(partition)
            case _:
                end = max(end_of(log, read_committed=client.read_committed), log.log_start_offset)
                client.want(partition, rng.randint(log.log_start_offset, end))


@pytest.mark.parametrize("seed", range(40))
async def test_a_client_that_names_only_changes_comes_to_the_end_of_everything(seed: int) -> None:
    rng = Random(seed)
    read_committed = bool(seed % 2)
    async with running_log(tail_bytes=rng.choice((1_000, 1 << 20))) as bench:
        partitions = await bench.create_partitions(5)
        client = SessionClient(bench, read_committed=read_committed)
        world = World(bench, client, partitions, rng)
        for _ in range(60):
            # When things happen, which the broker hears of a moment later if others did them
            for _ in range(rng.randrange(4)):
                await world.happen()
            if rng.random() < 0.5:
                await client.fetch()
                continue
            logs = [await bench.known(one) for one in partitions]
            await bench.log.refresh(logs)
            await read_all(client)

            # Then the client comes to the end, and knows where logs begin and end
            for partition, offset in client.positions.items():
                log = bench.log.partition(partition)
                end = end_of(log, read_committed=read_committed)
                assert offset == max(end, log.log_start_offset)
                assert client.ends[partition] == (log.log_start_offset, log.high_watermark)
        assert any(client.read.values())


async def test_who_waits_is_woken_by_any_of_its_partitions() -> None:
    async with running_log() as bench:
        # Given a client that knows that there is nothing, and waits
        partitions = await bench.create_partitions(3)
        client = SessionClient(bench, read_committed=False)
        for one in partitions:
            client.want(one, 0)
        assert (await client.fetch()).keys() == set(partitions)

        for one in reversed(partitions):
            waiting = asyncio.create_task(client.fetch(PATIENCE_S))
            await asyncio.sleep(0)

            # When records come, then they are the answer, and no other partition is in it
            await bench.append(one, [b"a"])
            assert (await asyncio.wait_for(waiting, PATIENCE_S / 2)).keys() == {one}
            assert not await client.fetch()


async def test_what_others_committed_counts_as_soon_as_something_comes_behind_it() -> None:
    async with running_log() as bench:
        # Given a client that waits for more than the next batch
        (partition,) = await bench.create_partitions()
        who = await bench.producer("t")
        first = await bench.append(partition, [b"a"], who)
        client = SessionClient(bench, read_committed=False)
        client.want(partition, first.base_offset)
        await read_all(client)
        await bench.append(partition, [b"b"])
        told = await client.fetch()
        waiting = asyncio.create_task(client.fetch(PATIENCE_S, min_bytes=told[partition].size + 1))
        await asyncio.sleep(0)

        # When one of the same size comes behind a marker of another broker's
        await bench.end(who, committed=True, elsewhere=True)
        await bench.append(partition, [b"c"])

        # Then there are enough bytes
        told = await asyncio.wait_for(waiting, PATIENCE_S / 2)
        assert told[partition].size > 0


async def test_who_reads_what_is_committed_hears_where_the_log_ends_as_well() -> None:
    async with running_log() as bench:
        # Given a client that waits for committed records
        (partition,) = await bench.create_partitions()
        client = SessionClient(bench, read_committed=True)
        client.want(partition, 0)
        await read_all(client)
        began_s = time.monotonic()
        waiting = asyncio.create_task(client.fetch(WAIT_S))
        await asyncio.sleep(0)

        # When there are others, then it waits on, and is told how many in the end
        await bench.append(partition, [b"a"], await bench.producer("t"))
        told = await waiting
        assert time.monotonic() - began_s >= WAIT_S / 2
        assert (told[partition].high_watermark, told[partition].last_stable_offset) == (1, 0)
        assert not await client.fetch()


async def test_what_has_no_news_is_not_looked_at() -> None:
    async with running_log() as bench:
        partitions = await bench.create_partitions(100)
        client = SessionClient(bench, read_committed=False)
        for one in partitions:
            client.want(one, 0)
        await read_all(client)

        # When records come for two of them
        await bench.append(partitions[7], [b"a"])
        await bench.append(partitions[70], [b"a"])

        # Then these two are looked at, until there is nothing left to read of them
        told, looked_at = [], []
        for _ in range(3):
            told.append(len(await client.fetch()))
            looked_at.append(client.looked_at)
        assert (told, looked_at) == ([2, 0, 0], [2, 2, 0])


async def test_records_of_all_partitions_come_in_turn() -> None:
    async with running_log() as bench:
        # Given more in each partition than fits into an answer
        partitions = await bench.create_partitions(3)
        client = SessionClient(bench, read_committed=False)
        for one in partitions:
            client.want(one, 0)
            for _ in range(20):
                await bench.append(one, [b"x" * 100])

        # When it reads, then no partition waits while another one is read to its end
        for _ in range(20):
            await client.fetch()
        offsets = [client.positions[one] for one in partitions]
        assert max(offsets) - min(offsets) <= 4, offsets
        await read_all(client)
        assert [client.positions[one] for one in partitions] == [20, 20, 20]


@pytest.mark.parametrize("large_at", [0, 1])
async def test_a_large_old_batch_comes_in_its_turn_beside_new_ones(large_at: int) -> None:
    async with running_log() as bench:
        # Given a batch that is larger than the limit of its partition, and not in memory
        partitions = await bench.create_partitions(2)
        large, busy = partitions[large_at], partitions[1 - large_at]
        await bench.append(large, [b"x" * 2 * MAX_BYTES])
        await bench.restart()

        # When a client asks for it, and there is something new elsewhere each time
        client = SessionClient(bench, read_committed=False, max_bytes=10 * MAX_BYTES)
        for one in partitions:
            client.want(one, 0)
        read = []
        for _ in range(3):
            await bench.append(busy, [b"a"])
            await client.fetch()
            read.append(client.read.get(large, 0))

        # Then it comes as soon as its partition is the first (KIP-74), and the others come, too
        assert read == [large_at == 0, 1, 1]
        assert client.read[busy] == 3


async def test_nobody_polls_for_a_client_that_does_not_come_back() -> None:
    async with running_log() as bench:
        # Given a client that has just asked
        (partition,) = await bench.create_partitions()
        log = await bench.known(partition)
        client = SessionClient(bench, read_committed=False)
        client.want(partition, 0)
        await client.fetch()
        assert log.take_poll()

        # When it is away for longer than that
        await asyncio.sleep(AWAKE_S)
        while log.take_poll():
            pass

        # Then its partition is polled for again from when it comes back
        assert not log.take_poll()
        await client.fetch()
        assert log.take_poll()

        # And not when it has ended
        client.session.close()
        while log.take_poll():
            pass


class PatientClient(SessionClient):
    """Asks again for what cannot be read."""

    def _take(self, partition: Partition, answer: PartitionAnswer) -> None:
        if answer.error_code != ErrorCode.kafka_storage_error:
            super()._take(partition, answer)


async def test_a_partition_that_cannot_be_read_holds_up_no_other() -> None:
    async with running_log() as bench:
        # Given two partitions of which nothing is in memory, and the records of one are lost
        lost, kept = await bench.create_partitions(2)
        await bench.append(lost, [b"a"])
        await bench.objects.delete([one.path async for one in bench.objects.list("")])
        await bench.append(kept, [b"a"])
        await bench.restart()

        # When a client wants that one first, each with as much as it takes of both
        client = PatientClient(bench, read_committed=False)
        client.want(lost, 0)
        client.want(kept, 0)
        told = await client.fetch()
        assert told[lost].error_code == ErrorCode.kafka_storage_error
        await client.fetch()

        # Then it is given the other one the next time
        assert client.read == {kept: 1}


class SlowClient(SessionClient):
    """Attributes: find_s is how long the broker takes to find a partition for it."""

    find_s = 0.0

    async def _found(self, partition: Partition, wanted: PartitionWanted) -> Wanted:
        await asyncio.sleep(self.find_s)
        return await super()._found(partition, wanted)


async def test_who_waits_is_polled_for_however_long_its_fetch_took_to_begin() -> None:
    async with running_log() as bench:
        # Given a client that waits for a transaction to end
        partition, another = await bench.create_partitions(2)
        client = SlowClient(bench, read_committed=True)
        client.want(partition, 0)
        who = await bench.producer("t")
        await bench.append(partition, [b"a"], who)
        await read_all(client)
        polling = asyncio.create_task(bench.log.poll())

        # When it wants one more, for which it seems to be away until that is found
        client.want(another, 0)
        client.find_s = AWAKE_S + POLL_S * (POLLS_AFTER_FETCH + 2)
        waiting = asyncio.create_task(client.fetch(PATIENCE_S))
        await asyncio.sleep(client.find_s + POLL_S)

        # Then it hears of the end, which is another broker's
        await bench.end(who, committed=True, elsewhere=True)
        told = await asyncio.wait_for(waiting, PATIENCE_S / 2)
        assert told[partition].size > 0
        polling.cancel()


async def test_polling_for_very_many_leaves_others_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_log() as bench:
        # Given a client that waits for very many partitions
        partitions = await bench.create_partitions(2 * POLLED_AT_ONCE + 1)
        await bench.log.refresh([bench.log.partition(one) for one in partitions])
        client = SessionClient(bench, read_committed=False)
        for one in partitions:
            client.want(one, 0)
        await client.fetch()
        asked = [0]  # who waits, from query to query
        take_poll, changed_offsets = PartitionLog.take_poll, bench.metadata.changed_offsets

        def take(self: PartitionLog) -> bool:
            asked[-1] += 1
            return take_poll(self)

        async def changed(
            known: Mapping[Partition, PartitionOffsets],
        ) -> Mapping[Partition, PartitionOffsets | None]:
            asked.append(0)
            return await changed_offsets(known)

        monkeypatch.setattr(PartitionLog, "take_poll", take)
        monkeypatch.setattr(bench.metadata, "changed_offsets", changed)

        # When it is polled for, then no more are gone through at a time than a query tells of
        polling = asyncio.create_task(bench.log.poll())
        while sum(asked) < len(partitions):
            await asyncio.sleep(POLL_S)
        assert max(asked) <= POLLED_AT_ONCE
        polling.cancel()
