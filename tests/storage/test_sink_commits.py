"""Batches of jobs without brokers: all objects or none, once, whatever else goes on (Postgres)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from random import Random

import asyncpg
import pytest

from protocol.ids import Partition
from storage.errors import (
    CommitOutcomeUnknown,
    MetadataUnavailable,
    MetadataWentBack,
    UnknownPartition,
)
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import BatchCommit, TransactionUse
from storage.postgres.postgres_connection import Connection
from storage.segment_entry import SegmentEntry
from storage.sink_commits import BatchOvertaken, SinkBatch, SinkCommits, SinkObject, SinkVerdict
from tests.contracts.metadata_stores import (
    a_batch,
    commit,
    create_partitions,
    doom_in_postgres,
    whole_log,
)
from tests.support.lossy_proxy import LossyProxy
from tests.support.patience import PATIENT
from tests.support.postgres import create_database, postgres_server, short_directory, until

pytestmark = pytest.mark.usefixtures("patience")

HOUR = timedelta(hours=1)

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One database, and who uses it."""

    dsn: str
    store: PostgresMetadata
    sink: SinkCommits

    async def stored(self, partitions: Sequence[Partition], records: int = 10) -> SinkObject:
        """Reserve an object with two batches for each partition."""
        path = f"wal/sink-{next(_numbers)}"
        await self.sink.reserve(path, longer=HOUR)
        places = sorted(partitions)
        batches = tuple(
            a_batch(partition, 100 * number, records=records)
            for number, partition in enumerate(place for place in places for _ in range(2))
        )
        return SinkObject(path=path, size=100 * len(batches) + 56, batches=batches)

    async def rows(self, partitions: Sequence[Partition]) -> list[list[SegmentEntry]]:
        """Return each partition's index, without the names of objects."""
        found = [await whole_log(self.store, partition) for partition in partitions]
        return [[replace(row, path="") for row in of_partition] for of_partition in found]

    async def ends(self, partitions: Sequence[Partition]) -> list[int]:
        """Return high watermarks, after a look at the whole index of each partition."""
        for partition in partitions:
            await whole_log(self.store, partition)
        found = await self.store.partition_offsets(partitions)
        return [found[partition].high_watermark for partition in partitions]

    async def states(self, *objects: SinkObject) -> list[str | None]:
        connection: Connection = await asyncpg.connect(self.dsn)
        try:
            query = "SELECT state FROM streamhouse_internal.objects WHERE path = $1"
            return [await connection.fetchval(query, each.path) for each in objects]
        finally:
            await connection.close()


def batch_of(*objects: SinkObject, sink: str = "query:1", number: int = 0) -> SinkBatch:
    return SinkBatch(sink_id=sink, batch_id=number, remembered=None, objects=objects)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn, PATIENT)
    sink = await SinkCommits.open(dsn)
    yield Cluster(dsn, store, sink)
    await sink.close()
    await store.close()


async def test_a_batch_is_in_all_its_partitions_in_the_order_of_its_objects(
    cluster: Cluster,
) -> None:
    # Given two objects with rows for the same partitions, one of them for one more
    partitions = await create_partitions(cluster.store, 3)
    first = await cluster.stored(partitions[:2], records=10)
    second = await cluster.stored(partitions, records=5)

    # When they are committed, the later one first in the batch
    verdict = await cluster.sink.commit(batch_of(second, first))

    # Then all partitions have theirs, in that order, one row for each object
    assert verdict is SinkVerdict.COMMITTED
    assert await cluster.ends(partitions) == [30, 30, 10]
    rows = await whole_log(cluster.store, partitions[0])
    assert [(row.start_offset, row.path) for row in rows] == [(0, second.path), (10, first.path)]
    assert await cluster.states(first, second) == ["live", "live"]


async def test_a_job_leaves_the_same_index_as_a_broker(cluster: Cluster) -> None:
    # Given objects whose batches are adjacent, and are not, and have timestamps in some order
    of_job, of_broker = [sorted(await create_partitions(cluster.store, 2)) for _ in range(2)]

    def layouts(first: Partition, second: Partition) -> list[list[BatchCommit]]:
        return [
            [
                a_batch(first, 0, records=1, timestamp_ms=5),
                a_batch(first, 100, records=2, timestamp_ms=9),
                a_batch(first, 200, records=3, timestamp_ms=-1),
                a_batch(first, 350, records=4, length=50),
                a_batch(second, 400, records=5),
            ],
            [a_batch(second, 0, records=6), a_batch(second, 200, records=7)],
            [a_batch(first, 200, records=8, timestamp_ms=1), a_batch(second, 300, records=9)],
        ]

    # When both commit them, to partitions that have something already
    for first in (of_job[0], of_broker[0]):
        await commit(cluster.store, [a_batch(first, 0)])
    for batches in layouts(*of_broker):
        await commit(cluster.store, batches)
    objects = []
    for number, batches in enumerate(layouts(*of_job)):
        await cluster.sink.reserve(path := f"wal/like-{number}", longer=HOUR)
        objects.append(SinkObject(path=path, size=500, batches=tuple(batches)))
    await cluster.sink.commit(batch_of(*objects))

    # Then all is the same
    assert await cluster.ends(of_job) == await cluster.ends(of_broker) == [28, 27]
    rows = await cluster.rows(of_job)
    assert rows == await cluster.rows(of_broker)
    assert [len(of_partition) for of_partition in rows] == [4, 4]


