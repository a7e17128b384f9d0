"""A commit as arrays: what goes to sql/queries/object_commit.sql and what comes back (D5)."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import Final
from uuid import UUID

from protocol.batch import NO_PRODUCER_ID
from protocol.ids import Partition
from storage.errors import (
    FencedLeaderEpoch,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    OutOfOrderSequence,
    StorageError,
    UnknownPartition,
)
from storage.metadata.port import BatchCommit, BatchOutcome, TransactionUse
from storage.postgres.postgres_arrays import columns_as_texts, numbers_as_text, strings_as_text
from storage.postgres.postgres_text import to_stored

_PARTITION: Final = attrgetter("partition")
_PRODUCER_ID: Final = attrgetter("producer_id")
_TRANSACTION: Final = attrgetter("transaction")
_OF_BATCHES: Final = [
    attrgetter(name) for name in ("start", "length", "record_count", "max_timestamp_ms")
]
_OF_IDEMPOTENT: Final = [attrgetter(name) for name in ("producer_epoch", "base_sequence")]


class Outcome(IntEnum):
    """What became of a batch, as the database writes it down."""

    APPENDED = 0
    DUPLICATE = 1
    UNKNOWN_PARTITION = 2
    OUT_OF_ORDER_SEQUENCE = 3
    INVALID_PRODUCER_EPOCH = 4
    INVALID_TXN_STATE = 5
    INVALID_PRODUCER_ID_MAPPING = 6
    FENCED_LEADER_EPOCH = 7


def check_order(batches: Sequence[BatchCommit]) -> None:
    """Assert what commit_object asks of its caller: partitions ascending, each in one piece."""
    previous: Partition | None = None
    for batch in batches:
        if batch.partition != previous:
            assert previous is None or previous < batch.partition, "partitions must ascend"
            previous = batch.partition
        assert batch.record_count > 0, "a batch has records"
        assert batch.producer_id == NO_PRODUCER_ID or batch.base_sequence >= 0, (
            "a producer id comes with a sequence"
        )
        assert batch.transaction == TransactionUse.NONE or (
            batch.producer_id != NO_PRODUCER_ID and batch.transactional_id is not None
        ), "a transaction comes with a producer id and a transactional id"


def to_arguments(batches: Sequence[BatchCommit]) -> list[object]:
    """Turn batches by 90 degrees: a Postgres array per field, from the statement's $3 on.

    All as text, and with few calls: this is part of every acknowledgement.
    """
    producers, producer_partitions, producer_ids = _index_producers(batches)
    idempotent = batches if producer_ids else ()
    transactional = any(map(_TRANSACTION, batches))
    topic_ids, partitions, batch_counts, leader_epochs = _runs(batches)
    return [
        topic_ids,
        *columns_as_texts(
            [
                *(partitions, batch_counts),
                *[list(map(field, batches)) for field in _OF_BATCHES],
                producers,
                *[list(map(field, idempotent)) for field in _OF_IDEMPOTENT],
                *(producer_partitions, producer_ids),
                [batch.transaction.value for batch in batches] if transactional else [],
                leader_epochs,
            ]
        ),
        *(_index_owners(batches) if transactional else ("{}", "{}")),
    ]


def _runs(batches: Sequence[BatchCommit]) -> tuple[str, list[int], list[int], list[int]]:
    """Return topic id, number, count of batches and least leader epoch of each partition."""
    topic_ids: list[str] = []
    partitions: list[int] = []
    counts: list[int] = []
    leader_epochs: list[int] = []
    previous: Partition | None = None
    topic_id: UUID | None = None
    hexadecimal = ""
    for batch in batches:
        partition = batch.partition
        if partition == previous:
            counts[-1] += 1
            leader_epochs[-1] = min(leader_epochs[-1], batch.leader_epoch)
            continue
        previous = partition
        if partition.topic_id is not topic_id:
            topic_id = partition.topic_id
            hexadecimal = topic_id.hex
        topic_ids.append(hexadecimal)
        partitions.append(partition.index)
        counts.append(1)
        leader_epochs.append(batch.leader_epoch)
    return f"{{{','.join(topic_ids)}}}", partitions, counts, leader_epochs


def _index_owners(batches: Sequence[BatchCommit]) -> tuple[str, str]:
    """Number the transactional ids, from 1; 0 stands for none.

    Returns:
        the ids; per batch: number of its id.
    """
    numbers: dict[str | None, int] = {None: 0}
    for batch in batches:
        numbers.setdefault(batch.transactional_id, len(numbers))
    names = strings_as_text([to_stored(name) for name in numbers if name is not None])
    return names, numbers_as_text([numbers[batch.transactional_id] for batch in batches])


def _index_producers(batches: Sequence[BatchCommit]) -> tuple[list[int], list[int], list[int]]:
    """Number each producer of each partition, from 1; 0 stands for no producer.

    Returns:
        per batch: number of its producer; per producer: number of the partition, producer id. All
        empty if no batch has a producer id.
    """
    if set(map(_PRODUCER_ID, batches)) == {NO_PRODUCER_ID}:
        return [], [], []
    producers: list[int] = []
    producer_partitions: list[int] = []
    producer_ids: list[int] = []
    for partition_number, (_, run) in enumerate(groupby(batches, _PARTITION), start=1):
        numbers = {NO_PRODUCER_ID: 0}
        for batch in run:
            if batch.producer_id not in numbers:
                producer_partitions.append(partition_number)
                producer_ids.append(batch.producer_id)
                numbers[batch.producer_id] = len(producer_ids)
            producers.append(numbers[batch.producer_id])
    return producers, producer_partitions, producer_ids


def _unknown_partition(batch: BatchCommit) -> StorageError:
    return UnknownPartition(f"{batch.partition.topic_id}-{batch.partition.index}")


def _out_of_order_sequence(batch: BatchCommit) -> StorageError:
    return OutOfOrderSequence(f"producer {batch.producer_id}: sequence {batch.base_sequence}")


def _invalid_producer_epoch(batch: BatchCommit) -> StorageError:
    return InvalidProducerEpoch(f"producer {batch.producer_id}: epoch {batch.producer_epoch}")


def _invalid_transaction_state(batch: BatchCommit) -> StorageError:
    partition = f"{batch.partition.topic_id}-{batch.partition.index}"
    return InvalidTransactionState(f"producer {batch.producer_id}: {partition} is not part of it")


def _invalid_producer_id_mapping(batch: BatchCommit) -> StorageError:
    return InvalidProducerIdMapping(f"the transactional id has not producer {batch.producer_id}")


def _fenced_leader_epoch(batch: BatchCommit) -> StorageError:
    partition = f"{batch.partition.topic_id}-{batch.partition.index}"
    return FencedLeaderEpoch(f"{partition}: a broker of a newer epoch than {batch.leader_epoch} is")


_REFUSALS: dict[int, Callable[[BatchCommit], StorageError]] = {
    Outcome.UNKNOWN_PARTITION: _unknown_partition,
    Outcome.OUT_OF_ORDER_SEQUENCE: _out_of_order_sequence,
    Outcome.INVALID_PRODUCER_EPOCH: _invalid_producer_epoch,
    Outcome.INVALID_TXN_STATE: _invalid_transaction_state,
    Outcome.INVALID_PRODUCER_ID_MAPPING: _invalid_producer_id_mapping,
    Outcome.FENCED_LEADER_EPOCH: _fenced_leader_epoch,
}


def to_outcomes(
    batches: Sequence[BatchCommit],
    of_batches: Iterable[tuple[int, int, int]],
    of_partitions: Iterable[tuple[int, int]],
) -> list[BatchOutcome]:
    """Name what the database answered.

    Args:
        batches: as they were committed.
        of_batches: outcome, base offset and log start offset of each batch.
        of_partitions: last stable offset and count of aborted transactions of each partition.
    """
    outcomes: list[BatchOutcome] = []
    answers = iter(of_batches)
    for (_, run), at_the_end in zip(groupby(batches, _PARTITION), of_partitions, strict=True):
        for batch in run:
            outcome, base_offset, log_start_offset = next(answers)
            stable = at_the_end if base_offset >= 0 else (-1, -1)
            outcomes.append(to_outcome(batch, outcome, base_offset, log_start_offset, *stable))
    return outcomes


def to_outcome(
    batch: BatchCommit,
    outcome: int,
    base_offset: int,
    log_start_offset: int,
    last_stable_offset: int,
    aborted_count: int,
) -> BatchOutcome:
    """Name what the database answered for one batch."""
    refuse = _REFUSALS.get(outcome)
    return BatchOutcome(
        base_offset=base_offset,
        log_start_offset=log_start_offset,
        last_stable_offset=last_stable_offset,
        aborted_count=aborted_count,
        duplicate=outcome == Outcome.DUPLICATE,
        refusal=refuse(batch) if refuse else None,
    )
