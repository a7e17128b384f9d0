"""What the driver and every executor stand on while they look after a log.

Brokers may do the same at the same time. What keeps them apart is what keeps brokers apart: leases
save double work, and `replace_segments`, which is one Postgres transaction, is the fence. So an
executor may die at any point, be slow, or run twice (a task that Spark tries again, or starts a
second time because the first is slow): the log is right before and after each swap.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from protocol.ids import Partition
from spark.log_location import LogLocation
from spark.upkeep.topic_policies import ClusterPolicies
from storage.config import PostgresConfig, UpkeepConfig
from storage.fsck.fsck import check_same_cluster
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.tasks import TaskKind
from storage.metadata.usage import UPKEEP_CLIENT
from storage.objects.objects_counted import CountedStore
from storage.objects.open_store import open_store
from storage.postgres.migrate import missing_migrations
from storage.set_back import refuse_set_back
from storage.upkeep.builder import Builder
from storage.upkeep.compaction import Compactor
from storage.usage_counter import UsageCounter
from storage.wall_clock import now_ms

POOL: Final = PostgresConfig(pool_size=2, command_timeout_s=120.0)
GOODBYE_S: Final = 5.0


class SchemaTooOld(Exception):
    """The database lacks migrations: brokers of this version have to be started on it first."""


class JobTasks(PostgresMetadata):
    """Metadata whose tasks are those of one job.

    Planning does not put tasks into the cluster's queue, for brokers to take: it leaves them here.
    A claim is not for the oldest task of the queue but for that of one partition, whose lease then
    keeps everybody else away.

    Attributes:
        planned: what was added.
        assigned: what a claim is for.
    """

    planned: set[tuple[TaskKind, Partition]]
    assigned: Partition | None = None

    async def refuse_set_back(self) -> None:
        """Refuse a database that brokers have ended at; raises MetadataWentBack."""
        refuse_set_back(await self._pool.fetch("cluster_find_set_back"))

    async def add_tasks(self, kind: TaskKind, partitions: Sequence[Partition]) -> None:
        self.planned.update((kind, partition) for partition in partitions)

    async def claim_task(self, kind: TaskKind, lease_ms: int) -> Partition | None:
        assert self.assigned is not None
        rows = await self._pool.fetch("task_claim_one", kind.value, *self.assigned, lease_ms)
        return self.assigned if rows else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOrder:
    """What the driver tells executors.

    Attributes:
        config: as brokers have it (STREAMHOUSE_UPKEEP__…); intervals are not looked at.
        started_with: what brokers are started with (`--set`), by Kafka's names.
    """

    location: LogLocation
    config: UpkeepConfig = field(default_factory=UpkeepConfig)
    started_with: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepStores:
    """Opened by `open_upkeep`; requests are charged to the upkeep, as brokers do it."""

    metadata: JobTasks
    objects: CountedStore
    policies: ClusterPolicies
    config: UpkeepConfig

    def builder(self) -> Builder:
        return Builder(
            metadata=self.metadata,
            objects=self.objects,
            config=self.config,
            policy_of=self.policies.get,
            clock=time.monotonic,
        )

    def compactor(self) -> Compactor:
        return Compactor(
            metadata=self.metadata,
            objects=self.objects,
            config=self.config,
            policy_of=self.policies.cleaning,
            clock=time.monotonic,
        )


@asynccontextmanager
async def open_upkeep(order: UpkeepOrder) -> AsyncIterator[UpkeepStores]:
    """Open index and store, check that they belong together, and close them afterwards.

    Raises:
        WrongStore: they do not. On a cluster it may be that an executor does not see the
            directory that the driver sees.
        SchemaTooOld, DatabaseNotSupported: database and code are of different versions.
        MetadataWentBack: brokers have marked the database as one that was set back.
        MetadataUnavailable, ObjectStoreUnavailable: no answer.
    """
    dsn = order.location.postgres
    missing = await missing_migrations(dsn, POOL)
    if missing:
        raise SchemaTooOld(f"the database lacks {', '.join(missing)}")
    async with AsyncExitStack() as stack:
        metadata = await JobTasks.open(dsn, POOL)
        stack.push_async_callback(metadata.close)
        assert isinstance(metadata, JobTasks)
        metadata.planned = set()
        await metadata.refuse_set_back()
        objects = await open_store(order.location.store, reads_once=True)
        stack.push_async_callback(objects.close)
        await check_same_cluster(metadata, objects)
        usage = UsageCounter(metadata, client_id=UPKEEP_CLIENT, now_ms=now_ms)
        stack.push_async_callback(usage.close, GOODBYE_S)
        policies = ClusterPolicies(metadata, order.started_with)
        await policies.refresh()
        yield UpkeepStores(
            metadata=metadata,
            objects=CountedStore(objects, usage),
            policies=policies,
            config=order.config,
        )
