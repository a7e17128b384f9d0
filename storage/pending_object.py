"""Batches of all partitions on their way into one object.

Batches that have no producer id and lie side by side are one for the metadata: nothing tells them
apart there but their offsets, which follow from the first one's. What a batch costs Postgres is
paid once for all of them. Batches of idempotent producers stay alone: each may be a duplicate.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final
from uuid import UUID

from protocol.batch import NO_PRODUCER_ID, BatchHeader
from storage.metadata.port import BatchCommit, BatchOutcome, TransactionUse
from storage.objects.port import Buffer
from storage.partition_log import PartitionLog
from storage.untold import NOTHING, Ending, Told
from storage.usage_counter import Share
from storage.wal_index import WalEnding, WalIndex, WalPlaces, WalRun, encode_index

_RUN_KEY: Final = attrgetter("partition", "leader_epoch")  # of a commit
_DATA: Final = attrgetter("data")
_PARTITION: Final = attrgetter("log.partition")

MOST_RECORDS: Final = 2**31 - 1
"""Of a BatchCommit. Compressed batches may claim any number, so that a few may come to more."""


@dataclass(slots=True)
class BufferedBatch:
    """A verified batch on its way into the log.

    Attributes:
        expected_offset: that it gets if no other broker writes; UNKNOWN_OFFSET if nobody knows.
        client_id: of the producer, as it calls itself.
    """

    log: PartitionLog
    data: memoryview
    header: BatchHeader
    transaction: TransactionUse
    transactional_id: str | None
    leader_epoch: int
    expected_offset: int
    outcome: asyncio.Future[BatchOutcome]
    client_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What an object says of its writer (storage/wal_index.py).

    Attributes:
        told: what it tells of earlier objects, and of transactions.
    """

    writer_id: UUID
    sequence: int
    written_ms: int
    told: Told = NOTHING


