"""Commits of jobs that write to the log without a broker: all objects of a batch, or none.

A job reserves a path, stores an object there, and so on, in many processes; one call at the end
makes everything part of the log in one transaction of Postgres, which also writes down that this
batch of this sink is done. What may fail, and what then holds:
- a process before the commit: a pending row and perhaps an object are left; the sweeper gives them
  up once `reserve` has let it.
- the commit: unknown. The same call is repeated until it answers; the sink's row tells whether the
  batch is in the log, whatever became of its objects since.
- the caller, after the commit and before it has written that down itself: it does the batch again,
  with other objects, perhaps with other records in them. That is REPEATED, and changes nothing.
- an upload that was given up meanwhile, a topic that was deleted, a database that brokers have
  marked as one that was set back: nothing is committed.

Batches of a job have no producer and no transaction, so nobody's sequence or epoch refuses them;
offsets come from the same locks as a broker's, and brokers find them as they find each other's.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import Final, Self
from uuid import UUID

from storage.config import PostgresConfig
from storage.errors import CommitOutcomeUnknown, MetadataWentBack, UnknownPartition
from storage.metadata.metadata_commit import check_order
from storage.metadata.port import BatchCommit
from storage.postgres.commit_connection import CommitConnection
from storage.postgres.postgres_arrays import numbers_as_text
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_text import to_stored
from storage.set_back import refuse_set_back

COMMIT_TIMEOUT_S: Final = 600.0
"""About 3 ms for each object: a batch of 1 TB in objects of 32 MiB takes a minute and a half."""

_PARTITION: Final = attrgetter("partition")


class BatchOvertaken(CommitOutcomeUnknown):
    """A later batch of the sink is in the log: this one is too late, or its ids began anew."""


class SinkVerdict(IntEnum):
    """What became of a batch, as the database says it."""

    COMMITTED = 0
    REPEATED = 1
    OVERTAKEN = 2
    NOT_PENDING = 3
    UNKNOWN_PARTITIONS = 4
    WENT_BACK = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkObject:
    """An object that a job has stored under a path that it reserved before.

    Attributes:
        size: of the whole object, bytes.
        batches: all of it; ascending partitions, those of each in the order of the log.
    """

    path: str
    size: int
    batches: tuple[BatchCommit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBatch:
    """What is committed at once.

    Attributes:
        sink_id: what tells this sink from all others, for ever.
        batch_id: from 0 on; each is larger than those before, and the same when it comes again.
        remembered: how long the sink is known after this; None is for ever.
        objects: in the order that their records shall have in the log; at least one.
    """

    sink_id: str
    batch_id: int
    remembered: timedelta | None
    objects: Sequence[SinkObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTopic:
    """A topic as who writes to it has to know it.

    Attributes:
        leader_epochs: of each partition, from 0 on.
        configs: what is set explicitly for the topic, by Kafka's names.
        defaults: what is set for all brokers while the cluster runs, by Kafka's names.
    """

    topic_id: UUID
    name: str
    leader_epochs: tuple[int, ...]
    configs: Mapping[str, str]
    defaults: Mapping[str, str]

    @property
    def partition_count(self) -> int:
        return len(self.leader_epochs)


class SinkCommits:
    """The part of the metadata that such jobs need; every method raises MetadataUnavailable."""

    def __init__(self, pool: PostgresPool, commits: CommitConnection) -> None:
        self._pool = pool
        self._commits = commits

    @classmethod
    async def open(cls, dsn: str) -> Self:
        """Connect to a database that brokers have made.

        Raises:
            MetadataUnavailable: no answer; retrying is safe.
        """
        patient = PostgresConfig(command_timeout_s=COMMIT_TIMEOUT_S)
        pool = await PostgresPool.open(dsn, PostgresConfig(pool_size=2))
        return cls(pool, CommitConnection(dsn, patient))

    async def cluster_id(self) -> str:
        """Return the id of the cluster, which its object store is marked with."""
        return str((await self._pool.fetch("cluster_id"))[0]["cluster_id"])

    async def store_id(self) -> str | None:
        """Return the id of the cluster's object store; None if it has none yet."""
        (row,) = await self._pool.fetch("cluster_store")
        return row["store_id"]  # type: ignore[no-any-return]

    async def topics(self, names: Sequence[str]) -> dict[str, SinkTopic]:
        """Return those of some topics that exist, by name."""
        rows = await self._pool.fetch("sink_find_topics", [to_stored(name) for name in names])
        return {
            row["name"]: SinkTopic(
                topic_id=row["topic_id"],
                name=row["name"],
                leader_epochs=tuple(row["leader_epochs"]),
                configs=json.loads(row["configs"]),
                defaults=json.loads(row["defaults"]),
            )
            for row in rows
        }

    async def last_batch(self, sink_id: str) -> int:
        """Return the batch that a sink committed last; -1 if there is none.

        Raises:
            MetadataWentBack: brokers have marked the database as one that was set back: what it
                remembers as done is of another past.
        """
        refuse_set_back(await self._pool.fetch("cluster_find_set_back"))
        rows = await self._pool.fetch("sink_find_batch", to_stored(sink_id))
        return int(rows[0]["last_batch_id"]) if rows else -1

    async def reserve(self, path: str, *, longer: timedelta) -> None:
        """Record the intent to upload; the sweeper leaves it alone for so much longer."""
        await self._pool.fetch("sink_reserve", path, _milliseconds(longer))

    async def commit(self, batch: SinkBatch) -> SinkVerdict:
        """Make a batch part of the log, all of it or nothing; COMMITTED, or REPEATED if it was.

        Raises:
            BatchOvertaken: a later batch of the sink is in the log.
            CommitOutcomeUnknown: an object is not pending: it was never reserved, or given up
                because the batch took too long. Nothing is or will be committed.
            UnknownPartition: a topic was deleted. Nothing is committed.
            MetadataWentBack: brokers have marked the database as one that was set back. Nothing is
                committed, and nothing will be until it has no mark.
            MetadataUnavailable: no answer; call again with the same arguments.
        """
        row = await self._commits.fetch_row("sink_commit", *_arguments(batch))
        verdict, named = SinkVerdict(row["verdict"]), ", ".join(row["named"])
        match verdict:
            case SinkVerdict.OVERTAKEN:
                raise BatchOvertaken(
                    f"batch {batch.batch_id} of {batch.sink_id!r} comes after batch {named}"
                )
            case SinkVerdict.NOT_PENDING:
                raise CommitOutcomeUnknown(f"uploads were given up, or never reserved: {named}")
            case SinkVerdict.UNKNOWN_PARTITIONS:
                raise UnknownPartition(named)
            case SinkVerdict.WENT_BACK:
                raise MetadataWentBack(named)
            case SinkVerdict.COMMITTED | SinkVerdict.REPEATED:
                return verdict

    async def abandon(self, paths: Sequence[str]) -> None:
        """Leave uploads to the sweeper at once; those that were committed stay as they are.

        A commit of them that is still under way either wins or is refused.
        """
        await self._pool.fetch("sink_abandon", list(paths))

    async def close(self) -> None:
        """Release connections. No other call may be under way."""
        await self._commits.close()
        await self._pool.close()


def _milliseconds(span: timedelta) -> int:
    return int(span / timedelta(milliseconds=1))


def _arguments(batch: SinkBatch) -> list[object]:
    """Turn objects by 90 degrees, twice: arrays per object, per run and per record batch."""
    run_counts: list[int] = []
    runs: list[list[BatchCommit]] = []
    for stored in batch.objects:
        check_order(stored.batches)
        of_object = [list(run) for _, run in groupby(stored.batches, _PARTITION)]
        run_counts.append(len(of_object))
        runs += of_object
    batches = [each for run in runs for each in run]
    return [
        to_stored(batch.sink_id),
        batch.batch_id,
        None if batch.remembered is None else _milliseconds(batch.remembered),
        [stored.path for stored in batch.objects],
        numbers_as_text([stored.size for stored in batch.objects]),
        numbers_as_text(run_counts),
        [run[0].partition.topic_id for run in runs],
        numbers_as_text([run[0].partition.index for run in runs]),
        numbers_as_text([len(run) for run in runs]),
        numbers_as_text([each.start for each in batches]),
        numbers_as_text([each.length for each in batches]),
        numbers_as_text([each.record_count for each in batches]),
        numbers_as_text([each.max_timestamp_ms for each in batches]),
    ]
