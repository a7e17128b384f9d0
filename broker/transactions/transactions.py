"""Transactions, as the requests of their clients and tools need them (KIP-98, KIP-360, KIP-890).

Nothing of a transaction is in this broker's memory: each step is one call of the metadata store,
and whatever comes between two of them, from this broker or another, is seen by the second one. So
any broker does any step, and a step that got no answer may be repeated.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from broker.cluster import LOG_EPOCH
from broker.transactions.producer_ids import ProducerIds
from broker.transactions.transaction_metrics import TransactionMetrics
from protocol.control_batch import EndMarker, build_end_marker
from protocol.ids import Partition
from storage.metadata.transactions import (
    LAST_EPOCH,
    EndOutcome,
    InitOutcome,
    Producer,
    TransactionEnd,
    TransactionState,
    TransactionStore,
    Verdict,
)
from storage.partition_offsets import PartitionOffsets

ABORTS_AT_MOST: Final = 5
"""How often one InitProducerId aborts what is open: others may begin again and again meanwhile."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMode:
    """How a transaction is to end; see TransactionEnd."""

    committed: bool
    bumps_epoch: bool
    fences: bool = False
    overdue_only: bool = False


FENCE: Final = EndMode(committed=False, bumps_epoch=True, fences=True)
"""Aborts for somebody else than the producer, who is not to go on."""

OVERDUE: Final = EndMode(committed=False, bumps_epoch=True, overdue_only=True)
"""Aborts what is past its timeout; its producer hears of it when it aborts, too, and goes on."""


class Transactions:
    """The transactional ids of the cluster.

    Every method raises MetadataUnavailable when Postgres gives no answer in time.

    Args:
        append_markers: shows this broker's readers what an end has written.
        now_ms: the wall clock, milliseconds since the epoch.
    """

    def __init__(
        self,
        *,
        store: TransactionStore,
        append_markers: Callable[[bytes, Mapping[Partition, PartitionOffsets]], None],
        producer_ids: ProducerIds,
        metrics: TransactionMetrics,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._append_markers = append_markers
        self._producer_ids = producer_ids
        self._metrics = metrics
        self._now_ms = now_ms

    async def init(
        self, transactional_id: str, *, timeout_ms: int, expected: tuple[int, int] | None
    ) -> InitOutcome:
        """Give a transactional id its next epoch, once what is open has been aborted.

        Args:
            transactional_id: any text but the empty one.
            timeout_ms: how long its transactions may be open from now on.
            expected: producer id and epoch that the client believes to have (KIP-360).

        Returns:
            DONE, FENCED, or OPEN if others keep beginning transactions.
        """
        fresh_producer_id = await self._producer_ids.take()
        for _ in range(ABORTS_AT_MOST):
            outcome = await self._store.init_producer(
                transactional_id,
                timeout_ms=timeout_ms,
                expected=expected,
                fresh_producer_id=fresh_producer_id,
            )
            if outcome.verdict is not Verdict.OPEN:
                return outcome
            assert outcome.producer is not None
            # Its own end bumps its epoch, and it is told that one when it is asked for again.
            await self.end(outcome.producer, replace(FENCE, fences=expected is None))
        return InitOutcome(verdict=Verdict.OPEN)

    async def add(
        self, producer: Producer, partitions: Sequence[Partition], group_ids: Sequence[str] = ()
    ) -> Verdict:
        """Let partitions and groups take part, all or none; it begins if none is open.

        Returns:
            DONE, UNKNOWN_ID, FENCED or UNKNOWN_PARTITION.
        """
        if producer.producer_epoch > LAST_EPOCH:
            return Verdict.FENCED  # nobody was told to use it
        return await self._store.add_to_transaction(producer, partitions, group_ids)

    async def open_partitions(self, producer: Producer) -> frozenset[Partition] | Verdict:
        """Return what is part of a producer's open transaction; nothing if none is open.

        Returns:
            UNKNOWN_ID or FENCED if the producer is not the current one.
        """
        records = await self._store.find_transactions([producer.transactional_id])
        if not records or records[0].producer.producer_id != producer.producer_id:
            return Verdict.UNKNOWN_ID
        if records[0].producer != producer:
            return Verdict.FENCED
        if records[0].state is not TransactionState.ONGOING:
            return frozenset()
        return frozenset(records[0].partitions)

    async def end(self, producer: Producer, mode: EndMode) -> EndOutcome:
        """End the producer's open transaction, or repeat the answer if just this has happened.

        Returns:
            DONE, UNKNOWN_ID, FENCED or INVALID_STATE.
        """
        epoch, fresh_producer_id = producer.producer_epoch, -1
        if epoch > LAST_EPOCH:
            return EndOutcome(verdict=Verdict.FENCED)  # nobody was told to use it
        if mode.bumps_epoch:
            if epoch >= LAST_EPOCH:
                fresh_producer_id = await self._producer_ids.take()
            epoch += 1
        timestamp_ms = self._now_ms()
        said = EndMarker(
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            committed=mode.committed,
            timestamp_ms=timestamp_ms,
        )
        marker = build_end_marker(said, leader_epoch=LOG_EPOCH)
        outcome = await self._store.end_transaction(
            TransactionEnd(
                producer=producer,
                committed=mode.committed,
                bumps_epoch=mode.bumps_epoch,
                fences=mode.fences,
                overdue_only=mode.overdue_only,
                marker=marker,
                marker_timestamp_ms=timestamp_ms,
                fresh_producer_id=fresh_producer_id,
            )
        )
        if outcome.verdict is Verdict.DONE:
            self._metrics.ended(committed=mode.committed, overdue=mode.overdue_only)
            self._append_markers(marker, outcome.markers)
        return outcome

    async def mark(
        self,
        partitions: Collection[Partition],
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
    ) -> dict[Partition, Verdict]:
        """Do what a tool wants that asks for markers: abort a whole transaction, or nothing at all.

        A marker in some of a transaction's partitions would tear it.

        Args:
            partitions: for which there are to be markers.
            producer_id: whose transaction it is.
            producer_epoch: of the open transaction.
            committed: which kind of marker.

        Returns:
            For each partition: DONE, also if nothing is open there; UNKNOWN_ID if nobody has that
            producer id; FENCED if its epoch is another one; INVALID_STATE if it is open there and
            was to be committed, which is its producer's business, or has ended in the meantime.
        """
        transactional_id = await self._store.transactional_id_of(producer_id)
        if transactional_id is None:
            return dict.fromkeys(partitions, Verdict.UNKNOWN_ID)
        producer = Producer(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        opened = await self.open_partitions(producer)
        if isinstance(opened, Verdict):
            return dict.fromkeys(partitions, opened)
        verdict = Verdict.DONE
        if opened.intersection(partitions):
            verdict = Verdict.INVALID_STATE if committed else await self._abort_for_tool(producer)
        return {one: verdict if one in opened else Verdict.DONE for one in partitions}

    async def _abort_for_tool(self, producer: Producer) -> Verdict:
        verdict = (await self.end(producer, FENCE)).verdict
        log.warning(
            "transaction ended because a tool asked for its abort",
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verdict=verdict.name,
        )
        return verdict
