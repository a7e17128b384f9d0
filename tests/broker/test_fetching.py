"""Fetch, over stores in memory: which errors consumers are told, and for whom anything is read.

OFFSET_OUT_OF_RANGE must not be answered so late that another broker may have led the partition
meanwhile. librdkafka goes to that one. If it is back by then, it takes the code, which is true of
where it began, for where it is now: it would begin anew, or leave out what it has not read.
"""

import asyncio
import time
from collections.abc import Sequence
from random import Random
from typing import Final

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry

from broker.broker_set import BrokerSet
from broker.cluster import Cluster
from broker.fetch_context import SessionlessFetchContext, Wanted
from broker.fetching import Fetch
from broker.read_failures import ReadFailures
from protocol.fetch import PartitionWanted, TopicWanted
from protocol.fetch_response import PartitionAnswer
from storage.config import MiB
from storage.errors import MetadataUnavailable
from storage.metadata.brokers import BrokerRecord, Membership
from storage.metadata.port import SegmentLookup
from storage.partition_log import PartitionLog
from storage.reading.read_planner import ColdRead
from storage.segment_entry import SegmentEntry
from tests.storage.cold_bench import ColdBench
from tests.storage.log_bench import LogBench, running_log
from tests.support.fakes.metadata import MemoryMetadata

PATIENCE_S: Final = 30.0
MOVED, OUT_OF_RANGE = ErrorCode.not_leader_or_follower, ErrorCode.offset_out_of_range


class LeavingStore(MemoryMetadata):
    """Tells once where records are, and then gives no answer."""

    is_away = False

    async def find_segments(self, lookups: Sequence[SegmentLookup]) -> list[list[SegmentEntry]]:
        if self.is_away:
            raise MetadataUnavailable("away")
        self.is_away = True
        return await super().find_segments(lookups)


def alone(generation: int) -> BrokerSet:
    return among(1, generation)


def among(count: int, generation: int = 1) -> BrokerSet:
    """Return so many brokers as the first of them knows them."""
    brokers = [
        BrokerRecord(node_id=at, addresses=(f"localhost:{at + 1}",), rack=None)
        for at in range(count)
    ]
    return BrokerSet(Membership(node_id=0, generation=generation, brokers=brokers))


def fetch_of(
    bench: LogBench, cluster: Cluster, log: PartitionLog, *, offset: int = 0, leader_epoch: int = -1
) -> tuple[Fetch, Wanted]:
    """Return a fetch from an offset on, and what it is to answer."""
    partition = log.partition
    wanted = Wanted(
        PartitionWanted(partition.index, leader_epoch, offset, 1 << 20),
        log,
        PartitionAnswer(partition.index),
    )
    context = SessionlessFetchContext()
    context.add(TopicWanted("t", None, [wanted.partition]), [wanted])
    fetch = Fetch(
        *(bench.log, cluster, context),
        failures=ReadFailures(CollectorRegistry(), lambda _: "t", time.monotonic),
        max_bytes=1 << 20,
        read_committed=False,
    )
    return fetch, wanted


@pytest.mark.parametrize(
    ("leader_epoch", "generation", "code"),
    [
        (1, 1, OUT_OF_RANGE),
        (-1, 1, OUT_OF_RANGE),
        (0, 1, MOVED),  # as it had been sent to who leads again before anybody else did
        (1, 3, MOVED),
        (-1, 3, MOVED),
    ],
)
async def test_out_of_range_is_told_by_who_has_led_since_it_was_asked(
    leader_epoch: int, generation: int, code: ErrorCode
) -> None:
    async with running_log() as bench:
        # Given a fetch that waits for more than there is
        (partition,) = await bench.create_partitions()
        await bench.append(partition, [b"a", b"b"])
        cluster = Cluster(cluster_id="c", brokers=alone(1), listener=0)
        log = await bench.known(partition)
        fetch, wanted = fetch_of(bench, cluster, log, leader_epoch=leader_epoch)
        answered = asyncio.create_task(fetch.run(min_bytes=1 << 20, max_wait_s=PATIENCE_S))
        await asyncio.sleep(0)

        # When what it asked for is deleted, and its broker hears of a new generation, or does not
        cluster.change(alone(generation))
        await bench.metadata.delete_records({partition: 1})
        await bench.log.refresh([wanted.log])
        bench.log.wake_waiters()
        await answered

        # Then it is told so, or sent away
        assert wanted.answer.error_code == code


@pytest.mark.parametrize("is_known", [False, True])
async def test_no_log_begins_before_offset_0_however_little_is_known_of_it(
    is_known: bool,
) -> None:
    async with running_log() as bench:
        # Given a partition whose offsets this broker may not have asked for yet
        (partition,) = await bench.create_partitions()
        log = await bench.known(partition) if is_known else PartitionLog(partition)
        cluster = Cluster(cluster_id="c", brokers=alone(1), listener=0)

        # When somebody fetches from -1 on
        fetch, wanted = fetch_of(bench, cluster, log, offset=-1)
        await fetch.run(min_bytes=1, max_wait_s=0)

        # Then there is no such offset
        assert wanted.answer.error_code == OUT_OF_RANGE


async def test_postgres_goes_away_while_a_read_is_planned_again() -> None:
    async with running_log() as bench:
        # Given records whose object has been replaced since Postgres told where they are
        bench.metadata = LeavingStore(Random(0))
        await bench.restart()
        (partition,) = await bench.create_partitions()
        await bench.append(partition, [b"a", b"b"])
        await bench.restart()  # with nothing in memory
        await bench.objects.delete([one.path async for one in bench.objects.list("")])
        cluster = Cluster(cluster_id="c", brokers=alone(1), listener=0)
        fetch, wanted = fetch_of(bench, cluster, await bench.known(partition))

        # When Postgres does not tell where they are now
        await fetch.run(min_bytes=1, max_wait_s=0)

        # Then clients hear what makes them ask again: Java's gives up on REQUEST_TIMED_OUT here
        assert wanted.answer.error_code == ErrorCode.kafka_storage_error


@pytest.mark.parametrize("brokers", [1, 2])
async def test_nothing_is_read_any_more_for_clients_that_are_gone(brokers: int) -> None:
    # Given old data of several partitions, each as much as may be in use at a time
    bench = ColdBench(max_bytes=2 * MiB)
    logs = await bench.create(8)
    for log in logs:
        await bench.write([log], batches=4)
    bench.restart()
    cluster = Cluster(cluster_id="c", brokers=among(brokers), listener=0)

    # When clients that wait for the first of it, and for their turn, are gone
    bench.store.held.clear()
    asks = [
        asyncio.create_task(cluster.unless_cut_off(bench.reader.read([ColdRead(log, 0, MiB)])))
        for log in logs
    ]
    while len(bench.reader._in_use._waiting) < len(logs) - 1:
        await asyncio.sleep(0)
    for ask in asks:
        ask.cancel()
    await asyncio.wait(asks)
    bench.store.held.set()

    # Then the next one does not wait for what nobody wants
    await bench.read(logs[-1], 0)
    assert len(bench.store.gets) == 2
    await bench.close()
