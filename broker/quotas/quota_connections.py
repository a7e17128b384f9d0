"""How fast connections may come: per ip, and to the whole broker (KIP-612).

A connection of an ip that is over its quota is held for the time that it came too early, a second
at most, and closed without an answer; others of that ip go on. Over max.connection.creation.rate a
connection is served later; one that would be served more than a second later is closed then. What
is closed does not count: else who comes often enough would put everybody else off for ever.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from broker.quotas.quota_buckets import TokenBucket
from broker.quotas.quota_entities import CONNECTION_CREATION_RATE, ip_address
from broker.quotas.quota_levels import ip_quota
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_sensors import RecentlyUsed
from broker.quotas.quota_table import QuotaTable

UNLIMITED: Final = 2**31 - 1  # as Apache Kafka says it


class NewConnection(Protocol):
    """A connection that has just been made."""

    def postpone(self, wait_s: float) -> None:
        """Serve it after that time."""

    def dismiss(self, after_s: float) -> None:
        """Close it after that time, unserved."""


class ConnectionRates:
    """Decides when a new connection is served.

    Args:
        limit: max.connection.creation.rate as it is now.
        burst_s: seconds of its rate that may come at once.
        longest_s: that a connection is held before it is served or closed.
    """

    def __init__(
        self,
        table: QuotaTable,
        *,
        limit: Callable[[], int],
        burst_s: float,
        longest_s: float,
        metrics: QuotaMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._table = table
        self._limit = limit
        self._burst_s = burst_s
        self._longest_s = longest_s
        self._metrics = metrics
        self._clock = clock
        self._broker: TokenBucket | None = None
        self._ips: RecentlyUsed[str, TokenBucket] = RecentlyUsed()

    def admit(self, connection: NewConnection, ip: str) -> None:
        """Count a connection; what it is to wait for begins with the event loop's next turn."""
        now_s, loop = self._clock(), asyncio.get_running_loop()
        of_ip, of_broker = self._of_ip(ip, now_s), self._of_broker(now_s)
        early_s = of_ip.wait_s(now_s, more=1) if of_ip else 0.0
        if early_s:
            self._metrics.connection_throttled("ip")
            loop.call_soon(connection.dismiss, min(early_s, self._longest_s))
            return
        wait_s = of_broker.wait_s(now_s, more=1) if of_broker else 0.0
        if wait_s:
            self._metrics.connection_throttled("broker")
        if wait_s > self._longest_s:
            loop.call_soon(connection.dismiss, self._longest_s)
            return
        for bucket in (of_ip, of_broker):
            if bucket:
                bucket.take(1, now_s)
        if wait_s:
            loop.call_soon(connection.postpone, wait_s)

    def _of_ip(self, ip: str, now_s: float) -> TokenBucket | None:
        """Return what an address has left, if it has a quota."""
        levels = self._table.levels.get(CONNECTION_CREATION_RATE)
        if levels is None:
            return None
        address = ip_address(ip) or ip
        rate = ip_quota(levels, address)
        if rate is None:
            return None
        bucket = self._ips.use(address, now_s)
        if bucket is None:
            bucket = TokenBucket(rate, burst_s=self._burst_s, now_s=now_s)
            self._ips.keep(address, bucket, now_s)
        elif bucket.rate != rate:
            bucket.change_rate(rate, now_s)
        return bucket

    def _of_broker(self, now_s: float) -> TokenBucket | None:
        """Return what all addresses together have left, if there is a limit."""
        rate = self._limit()
        if rate >= UNLIMITED:
            self._broker = None
        elif self._broker is None or self._broker.rate != rate:
            # anew: what is owed for a second of a high rate would last for hours of a low one
            self._broker = TokenBucket(rate, burst_s=self._burst_s, now_s=now_s)
        return self._broker
