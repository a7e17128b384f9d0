"""The metadata port's transactions, on Postgres."""

from collections.abc import AsyncIterator, Sequence

import asyncpg

from protocol.ids import Partition
from storage.aborted_transaction import AbortedPage, AbortedTransaction
from storage.errors import MetadataUnavailable, UnknownPartition
from storage.metadata.transactions import (
    EndOutcome,
    InitOutcome,
    Producer,
    ProducerState,
    TransactionEnd,
    TransactionListing,
    TransactionOffsets,
    TransactionOffsetsOutcome,
    TransactionRecord,
    TransactionState,
    Verdict,
)
from storage.partition_offsets import PartitionOffsets
from storage.postgres.postgres_arrays import partition_columns
from storage.postgres.postgres_pages import fetch_by_pages
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_rows import read_rows
from storage.postgres.postgres_text import from_stored, to_stored

UNASKED_TIMEOUT_S = 60.0  # no producer waits for it, and a large transaction has to end some time
MAX_OFFSETS = 10_000  # in one statement: all records of its producer, and those behind, wait for it
MAX_IDS_PER_FORGETTING = 1000  # what one statement looks at, so that none takes long
PRODUCERS_OF_PAGE = 200  # of each partition that is asked for

_BEFORE_ALL = -1  # no producer has it for an id


class PostgresTransactions:
    """Transactions; see TransactionStore for what each method promises."""

    _pool: PostgresPool
    _steps: PostgresPool  # for what takes locks: who waits for one is not in the way of readers

    async def init_producer(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        fresh_producer_id: int,
    ) -> InitOutcome:
        (row,) = await self._steps.fetch_durable(
            "transaction_init_producer",
            to_stored(transactional_id),
            timeout_ms,
            *(expected or (None, None)),
            fresh_producer_id,
        )
        verdict = Verdict(row["verdict"])
        if verdict is Verdict.FENCED:
            return InitOutcome(verdict=verdict)
        producer = Producer(
            transactional_id=transactional_id,
            producer_id=row["producer_id"],
            producer_epoch=row["producer_epoch"],
        )
        return InitOutcome(verdict=verdict, producer=producer)

    async def add_to_transaction(
        self, producer: Producer, partitions: Sequence[Partition], group_ids: Sequence[str] = ()
    ) -> Verdict:
        (row,) = await self._steps.fetch_durable(
            "transaction_add",
            *_identity(producer),
            *partition_columns(partitions),
            [to_stored(group_id) for group_id in group_ids],
        )
        return Verdict(row["verdict"])

    async def write_transaction_offsets(
        self, offsets: TransactionOffsets
    ) -> TransactionOffsetsOutcome:
        unknown: set[Partition] = set()
        partitions = list(offsets.offsets)
        for first in range(0, max(len(partitions), 1), MAX_OFFSETS):
            piece = partitions[first : first + MAX_OFFSETS]
            outcome = await self._write_offsets(offsets, piece)
            if outcome.verdict is not Verdict.DONE:
                return outcome
            unknown |= outcome.unknown
        return TransactionOffsetsOutcome(verdict=Verdict.DONE, unknown=frozenset(unknown))

    async def _write_offsets(
        self, whole: TransactionOffsets, partitions: Sequence[Partition]
    ) -> TransactionOffsetsOutcome:
        committed = [whole.offsets[each] for each in partitions]
        (row,) = await self._steps.fetch_durable(
            "transaction_write_offsets",
            *_identity(whole.producer),
            to_stored(whole.group_id),
            whole.owner_epoch,
            whole.joins,
            *partition_columns(partitions),
            [each.offset for each in committed],
            [each.leader_epoch for each in committed],
            [to_stored(each.metadata) for each in committed],
        )
        return TransactionOffsetsOutcome(
            verdict=Verdict(row["verdict"]),
            unknown=frozenset(partitions[index - 1] for index in row["unknown"]),
        )

    async def end_transaction(self, end: TransactionEnd) -> EndOutcome:
        (row,) = await self._steps.fetch_durable(
            "transaction_end",
            *_identity(end.producer),
            end.committed,
            end.bumps_epoch,
            end.fences,
            end.overdue_only,
            end.marker,
            end.marker_timestamp_ms,
            end.fresh_producer_id,
            timeout_s=UNASKED_TIMEOUT_S if end.fences or end.overdue_only else None,
        )
        verdict = Verdict(row["verdict"])
        if verdict is not Verdict.DONE:
            return EndOutcome(verdict=verdict)
        producer = Producer(
            transactional_id=end.producer.transactional_id,
            producer_id=row["next_producer_id"],
            producer_epoch=row["next_producer_epoch"],
        )
        return EndOutcome(verdict=verdict, producer=producer, markers=_markers(row))

    async def overdue_transactions(self, limit: int) -> list[Producer]:
        return [_producer(row) for row in await self._pool.fetch("transaction_find_overdue", limit)]

    async def forget_transactional_ids(self, unused_ms: int) -> int:
        forgotten = 0
        next_id: str | None = ""
        while next_id is not None:
            (row,) = await self._pool.fetch(
                "transaction_forget", unused_ms, next_id, MAX_IDS_PER_FORGETTING
            )
            forgotten += row["forgotten"]
            next_id = row["next_id"]
        return forgotten

    async def find_transactions(self, transactional_ids: Sequence[str]) -> list[TransactionRecord]:
        rows = await self._pool.fetch(
            "transaction_find", [to_stored(name) for name in transactional_ids]
        )
        return [await _transaction(row) for row in rows]

    async def transactional_id_of(self, producer_id: int) -> str | None:
        rows = await self._pool.fetch("transaction_find_id", producer_id)
        return from_stored(rows[0]["transactional_id"]) if rows else None

    async def list_transactions(self) -> AsyncIterator[TransactionListing]:
        async for row in fetch_by_pages(self._pool, "transaction_list", "transactional_id"):
            yield TransactionListing(
                transactional_id=from_stored(row["transactional_id"]),
                producer_id=row["producer_id"],
                state=TransactionState(row["state"]),
                running_ms=_or_minus_one(row["running_ms"]),
            )

    async def producer_states(
        self, partitions: Sequence[Partition]
    ) -> dict[Partition, list[ProducerState]]:
        found: dict[Partition, list[ProducerState]] = {}
        after = dict.fromkeys(partitions, _BEFORE_ALL)
        while after:
            rows = await self._pool.fetch(
                "producer_find",
                *partition_columns(list(after)),
                list(after.values()),
                PRODUCERS_OF_PAGE,
            )
            after = {}
            for partition, state in await read_rows(rows, _producer_state):
                states = found.setdefault(partition, [])
                if state is not None:
                    states.append(state)
                    if len(states) % PRODUCERS_OF_PAGE == 0:  # there may be more
                        after[partition] = state.producer_id
        return found

    async def aborted_transactions(
        self,
        partition: Partition,
        start_offset: int,
        end_offset: int,
        limit: int,
        *,
        aborted_count: int,
    ) -> AbortedPage:
        rows = await self._pool.fetch(
            "transaction_find_aborted", *partition, start_offset, end_offset, limit
        )
        if not rows:
            raise UnknownPartition(f"{partition.topic_id}-{partition.index}")
        if rows[0]["aborted_count"] < aborted_count:
            raise MetadataUnavailable("a server that is behind: it has been replaced")
        return AbortedPage(
            log_start_offset=rows[0]["log_start_offset"],
            transactions=[
                AbortedTransaction(
                    producer_id=row["producer_id"],
                    first_offset=row["first_offset"],
                    last_offset=row["last_offset"],
                )
                for row in rows
                if row["producer_id"] is not None
            ],
        )


