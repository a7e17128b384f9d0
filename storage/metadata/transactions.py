"""The metadata port's transactions (KIP-98, KIP-360, KIP-447, KIP-890; D10).

A transactional id is one row, and all that a transaction did hangs on its producer id: partitions
and groups that it has touched, and offsets that wait for its end. No broker keeps any of it in
memory, so any broker may answer for any transactional id, and nothing has to fail over.

Contract, checked for Postgres and for the in-memory fake by tests/contracts/test_transactions.py:
- A transaction ends once. `end_transaction` is one database transaction: the marker in every
  partition of the transaction, their last stable offsets, the aborted ranges, the offsets of all
  groups, the next epoch. Whoever repeats it gets the first answer; a contradiction is refused.
- A batch of a transaction is appended only while its producer epoch is the current one of the
  transactional id, and only to a partition of the open transaction (`commit_object`): so nothing is
  ever appended behind the marker, and no transaction hangs.
- A partition's last stable offset is the first offset of the earliest transaction that is open in
  it, or else its high watermark; it never moves back.
- What an aborted transaction wrote is known, by first and last offset, before the last stable
  offset moves past it.
- Deadlines are by the database's clock.
Locks are taken in this order: transactional ids (by producer id), partitions, groups, topics.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, Protocol

from protocol.ids import Partition
from storage.aborted_transaction import AbortedPage
from storage.metadata.groups import CommittedOffset
from storage.partition_offsets import PartitionOffsets

LAST_EPOCH: Final = 32_766
"""The last producer epoch that is given out; a marker may still carry the one after it."""


class TransactionState(StrEnum):
    """Kafka's names; PrepareCommit and PrepareAbort last no time here."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class Verdict(IntEnum):
    """What the store says to a step of a transaction, as the database writes it down.

    Attributes:
        DONE: it happened, now or when it was asked for the first time.
        UNKNOWN_ID: no such transactional id, or it has another producer id.
        FENCED: the epoch is not the current one.
        INVALID_STATE: there is no transaction to which this could happen.
        OPEN: (init only) a transaction is open and has to be aborted first.
        GROUP_FENCED: (offsets only) another broker took the group, or it is gone.
        UNKNOWN_PARTITION: (add only) one of the partitions does not exist; nothing is added.
    """

    DONE = 0
    UNKNOWN_ID = 1
    FENCED = 2
    INVALID_STATE = 3
    OPEN = 4
    GROUP_FENCED = 5
    UNKNOWN_PARTITION = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Who writes: a transactional id and what it was told to call itself."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOutcome:
    """What became of `init_producer`.

    Attributes:
        verdict: DONE, FENCED, or OPEN.
        producer: DONE: what the client is to call itself; OPEN: whose transaction is open.
    """

    verdict: Verdict
    producer: Producer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    """The end of a transaction.

    Attributes:
        producer: its epoch is that of the transaction.
        committed: False aborts.
        bumps_epoch: the marker carries the next epoch, and the producer goes on with it (KIP-890).
            Once that is past LAST_EPOCH, it goes on with `fresh_producer_id`, from epoch 0.
        fences: not asked by the producer, who is not told the next epoch and so is fenced.
        overdue_only: do it only if the transaction is past its deadline; nobody has asked for it,
            and the producer gets the answer once it asks for the same end (KIP-890).
        marker: the control batch, base offset 0, one record, of the epoch that follows from that.
        marker_timestamp_ms: as in the batch.
        fresh_producer_id: that nobody was given; needed where `bumps_epoch`.
    """

    producer: Producer
    committed: bool
    bumps_epoch: bool
    fences: bool = False
    overdue_only: bool = False
    marker: bytes
    marker_timestamp_ms: int
    fresh_producer_id: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOutcome:
    """What became of `end_transaction`.

    Attributes:
        verdict: DONE, UNKNOWN_ID, FENCED or INVALID_STATE.
        producer: what the client is to call itself from now on; None unless DONE.
        markers: what the end wrote: each partition's offsets just after; the marker is the last
            record before the high watermark. Empty where a first answer is repeated.
    """

    verdict: Verdict
    producer: Producer | None = None
    markers: Mapping[Partition, PartitionOffsets] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOffsets:
    """Offsets that a group has committed once the transaction is (TxnOffsetCommit).

    Attributes:
        owner_epoch: with which this broker took the group.
        joins: the group becomes part of the transaction, which begins if need be (KIP-890); else
            the group has to be part of it already (AddOffsetsToTxn).
    """

    producer: Producer
    group_id: str
    owner_epoch: int
    joins: bool
    offsets: Mapping[Partition, CommittedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOffsetsOutcome:
    """What became of `write_transaction_offsets`.

    Attributes:
        verdict: DONE, UNKNOWN_ID, FENCED, INVALID_STATE or GROUP_FENCED.
        unknown: partitions that do not exist (any more): their offsets were not written.
    """

    verdict: Verdict
    unknown: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """A transactional id as DescribeTransactions shows it.

    Attributes:
        started_ms: when the open transaction began (Unix time); -1 if none is open.
        partitions: of the open transaction, ascending; groups are not among them.
    """

    producer: Producer
    state: TransactionState
    timeout_ms: int
    started_ms: int
    partitions: Sequence[Partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id as ListTransactions shows it.

    Attributes:
        running_ms: for how long its transaction has been open; -1 if none is.
    """

    transactional_id: str
    producer_id: int
    state: TransactionState
    running_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """An idempotent producer in one partition, as DescribeProducers shows it.

    Attributes:
        last_sequence: of its last batch; -1 if the last thing was a marker of a new epoch.
        last_timestamp_ms: when it last wrote, by the database's clock (Unix time).
        transaction_start_offset: of its open transaction in this partition; -1 if there is none.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int


class TransactionStore(Protocol):
    """Part of MetadataStore; see the module's docstring for what every implementation promises.

    Every call raises MetadataUnavailable when Postgres gives no answer in time; what changes
    something may then have happened, and may be repeated.
    """

    async def init_producer(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        fresh_producer_id: int,
    ) -> InitOutcome:
        """Give a transactional id its next epoch; whoever had an earlier one is fenced.

        Args:
            transactional_id: made if there is none.
            timeout_ms: how long its transactions may be open from now on.
            expected: producer id and epoch that the client believes to have (KIP-360); None if it
                has just started. It is FENCED unless these are the current ones, or those before
                if nothing but this client's own bump happened since: then it gets the same answer
                again.
            fresh_producer_id: that nobody was given; taken if the id is new or epochs are used up.
                Who has just started is FENCED if another was here that had drawn a later one: a
                client that got no answer may have asked again since.
        """

    async def add_to_transaction(
        self, producer: Producer, partitions: Sequence[Partition], group_ids: Sequence[str] = ()
    ) -> Verdict:
        """Let partitions and groups take part, all or none; it begins if none is open.

        Returns:
            DONE, UNKNOWN_ID, FENCED or UNKNOWN_PARTITION.
        """

    async def write_transaction_offsets(
        self, offsets: TransactionOffsets
    ) -> TransactionOffsetsOutcome:
        """Keep offsets that a group will have committed once the transaction is.

        Many are kept piece by piece: some may be if it is refused, or fails.
        """

    async def end_transaction(self, end: TransactionEnd) -> EndOutcome:
        """End the open transaction, or repeat the answer if just this end has happened.

        For a client that bumps epochs, an abort with nothing open is fine, and bumps as well. Once
        it has been given an epoch (`init_producer`), it is FENCED under the one before.
        """

    async def overdue_transactions(self, limit: int) -> list[Producer]:
        """Return whose transactions are past their deadline, at most `limit`."""

    async def forget_transactional_ids(self, unused_ms: int) -> int:
        """Remove ids without an open transaction, unused for so long; return how many."""

    async def find_transactions(self, transactional_ids: Sequence[str]) -> list[TransactionRecord]:
        """Return those of these ids that exist."""

    async def transactional_id_of(self, producer_id: int) -> str | None:
        """Return who has this producer id now; None if nobody has, or it is not transactional."""

    def list_transactions(self) -> AsyncIterator[TransactionListing]:
        """Return all transactional ids of the cluster, as `list_groups` does groups."""

    async def producer_states(
        self, partitions: Sequence[Partition]
    ) -> dict[Partition, list[ProducerState]]:
        """Return the idempotent producers known in each partition, by producer id."""

    async def aborted_transactions(
        self,
        partition: Partition,
        start_offset: int,
        end_offset: int,
        limit: int,
        *,
        aborted_count: int,
    ) -> AbortedPage:
        """Return those with records from `start_offset` on and before `end_offset`.

        At most `limit`.

        Raises:
            UnknownPartition: it does not exist (any more).
            MetadataUnavailable: no answer, or that of a server which knows of fewer than
                `aborted_count`: a primary that was replaced, and has not noticed.
        """