async def test_brokers_wait_no_longer_because_of_many_objects(cluster: Cluster) -> None:
    # Given many objects for a partition
    (partition,) = await create_partitions(cluster.store, 1)
    objects = [await cluster.stored([partition]) for _ in range(50)]
    connection: Connection = await asyncpg.connect(cluster.dsn)
    versions = "SELECT (ctid::text::point)[1]::int FROM streamhouse_internal.partitions"
    before = await connection.fetchval(versions)

    # When they are committed, then its row, which producers wait for, has been written once
    await cluster.sink.commit(batch_of(*objects))
    assert await connection.fetchval(versions) == before + 1
    assert await cluster.ends([partition]) == [50 * 20]
    await connection.close()


async def test_a_batch_that_comes_again_changes_nothing(cluster: Cluster) -> None:
    # Given a committed batch
    partitions = await create_partitions(cluster.store, 2)
    once = batch_of(await cluster.stored(partitions))
    await cluster.sink.commit(once)

    # When it comes again, as it was and with another object and other rows
    other = await cluster.stored(partitions[:1], records=3)
    again = [await cluster.sink.commit(each) for each in (once, batch_of(other))]

    # Then nothing is added, and the other object waits for the sweeper
    assert again == [SinkVerdict.REPEATED] * 2
    assert await cluster.ends(partitions) == [20, 20]
    assert await cluster.states(other) == ["pending"]
    assert await cluster.sink.last_batch("query:1") == 0


async def test_a_batch_before_the_last_one_is_refused(cluster: Cluster) -> None:
    # Given a query whose batch 7 is in the log
    partitions = await create_partitions(cluster.store, 1)
    await cluster.sink.commit(batch_of(await cluster.stored(partitions), number=7))

    # When batch 6 comes: from a driver that was left behind, or a checkpoint that was set back
    late = batch_of(await cluster.stored(partitions), number=6)
    with pytest.raises(BatchOvertaken, match="batch 6 of 'query:1' comes after batch 7"):
        await cluster.sink.commit(late)

    # Then it is not in the log; batch 8 is welcome, and so is another query's batch 0
    assert await cluster.ends(partitions) == [20]
    for following in ({"number": 8}, {"sink": "query:2"}):
        objects = await cluster.stored(partitions)
        verdict = await cluster.sink.commit(batch_of(objects, **following))
        assert verdict is SinkVerdict.COMMITTED
    assert await cluster.ends(partitions) == [60]


async def test_an_object_that_was_given_up_keeps_the_others_out(cluster: Cluster) -> None:
    # Given three objects of a batch, one of them given up, and one never reserved
    partitions = await create_partitions(cluster.store, 2)
    kept, doomed, unknown = [await cluster.stored(partitions) for _ in range(3)]
    await doom_in_postgres(cluster.dsn, doomed.path)
    unknown = replace(unknown, path="wal/never-reserved")

    # When the batch is committed
    with pytest.raises(CommitOutcomeUnknown) as refused:
        await cluster.sink.commit(batch_of(kept, doomed, unknown))

    # Then it names both, and nothing is in the log; with other objects the batch is welcome
    assert doomed.path in str(refused.value)
    assert unknown.path in str(refused.value)
    assert kept.path not in str(refused.value)
    assert await cluster.ends(partitions) == [0, 0]
    assert await cluster.states(kept, doomed) == ["pending", "doomed"]
    assert await cluster.sink.last_batch("query:1") == -1
    verdict = await cluster.sink.commit(batch_of(kept, await cluster.stored(partitions)))
    assert verdict is SinkVerdict.COMMITTED