def _identity(producer: Producer) -> tuple[str, int, int]:
    return to_stored(producer.transactional_id), producer.producer_id, producer.producer_epoch


def _producer(row: asyncpg.Record) -> Producer:
    return Producer(
        transactional_id=from_stored(row["transactional_id"]),
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
    )


async def _transaction(row: asyncpg.Record) -> TransactionRecord:
    places = list(zip(row["topic_ids"], row["partitions"], strict=True))
    return TransactionRecord(
        producer=_producer(row),
        state=TransactionState(row["state"]),
        timeout_ms=row["timeout_ms"],
        started_ms=_or_minus_one(row["started_ms"]),
        partitions=await read_rows(places, lambda place: Partition(*place)),
    )


def _markers(row: asyncpg.Record) -> dict[Partition, PartitionOffsets]:
    if row["topic_ids"] is None:  # nothing was open, or the first answer is repeated
        return {}
    names = ("log_start_offsets", "high_watermarks", "last_stable_offsets", "aborted_counts")
    return {
        Partition(topic_id, index): PartitionOffsets(
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            aborted_count=aborted_count,
        )
        for (
            topic_id,
            index,
            log_start_offset,
            high_watermark,
            last_stable_offset,
            aborted_count,
        ) in zip(row["topic_ids"], row["partitions"], *(row[name] for name in names), strict=True)
    }


def _producer_state(row: asyncpg.Record) -> tuple[Partition, ProducerState | None]:
    partition = Partition(row["topic_id"], row["partition"])
    if row["producer_id"] is None:
        return partition, None
    return partition, ProducerState(
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
        last_sequence=row["last_sequence"],
        last_timestamp_ms=row["last_timestamp_ms"],
        transaction_start_offset=_or_minus_one(row["transaction_start_offset"]),
    )


def _or_minus_one(number: int | None) -> int:
    return -1 if number is None else number
