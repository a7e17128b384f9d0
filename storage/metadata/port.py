"""The metadata port (D2): every fact about the log except the records themselves.

Contract, checked for Postgres and for the in-memory fake by tests/contracts/test_metadata.py:
- `commit_object` is the only way a record becomes part of the log. It assigns offsets under the
  partition's row lock, all batches of an object in one transaction, and is idempotent on the path:
  repeating it, after whatever ambiguity, returns the first answer and changes nothing.
- A partition's high watermark never moves back, and the segments of a partition tile
  [log start offset, high watermark) with no gap and no overlap.
- An object is `pending` from its reservation to its commit, `live` after. Only the sweeper turns
  `pending` into `doomed`; commit refuses a doomed object. Both are one conditional change of the
  same row, so exactly one wins, whatever is in flight.
- Every call raises MetadataUnavailable when Postgres gives no answer in time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from protocol.batch import NO_PRODUCER_ID
from protocol.ids import Partition
from storage.errors import StorageError
from storage.metadata.brokers import BrokerStore
from storage.metadata.entity_configs import EntityConfigStore
from storage.metadata.groups import GroupStore
from storage.metadata.oldest_xmin import OldestXmin
from storage.metadata.progress import ProgressStore
from storage.metadata.segments import SegmentStore
from storage.metadata.tasks import TaskStore
from storage.metadata.topics import TopicStore
from storage.metadata.transactions import TransactionStore
from storage.metadata.usage import UsageStore
from storage.partition_offsets import PartitionOffsets
from storage.segment_entry import SegmentEntry


class TransactionUse(IntEnum):
    """How a batch belongs to a transaction, as the database is told.

    Attributes:
        NONE: not at all.
        ADDED: its partition has to be part of the open transaction already.
        ADDS: the batch makes it part of it, and begins the transaction if need be (KIP-890).
    """

    NONE = 0
    ADDED = 1
    ADDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommit:
    """One v2 record batch inside an uploaded object, about to get its offsets; or several.

    Batches that have no producer id and lie side by side may be given as one.

    Attributes:
        start: byte of the object where the batch begins.
        length: bytes.
        record_count: offsets that the batch takes; less than 2**31.
        max_timestamp_ms: as in the batch header; the largest of several.
        producer_id: NO_PRODUCER_ID for a producer that is not idempotent; then the two
            fields below are -1 and not looked at.
        base_sequence: of the first record; wraps to 0 after 2**31 - 1. 0 comes first in a
            partition that cannot have forgotten the producer.
        transaction: a batch that has one has a producer id, too.
        transactional_id: in whose transaction; not looked at without one.
        leader_epoch: generation of the brokers in which it was taken. Once a partition was asked
            with a newer one, its batches are refused.
    """

    partition: Partition
    start: int
    length: int
    record_count: int
    max_timestamp_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1
    transaction: TransactionUse = TransactionUse.NONE
    transactional_id: str | None = None
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """What became of one batch.

    Attributes:
        base_offset: of its first record (of the first copy, if it is a duplicate); -1 if refused.
        log_start_offset: of its partition, for the Produce response; -1 if refused.
        last_stable_offset: of its partition, once all batches of the object are in the log; -1 if
            refused.
        aborted_count: of its partition, at the same moment; -1 if refused.
        duplicate: not in the log: one of the producer's last five batches was the same.
        refusal: UnknownPartition, OutOfOrderSequence, InvalidProducerEpoch,
            InvalidTransactionState, InvalidProducerIdMapping or FencedLeaderEpoch; None if
            appended.
    """

    base_offset: int
    log_start_offset: int
    last_stable_offset: int
    aborted_count: int
    duplicate: bool = False
    refusal: StorageError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLookup:
    """A read plan's question: which byte ranges hold this partition from `offset` on?

    Attributes:
        max_bytes: rows are returned until their lengths add up to this; at least one is.
    """

    partition: Partition
    offset: int
    max_bytes: int


class MetadataStore(
    BrokerStore,
    EntityConfigStore,
    GroupStore,
    ProgressStore,
    SegmentStore,
    TaskStore,
    TopicStore,
    TransactionStore,
    UsageStore,
    Protocol,
):
    """See the module's docstring for what every implementation promises."""

    async def cluster_id(self) -> str:
        """Return the id of this cluster, made once with the database (22 characters, base64url)."""

    async def store_id(self) -> str | None:
        """Return the id of this cluster's object store; None if it has none yet."""

    async def claim_store(self, store_id: str) -> str:
        """Make an object store this cluster's, unless it has one; return the id of what it has."""

    async def reserve_objects(self, paths: Sequence[str]) -> None:
        """Record the intent to upload: each path becomes a `pending` object."""

    async def commit_object(
        self, path: str, size: int, batches: Sequence[BatchCommit]
    ) -> list[BatchOutcome]:
        """Make an uploaded object's batches part of the log; one outcome per batch, in order.

        Args:
            path: of the object; reserved before.
            size: of the whole object, bytes.
            batches: all batches of a partition stand together, in the order they shall have in
                the log; partitions are in ascending order, so two commits never deadlock.

        Raises:
            CommitOutcomeUnknown: the object was never reserved, or was doomed before it was
                committed, so its batches are not and will not be in the log under this path; or it
                was committed so long ago that it is forgotten.
            MetadataUnavailable: no answer; call again with the same arguments.
        """

    async def partition_offsets(
        self, partitions: Sequence[Partition]
    ) -> dict[Partition, PartitionOffsets]:
        """Return where each partition begins and ends; those that do not exist are left out."""

    async def changed_offsets(
        self, known: Mapping[Partition, PartitionOffsets]
    ) -> dict[Partition, PartitionOffsets | None]:
        """Return those partitions that begin or end elsewhere by now; None for one that is gone."""

    async def delete_records(
        self, offsets: Mapping[Partition, int]
    ) -> dict[Partition, PartitionOffsets]:
        """Let each partition begin at an offset; what is before it can no longer be read.

        It happens step by step, some partitions at a time. Where it ends early, some of them begin
        there already; what is repeated changes nothing for those.

        Args:
            offsets: -1 stands for the high watermark. A partition that begins later already, or has
                a lower high watermark, stays as it is.

        Returns:
            Where each partition begins and ends from now on; those that do not exist are left out.
        """

    async def find_segments(self, lookups: Sequence[SegmentLookup]) -> list[list[SegmentEntry]]:
        """Return for each lookup the runs from the one holding `offset` on, in offset order.

        Empty where no committed record has that offset or a later one.
        """

    async def find_timestamp(
        self, partition: Partition, timestamp_ms: int, start_offset: int = 0
    ) -> SegmentEntry | None:
        """Return the first run, in offset order, whose largest timestamp is >= `timestamp_ms`.

        Only runs that have offsets from `start_offset` on are looked at.
        """

    async def find_max_timestamp(
        self, partition: Partition, start_offset: int = 0
    ) -> SegmentEntry | None:
        """Return the first run that holds the partition's largest timestamp (KIP-734).

        Only runs that have offsets from `start_offset` on are looked at.
        """

    async def allocate_producer_ids(self, count: int) -> int:
        """Reserve `count` producer ids that nobody was or will be given; return the first.

        They ascend: a partition tells by a producer's id whether it can have forgotten it. A
        standby that takes over leaves out more of them than it may have missed.
        """

    async def oldest_xmin(self) -> OldestXmin | None:
        """Return who keeps dead rows from being removed longest; None if nobody does."""

    async def close(self) -> None:
        """Release connections. No other call may be under way."""