@dataclass(slots=True)
class PendingObject:
    """Batches that will become one object; there may be none, if it has something to tell.

    Attributes:
        path: known once the upload begins.
        runs: what the metadata takes as one batch each; made when it is sealed.
        commits: what it is told of them.
        size: bytes of the batches.
        object_size: bytes of the whole object; known when it is sealed.
        sealed_at: when it took its last batch, in seconds of the writer's clock.
        uploaded: resolved when the object is durable in the store.
        seal: known when it is sealed.
        let_go: resolved when the writer is through with it, and holds its batches no more.
    """

    uploaded: asyncio.Future[None]
    batches: list[BufferedBatch] = field(default_factory=list)
    runs: list[list[BufferedBatch]] = field(default_factory=list)
    commits: list[BatchCommit] = field(default_factory=list)
    size: int = 0
    object_size: int = 0
    sealed_at: float = 0.0
    path: str = ""
    seal: Seal | None = None
    let_go: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def lay_out(self, seal: Seal, name_of: Callable[[UUID], str]) -> list[Buffer]:
        """Put the batches of each partition side by side, in arrival order; partitions ascend.

        Args:
            seal: of this object.
            name_of: returns the name of a topic.

        Returns:
            the object's bytes: the batches, and the index behind them.
        """
        self.seal = seal
        self.batches.sort(key=_PARTITION)  # stable: arrival order is kept
        start = 0
        self.runs = _side_by_side(self.batches)
        for run in self.runs:
            commit = _to_commit(run, start)
            self.commits.append(commit)
            start += commit.length
        index = encode_index(self._index(seal, name_of))
        self.object_size = start + len(index)
        return [*map(_DATA, self.batches), index]

    def answers(self, outcomes: Sequence[BatchOutcome]) -> Sequence[BatchOutcome]:
        """Return what became of each batch.

        Args:
            outcomes: of the commits.
        """
        if len(self.runs) == len(self.batches):
            return outcomes
        answers: list[BatchOutcome] = []
        for run, outcome in zip(self.runs, outcomes, strict=True):
            answers.append(outcome)
            base_offset = outcome.base_offset
            for previous in run[:-1]:
                if outcome.refusal is None:
                    base_offset += previous.header.record_count
                answers.append(
                    BatchOutcome(
                        base_offset=base_offset,
                        log_start_offset=outcome.log_start_offset,
                        last_stable_offset=outcome.last_stable_offset,
                        aborted_count=outcome.aborted_count,
                        refusal=outcome.refusal,
                    )
                )
        return answers

    def shares(self) -> list[Share]:
        """Return whose batches it has, and how many bytes of each; once it is laid out."""
        topic_id: UUID | None = None
        topics: dict[UUID, dict[str, int]] = {}
        clients: dict[str, int] = {}
        for batch in self.batches:
            if batch.log.partition.topic_id is not topic_id:  # batches of a topic stand together
                topic_id = batch.log.partition.topic_id
                clients = topics.setdefault(topic_id, {})
            clients[batch.client_id] = clients.get(batch.client_id, 0) + len(batch.data)
        return [
            Share(topic_id, client_id, size)
            for topic_id, sizes in topics.items()
            for client_id, size in sizes.items()
        ]

    def _index(self, seal: Seal, name_of: Callable[[UUID], str]) -> WalIndex:
        topics: list[tuple[UUID, str]] = []
        positions: dict[int, int] = {}
        runs: list[WalRun] = []
        position = -1
        at = 0  # of the commit that is next
        for (partition, leader_epoch), group in groupby(self.commits, _RUN_KEY):
            start, first = self.commits[at].start, self.runs[at][0]
            if not topics or topics[-1][0] != partition.topic_id:
                positions[partition.topic_id.int] = position = len(topics)
                topics.append((partition.topic_id, name_of(partition.topic_id)))
            size = record_count = 0
            max_timestamp_ms = first.header.max_timestamp_ms
            for commit in group:
                size += commit.length
                record_count += commit.record_count
                max_timestamp_ms = max(max_timestamp_ms, commit.max_timestamp_ms)
                at += 1
            runs.append(
                WalRun(
                    *(position, partition.index, start, size, record_count),
                    *(first.expected_offset, leader_epoch, max_timestamp_ms),
                )
            )
        places: list[WalPlaces] = []
        told_places, told_endings = seal.told
        for log, told in told_places.items():
            topic_id, index = log.partition
            if topic_id.int not in positions:
                positions[topic_id.int] = len(topics)
                topics.append((topic_id, name_of(topic_id)))
            for sequence, base_offsets in told:
                places += ((positions[topic_id.int], index, sequence, base_offsets),)
        endings: list[WalEnding] = []
        for (topic_id, index), ended in told_endings.items() if told_endings else ():
            if topic_id.int not in positions:
                positions[topic_id.int] = len(topics)
                topics.append((topic_id, name_of(topic_id)))
            endings += [_to_ending(positions[topic_id.int], index, one) for one in ended]
        return WalIndex(
            writer_id=seal.writer_id,
            sequence=seal.sequence,
            written_ms=seal.written_ms,
            topics=tuple(topics),
            runs=tuple(runs),
            places=tuple(places),
            endings=tuple(endings),
        )


def _to_ending(topic: int, partition: int, ended: Ending) -> WalEnding:
    marker = ended.marker
    return WalEnding(
        *(topic, partition, ended.offset, marker.producer_id, marker.producer_epoch),
        *(marker.committed, marker.timestamp_ms),
    )


def _side_by_side(batches: list[BufferedBatch]) -> list[list[BufferedBatch]]:
    """Return what the metadata takes as one batch each; see the module's docstring."""
    runs: list[list[BufferedBatch]] = []
    first: BufferedBatch | None = None  # of the last run, if that may go on
    records = 0
    for batch in batches:
        header = batch.header
        records += header.record_count
        if (
            first is not None
            and header.producer_id == NO_PRODUCER_ID
            and batch.log is first.log
            and batch.leader_epoch == first.leader_epoch
            and records <= MOST_RECORDS
        ):
            runs[-1].append(batch)
        else:
            runs.append([batch])
            first = batch if header.producer_id == NO_PRODUCER_ID else None
            records = header.record_count
    return runs


def _to_commit(run: list[BufferedBatch], start: int) -> BatchCommit:
    """Return what the metadata is told of batches side by side, from byte `start` of the object."""
    first = run[0]
    header = first.header
    length, records, max_timestamp_ms = (
        len(first.data),
        header.record_count,
        header.max_timestamp_ms,
    )
    for batch in run[1:]:
        length += len(batch.data)
        records += batch.header.record_count
        max_timestamp_ms = max(max_timestamp_ms, batch.header.max_timestamp_ms)
    return BatchCommit(
        partition=first.log.partition,
        start=start,
        length=length,
        record_count=records,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transaction=first.transaction,
        transactional_id=first.transactional_id,
        leader_epoch=first.leader_epoch,
    )