async def test_a_partition_that_is_gone_keeps_all_others_out(cluster: Cluster) -> None:
    # Given objects for two topics, one of which was deleted meanwhile
    (stays,) = await create_partitions(cluster.store, 1)
    (goes,) = await create_partitions(cluster.store, 1)
    both = [await cluster.stored([stays]), await cluster.stored([stays, goes])]
    await cluster.store.delete_topic(goes.topic_id)

    # When the batch is committed, then it is refused as a whole
    with pytest.raises(UnknownPartition, match=f"{goes.topic_id}-0"):
        await cluster.sink.commit(batch_of(*both))
    assert await cluster.ends([stays]) == [0]
    assert await cluster.states(*both) == ["pending", "pending"]


async def test_nothing_goes_into_a_database_that_brokers_have_marked(cluster: Cluster) -> None:
    # Given a sink with a batch in a database of which a broker sees that it was set back
    partitions = await create_partitions(cluster.store, 1)
    before = batch_of(await cluster.stored(partitions))
    await cluster.sink.commit(before)
    database = Entity(EntityKind.DATABASE, "")
    mark = {"went.back": "partition 0 ends at 1 in it"}
    await cluster.store.alter_entity_configs([EntityChange(entity=database, changes=mark)])

    # When the next batch is committed, or the last one comes again, then neither counts as done
    following = batch_of(await cluster.stored(partitions), number=1)
    for batch in (following, before):
        with pytest.raises(MetadataWentBack, match="ends at 1 in it"):
            await cluster.sink.commit(batch)
    assert await cluster.ends(partitions) == [20]

    # And what the sink has done is not told, lest tasks of a batch store nothing
    with pytest.raises(MetadataWentBack, match="ends at 1 in it"):
        await cluster.sink.last_batch(before.sink_id)

    # And once the mark is taken away, it is
    accepted = {"went.back": None}
    await cluster.store.alter_entity_configs([EntityChange(entity=database, changes=accepted)])
    assert await cluster.sink.commit(following) is SinkVerdict.COMMITTED


async def test_leader_epochs_neither_refuse_a_job_nor_rise_by_it(cluster: Cluster) -> None:
    # Given a partition that a broker of the fifth generation has written to
    partitions = await create_partitions(cluster.store, 1)
    await commit(cluster.store, [a_batch(partitions[0], 0, leader_epoch=5)])

    # When a job writes to it, then it is not fenced, and nor is that broker after it
    await cluster.sink.commit(batch_of(await cluster.stored(partitions)))
    (outcome,) = await commit(cluster.store, [a_batch(partitions[0], 0, leader_epoch=5)])
    assert (outcome.refusal, outcome.base_offset) == (None, 30)
    assert (await cluster.sink.topics(["none"])) == {}


async def test_rows_behind_an_open_transaction_wait_for_its_end(cluster: Cluster) -> None:
    # Given a partition with an open transaction
    partitions = await create_partitions(cluster.store, 1)
    await cluster.store.init_producer("t", timeout_ms=60_000, expected=None, fresh_producer_id=7)
    of_transaction = a_batch(
        partitions[0],
        0,
        producer=7,
        epoch=0,
        sequence=0,
        transaction=TransactionUse.ADDS,
        owner="t",
    )
    await commit(cluster.store, [of_transaction])

    # When a job writes behind it, then that can be read by those who take uncommitted records only
    await cluster.sink.commit(batch_of(await cluster.stored(partitions)))
    found = (await cluster.store.partition_offsets(partitions))[partitions[0]]
    assert (found.high_watermark, found.last_stable_offset) == (30, 0)


async def test_jobs_and_brokers_neither_deadlock_nor_leave_gaps(cluster: Cluster) -> None:
    # Given jobs and brokers that write to the same partitions, each in an order of its own
    partitions = await create_partitions(cluster.store, 6)
    random = Random(4)

    async def job(name: int) -> int:
        own = await SinkCommits.open(cluster.dsn)
        try:
            for number in range(8):
                chosen = [random.sample(partitions, 4) for _ in range(3)]
                objects = [await cluster.stored(each) for each in chosen]
                batch = batch_of(*objects, sink=f"query:{name}", number=number)
                assert await own.commit(batch) is SinkVerdict.COMMITTED
        finally:
            await own.close()
        return 8 * 3 * 4 * 20

    async def broker() -> int:
        own = await PostgresMetadata.open(cluster.dsn, PATIENT)
        try:
            for _ in range(20):
                chosen = sorted(random.sample(partitions, 3))
                outcomes = await commit(own, [a_batch(p, 100 * n) for n, p in enumerate(chosen)])
                assert all(outcome.refusal is None for outcome in outcomes)
        finally:
            await own.close()
        return 20 * 3 * 10

    # When all of them run at the same time
    added = await asyncio.gather(*(job(name) for name in range(4)), broker(), broker())

    # Then every commit succeeded at its first try, and the logs have no gap and nothing twice
    assert sum(await cluster.ends(partitions)) == sum(added)


