"""A transactional id, in memory: who has it, what is open under it, what may end it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.ids import Partition
from storage.metadata.port import BatchCommit, TransactionUse
from storage.metadata.transactions import (
    LAST_EPOCH,
    Producer,
    TransactionEnd,
    TransactionRecord,
    TransactionState,
    Verdict,
)


class Identity(NamedTuple):
    """What a producer was told to call itself."""

    producer_id: int
    epoch: int

    def is_now(self, epoch: int) -> bool:
        """Whether a producer may call itself this; what is past LAST_EPOCH was given to nobody."""
        return epoch == self.epoch <= LAST_EPOCH


@dataclass(slots=True)
class TransactionalId:
    """A transactional id, and the transaction that is open under it, if one is.

    Attributes:
        last_identity: the one before, if its owner may not have heard that it has changed.
        used_ms: when it was last given out, or used to change anything.
        drawn_id: the fresh producer id of the last who started anew, taken or not.
        started_ms: when the open transaction began; -1 if none is open.
        deadline_ms: of the open transaction; -1 if none is open.
        group_ids: groups that are part of it, whether it has offsets of them or not.
    """

    name: str
    identity: Identity
    timeout_ms: int
    used_ms: int
    drawn_id: int
    last_identity: Identity | None = None
    state: TransactionState = TransactionState.EMPTY
    started_ms: int = -1
    deadline_ms: int = -1
    partitions: set[Partition] = field(default_factory=set)
    group_ids: set[str] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        return self.state is TransactionState.ONGOING

    @property
    def has_ended(self) -> bool:
        """Whether a transaction has ended, and no epoch was given out since."""
        return self.state in {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}

    @property
    def producer(self) -> Producer:
        return Producer(
            transactional_id=self.name,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
        )

    def record(self) -> TransactionRecord:
        return TransactionRecord(
            producer=self.producer,
            state=self.state,
            timeout_ms=self.timeout_ms,
            started_ms=self.started_ms,
            partitions=sorted(self.partitions),
        )

    def is_overdue(self, now_ms: int) -> bool:
        return self.is_open and self.deadline_ms <= now_ms

    def begin(self, now_ms: int) -> None:
        """Begin a transaction, unless one is open."""
        self.used_ms = now_ms
        if not self.is_open:
            self.state = TransactionState.ONGOING
            self.started_ms = now_ms
            self.deadline_ms = now_ms + self.timeout_ms

    def admit(self, batch: BatchCommit, now_ms: int) -> bool:
        """Return whether a batch is of the open transaction, which it may begin."""
        if batch.transaction is TransactionUse.ADDS:
            self.begin(now_ms)
            self.partitions.add(batch.partition)
        return batch.partition in self.partitions

    def renew(self, expected: Identity | None, fresh_producer_id: int, now_ms: int) -> None:
        """Go on as a producer that has just started, or has recovered (KIP-360)."""
        self.identity = self._next_identity(fresh_producer_id)
        self.last_identity = expected
        if expected is None:
            self.drawn_id = fresh_producer_id
        self._close(TransactionState.EMPTY, now_ms)

    def judge_end(self, end: TransactionEnd, now_ms: int) -> Verdict:
        """Return DONE, too, where a first answer is to be repeated."""
        asker = identity_of(end.producer)
        if asker.producer_id != self.identity.producer_id and asker != self.last_identity:
            return Verdict.UNKNOWN_ID
        client_bumps = end.bumps_epoch and not end.fences
        if asker == self.identity:
            if self.is_open:
                allowed = not end.overdue_only or self.is_overdue(now_ms)
            elif client_bumps:  # it may abort what it believes to have begun
                allowed = not end.committed and not end.overdue_only
            else:
                allowed = not end.fences and self.state is _state_after(end)
        elif asker == self.last_identity and client_bumps and self.has_ended:
            allowed = not end.overdue_only and self.state is _state_after(end)
        else:
            return Verdict.FENCED
        return Verdict.DONE if allowed else Verdict.INVALID_STATE

    def end(self, end: TransactionEnd, now_ms: int) -> None:
        """Close the transaction, if one is open, and go on as the end says."""
        self.last_identity = None
        if end.bumps_epoch and end.fences:
            self.identity = self.identity._replace(epoch=self.identity.epoch + 1)
        elif end.bumps_epoch:
            self.last_identity = self.identity
            self.identity = self._next_identity(end.fresh_producer_id)
        self._close(_state_after(end), now_ms)

    def _next_identity(self, fresh_producer_id: int) -> Identity:
        if self.identity.epoch >= LAST_EPOCH:
            return Identity(fresh_producer_id, 0)
        return self.identity._replace(epoch=self.identity.epoch + 1)

    def _close(self, state: TransactionState, now_ms: int) -> None:
        self.state = state
        self.used_ms = now_ms
        self.started_ms = self.deadline_ms = -1
        self.partitions.clear()
        self.group_ids.clear()


def identity_of(producer: Producer) -> Identity:
    return Identity(producer.producer_id, producer.producer_epoch)


def _state_after(end: TransactionEnd) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if end.committed else TransactionState.COMPLETE_ABORT
