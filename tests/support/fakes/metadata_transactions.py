"""The metadata port's transactions, in memory."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from protocol.ids import Partition
from storage.aborted_transaction import AbortedPage
from storage.errors import MetadataUnavailable, UnknownPartition
from storage.metadata.metadata_commit import Outcome
from storage.metadata.port import BatchCommit, TransactionUse
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
from tests.support.fakes.metadata_groups import MemoryGroups
from tests.support.fakes.metadata_log import MemoryPartition
from tests.support.fakes.metadata_transactional_id import Identity, TransactionalId, identity_of


class MemoryTransactions(MemoryGroups):
    """Transactions; see TransactionStore for what each method promises.

    Args:
        now_ms: the database's clock.
    """

    _partitions: Mapping[Partition, MemoryPartition]

    def __init__(self, now_ms: Callable[[], int]) -> None:
        MemoryGroups.__init__(self, now_ms)
        self._transactional_ids: dict[str, TransactionalId] = {}
        self._next_producer_id = 0

    async def init_producer(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        fresh_producer_id: int,
    ) -> InitOutcome:
        now_ms = self._now_ms()
        believed = None if expected is None else Identity(*expected)
        found = self._transactional_ids.get(transactional_id)
        if found is None:
            identity = Identity(fresh_producer_id, 0)
            found = TransactionalId(
                transactional_id, identity, timeout_ms, now_ms, fresh_producer_id
            )
            self._transactional_ids[transactional_id] = found
        elif believed is None and fresh_producer_id < found.drawn_id:
            return InitOutcome(verdict=Verdict.FENCED)
        elif believed is None or believed == found.identity:
            if found.is_open:
                return InitOutcome(verdict=Verdict.OPEN, producer=found.producer)
            found.timeout_ms = timeout_ms
            found.renew(believed, fresh_producer_id, now_ms)
        elif believed != found.last_identity or found.is_open:
            return InitOutcome(verdict=Verdict.FENCED)
        else:  # the client's own change, of which it has not heard
            found.timeout_ms = timeout_ms
            found.used_ms = now_ms
            found.state = TransactionState.EMPTY
        return InitOutcome(verdict=Verdict.DONE, producer=found.producer)

    async def add_to_transaction(
        self, producer: Producer, partitions: Sequence[Partition], group_ids: Sequence[str] = ()
    ) -> Verdict:
        found, verdict = self._identify(producer)
        if found is None:
            return verdict
        if any(each not in self._partitions for each in partitions):
            return Verdict.UNKNOWN_PARTITION
        found.begin(self._now_ms())
        found.partitions.update(partitions)
        found.group_ids.update(group_ids)
        return verdict

    async def write_transaction_offsets(
        self, offsets: TransactionOffsets
    ) -> TransactionOffsetsOutcome:
        found, verdict = self._identify(offsets.producer)
        if found is None:
            return TransactionOffsetsOutcome(verdict=verdict)
        if not offsets.joins and offsets.group_id not in found.group_ids:
            return TransactionOffsetsOutcome(verdict=Verdict.INVALID_STATE)
        if self._owned(offsets.group_id, offsets.owner_epoch) is None:
            return TransactionOffsetsOutcome(verdict=Verdict.GROUP_FENCED)
        found.begin(self._now_ms())
        found.group_ids.add(offsets.group_id)
        unknown = self._keep_offsets(found.name, offsets.group_id, offsets.offsets)
        return TransactionOffsetsOutcome(verdict=verdict, unknown=unknown)

    async def end_transaction(self, end: TransactionEnd) -> EndOutcome:
        found = self._transactional_ids.get(end.producer.transactional_id)
        if found is None:
            return EndOutcome(verdict=Verdict.UNKNOWN_ID)
        now_ms = self._now_ms()
        verdict = found.judge_end(end, now_ms)
        if verdict is not Verdict.DONE:
            return EndOutcome(verdict=verdict)
        markers: dict[Partition, PartitionOffsets] = {}
        is_current = identity_of(end.producer) == found.identity
        if is_current and (found.is_open or end.bumps_epoch):  # else a first answer is repeated
            for partition in sorted(found.partitions):
                log = self._partitions[partition]
                markers[partition] = log.end_transaction(partition, end, now_ms)
            self._settle_offsets(found.name, committed=end.committed)
            found.end(end, now_ms)
        return EndOutcome(verdict=verdict, producer=found.producer, markers=markers)

    async def overdue_transactions(self, limit: int) -> list[Producer]:
        now_ms = self._now_ms()
        overdue = [each for each in self._transactional_ids.values() if each.is_overdue(now_ms)]
        return [each.producer for each in overdue[:limit]]

    async def forget_transactional_ids(self, unused_ms: int) -> int:
        oldest_ms = self._now_ms() - unused_ms
        unused = [
            each.name
            for each in self._transactional_ids.values()
            if not each.is_open and each.used_ms < oldest_ms
        ]
        for name in unused:
            del self._transactional_ids[name]
        return len(unused)

    async def find_transactions(self, transactional_ids: Sequence[str]) -> list[TransactionRecord]:
        return [
            self._transactional_ids[name].record()
            for name in transactional_ids
            if name in self._transactional_ids
        ]

    async def transactional_id_of(self, producer_id: int) -> str | None:
        owner = self._owner(producer_id)
        return owner.name if owner else None

    async def list_transactions(self) -> AsyncIterator[TransactionListing]:
        now_ms = self._now_ms()
        for name, each in sorted(self._transactional_ids.items()):
            yield TransactionListing(
                transactional_id=name,
                producer_id=each.identity.producer_id,
                state=each.state,
                running_ms=now_ms - each.started_ms if each.is_open else -1,
            )

    async def producer_states(
        self, partitions: Sequence[Partition]
    ) -> dict[Partition, list[ProducerState]]:
        return {
            partition: self._partitions[partition].producer_states()
            for partition in partitions
            if partition in self._partitions
        }

    async def aborted_transactions(
        self,
        partition: Partition,
        start_offset: int,
        end_offset: int,
        limit: int,
        *,
        aborted_count: int,
    ) -> AbortedPage:
        if partition not in self._partitions:
            raise UnknownPartition(f"{partition.topic_id}-{partition.index}")
        log = self._partitions[partition]
        if log.aborted_count < aborted_count:
            raise MetadataUnavailable("the future is not known")
        found = [
            each
            for each in log.aborted
            if each.last_offset >= start_offset and each.first_offset < end_offset
        ]
        return AbortedPage(log_start_offset=log.log_start_offset, transactions=found[:limit])

    def _judge_batch(self, batch: BatchCommit, partition: MemoryPartition) -> tuple[Outcome, int]:
        """Judge an idempotent batch by its partition and its transaction, which it may begin.

        Returns:
            the outcome, and the base offset of the first copy of a duplicate, else -1.
        """
        outcome, first_copy = partition.judge(batch, self._next_producer_id)
        if outcome in {Outcome.INVALID_PRODUCER_EPOCH, Outcome.DUPLICATE}:
            return outcome, first_copy
        if batch.transaction is TransactionUse.NONE:
            allowed = batch.producer_id not in partition.unstable
        else:
            owner = self._owner(batch.producer_id)
            if owner is None or owner.name != batch.transactional_id:
                return Outcome.INVALID_PRODUCER_ID_MAPPING, -1
            if not owner.identity.is_now(batch.producer_epoch):
                return Outcome.INVALID_PRODUCER_EPOCH, -1
            in_order = outcome is Outcome.APPENDED
            allowed = in_order and owner.admit(batch, self._now_ms())
        if outcome is Outcome.APPENDED and not allowed:
            return Outcome.INVALID_TXN_STATE, -1
        return outcome, -1

    def _leave_transactions(self, partition: Partition) -> None:
        """Forget a partition that is gone."""
        for each in self._transactional_ids.values():
            each.partitions.discard(partition)

    def _identify(self, producer: Producer) -> tuple[TransactionalId | None, Verdict]:
        """Return the transactional id if the producer is its current one, and DONE; or why not."""
        found = self._transactional_ids.get(producer.transactional_id)
        if found is None or found.identity.producer_id != producer.producer_id:
            return None, Verdict.UNKNOWN_ID
        if not found.identity.is_now(producer.producer_epoch):
            return None, Verdict.FENCED
        return found, Verdict.DONE

    def _owner(self, producer_id: int) -> TransactionalId | None:
        owners = self._transactional_ids.values()
        return next((each for each in owners if each.identity.producer_id == producer_id), None)
