"""What a broker counts of transactions, for GET /metrics."""

from prometheus_client import CollectorRegistry, Counter


class TransactionMetrics:
    """How transactions end; a first answer that is repeated counts again."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = Counter(
            "streamhouse_transactions_ended",
            "Transactions ended by this broker.",
            ("result",),
            registry=registry,
        )
        for result in ("committed", "aborted"):
            self._ended.labels(result)  # a rate needs a 0 to begin from
        self._overdue = Counter(
            "streamhouse_transactions_overdue",
            "Transactions aborted by this broker because they were past their timeout.",
            registry=registry,
        )

    def ended(self, *, committed: bool, overdue: bool) -> None:
        """Take note of one."""
        self._ended.labels("committed" if committed else "aborted").inc()
        if overdue:
            self._overdue.inc()
