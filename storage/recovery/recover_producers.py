"""Idempotent producers and open transactions of one partition, as its batches tell; pure."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from protocol.batch import NO_PRODUCER_ID
from storage.recovery.recover_scratch import FoundBatch

RETAINED_BATCHES: Final = 5
_SEQUENCES: Final = 2**31  # after 2^31 - 1 comes 0

EndKey = tuple[int, int, int]
"""Producer id, its epoch, and a sequence."""


class Verdict(Enum):
    """What the commit of a batch would have said of it."""

    APPENDED = "appended"
    REPEATED = "repeated"  # a batch that is in the log, or that was refused
    EARLY = "early"  # something before it is missing
    UNKNOWN = "unknown"  # early, or the producer was forgotten


@dataclass(slots=True)
class KnownProducer:
    """What `streamhouse_internal.producers` keeps.

    Attributes:
        batches: (first sequence, last sequence, base offset) of the last five, the oldest first.
    """

    producer_epoch: int
    last_sequence: int
    batches: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=RETAINED_BATCHES)
    )


@dataclass(slots=True)
class OpenTransaction:
    """One whose marker was not found.

    Attributes:
        first_offset: of its first batch in the partition.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int


class Producers:
    """All of one partition."""

    def __init__(self) -> None:
        self.known: dict[int, KnownProducer] = {}
        self.open: dict[int, OpenTransaction] = {}

    def verdict(self, producer_id: int, epoch: int, base_sequence: int, count: int) -> Verdict:
        """Return what becomes of a batch that is next, by the rules of commit_object (KIP-98)."""
        known = self.known.get(producer_id)
        if producer_id == NO_PRODUCER_ID or base_sequence < 0:
            return Verdict.APPENDED
        if known is None:
            return Verdict.UNKNOWN if base_sequence else Verdict.APPENDED
        if epoch < known.producer_epoch:
            return Verdict.REPEATED
        if epoch > known.producer_epoch:
            return Verdict.EARLY if base_sequence else Verdict.APPENDED
        ahead = (base_sequence - known.last_sequence - 1) % _SEQUENCES
        if not ahead:
            return Verdict.APPENDED
        is_behind = ahead >= _SEQUENCES // 2
        last_sequence = last_of(base_sequence, count)
        retained = [(first, last) for first, last, _ in known.batches]
        is_retained = (base_sequence, last_sequence) in retained
        return Verdict.REPEATED if is_behind or is_retained else Verdict.EARLY

    def append(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        count: int,
        offset: int,
        *,
        transactional: bool,
    ) -> None:
        """Take note of a batch of data that has its place in the log."""
        if producer_id == NO_PRODUCER_ID:
            return
        if base_sequence >= 0:
            known = self.known.get(producer_id)
            last_sequence = last_of(base_sequence, count)
            if known is None or known.producer_epoch != epoch:
                known = self.known[producer_id] = KnownProducer(epoch, last_sequence)
            known.last_sequence = last_sequence
            known.batches.append((base_sequence, last_sequence, offset))
        if transactional and producer_id not in self.open:
            self.open[producer_id] = OpenTransaction(producer_id, epoch, offset)

    def take(self, batch: FoundBatch, offset: int) -> None:
        """Take note of a writer's batch that has its place in the log."""
        self.append(
            *(batch.producer_id, batch.producer_epoch, batch.base_sequence),
            *(batch.record_count, offset),
            transactional=bool(batch.transactional),
        )

    def end(self, producer_id: int, epoch: int) -> None:
        """Take note of a marker; one of the next epoch begins the sequences anew (KIP-890)."""
        self.open.pop(producer_id, None)
        known = self.known.get(producer_id)
        if known is not None and epoch > known.producer_epoch:
            self.known[producer_id] = KnownProducer(epoch, -1)


def last_of(base_sequence: int, count: int) -> int:
    """Return the sequence of the last of `count` records; of the one before them if it is 0."""
    return (base_sequence + count - 1) % _SEQUENCES


def end_key(batch: FoundBatch, count: int) -> EndKey:
    """Return where the first `count` records of a batch end; with 0, where its predecessor does."""
    return batch.producer_id, batch.producer_epoch, last_of(batch.base_sequence, count)