async def test_of_two_drivers_with_one_batch_one_commits(cluster: Cluster) -> None:
    # Given two drivers that have done the same batch
    partitions = await create_partitions(cluster.store, 2)
    both = [batch_of(await cluster.stored(partitions)) for _ in range(2)]
    other = await SinkCommits.open(cluster.dsn)

    # When they commit at the same time
    verdicts = await asyncio.gather(cluster.sink.commit(both[0]), other.commit(both[1]))
    await other.close()

    # Then one of them is in the log
    assert sorted(verdicts) == [SinkVerdict.COMMITTED, SinkVerdict.REPEATED]
    assert await cluster.ends(partitions) == [20, 20]


async def test_a_commit_whose_answer_is_lost_is_repeated(cluster: Cluster) -> None:
    # Given a driver behind a proxy that loses answers
    partitions = await create_partitions(cluster.store, 2)
    before = batch_of(await cluster.stored(partitions))
    batch = batch_of(await cluster.stored(partitions), number=1)
    server = postgres_server()
    with short_directory() as home:
        async with LossyProxy.between(home, server.directory) as proxy:
            behind = cluster.dsn.replace(f"host={server.directory}", f"host={home}")
            driver = await SinkCommits.open(behind)
            await driver.commit(before)

            # When its next commit takes effect, and the answer is lost
            proxy.lose_answers()
            waiting = asyncio.create_task(driver.commit(batch))

            async def committed() -> bool | None:
                return await cluster.sink.last_batch("query:1") == 1 or None

            await until(committed)
            proxy.cut()
            with pytest.raises(MetadataUnavailable):
                await waiting
            await driver.close()

    # Then the same call says that it was done, also once its objects are forgotten
    connection: Connection = await asyncpg.connect(cluster.dsn)
    await connection.execute("DELETE FROM streamhouse_internal.objects")
    await connection.close()
    assert await cluster.sink.commit(batch) is SinkVerdict.REPEATED


async def test_abandoned_uploads_are_given_up_and_committed_ones_are_not(cluster: Cluster) -> None:
    # Given an upload that is in the log, and one that is not
    partitions = await create_partitions(cluster.store, 1)
    written, left = [await cluster.stored(partitions) for _ in range(2)]
    await cluster.sink.commit(batch_of(written))

    # When both are abandoned, then only one is
    await cluster.sink.abandon([written.path, left.path, "wal/unheard-of"])
    assert await cluster.states(written, left) == ["live", "doomed"]


async def test_the_sweeper_lets_long_jobs_finish(cluster: Cluster) -> None:
    # Given an upload of a job that may take an hour, and one of a broker
    partitions = await create_partitions(cluster.store, 1)
    long = await cluster.stored(partitions)
    await cluster.store.reserve_objects(["wal/of-a-broker"])

    # When the sweeper gives up all that is older than nothing, then the job's is left alone
    assert await cluster.store.doom_abandoned(0, 100) == 1
    assert await cluster.sink.commit(batch_of(long)) is SinkVerdict.COMMITTED


async def test_what_is_remembered_for_a_while_is_forgotten_after_it(cluster: Cluster) -> None:
    # Given a write that is remembered for no time at all, and a query
    partitions = await create_partitions(cluster.store, 1)
    brief = replace(
        batch_of(await cluster.stored(partitions), sink="write:1"), remembered=timedelta(0)
    )
    await cluster.sink.commit(brief)
    await cluster.sink.commit(batch_of(await cluster.stored(partitions), sink="query:1"))

    # When something else is committed, then the write is forgotten, and the query is not
    await cluster.sink.commit(batch_of(await cluster.stored(partitions), sink="query:2"))
    connection: Connection = await asyncpg.connect(cluster.dsn)
    rows = await connection.fetch("SELECT sink_id, last_batch_id FROM streamhouse.sink_batches")
    await connection.close()
    assert sorted(tuple(row) for row in rows) == [("query:1", 0), ("query:2", 0)]


async def test_topics_are_found_with_what_is_set_for_them_and_for_all(cluster: Cluster) -> None:
    # Given a topic with a config of its own, and one for all brokers
    await cluster.store.create_topic(
        "orders", partition_count=3, replication_factor=1, configs={"compression.type": "zstd"}
    )

    # When it is looked up beside one that does not exist, then it alone is found
    found = await cluster.sink.topics(["orders", "missing"])
    assert list(found) == ["orders"]
    assert found["orders"].leader_epochs == (0, 0, 0)
    assert found["orders"].configs == {"compression.type": "zstd"}
    assert found["orders"].defaults == {}
