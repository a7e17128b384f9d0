"""Wires the transactions that a broker coordinates."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from broker.transactions.producer_ids import ProducerIds
from broker.transactions.transaction_metrics import TransactionMetrics
from broker.transactions.transaction_upkeep import TransactionUpkeep
from broker.transactions.transactions import Transactions
from storage.log import Log
from storage.metadata.port import MetadataStore


def make_transactions(
    metadata: MetadataStore,
    log: Log,
    producer_ids: ProducerIds,
    registry: CollectorRegistry,
    *,
    unused_ms: int,
    now_ms: Callable[[], int],
) -> tuple[Transactions, TransactionUpkeep]:
    """Return them, and what ends overdue ones and forgets unused transactional ids."""
    transactions = Transactions(
        store=metadata,
        append_markers=log.append_markers,
        producer_ids=producer_ids,
        metrics=TransactionMetrics(registry),
        now_ms=now_ms,
    )
    return transactions, TransactionUpkeep(
        store=metadata, transactions=transactions, unused_ms=unused_ms
    )
