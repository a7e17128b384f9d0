"""How fast connections may come: per ip, and to the whole broker (KIP-612).

A connection of an ip that is over its quota is held for the time that it came too early, a second
at most, and closed without an answer; others of that ip go on. Over max.connection.creation.rate a
connection is served later.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from broker.entity_configs import EntityConfigs
from broker.quota_buckets import TokenBucket
from broker.quota_entities import CONNECTION_CREATION_RATE, ip_address
from broker.quota_levels import Levels, ip_quota, levels_in
from broker.quota_metrics import QuotaMetrics
from broker.quota_sensors import RecentlyUsed
from storage.entity_configs import EntityKind

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
        longest_s: that a connection is held before it is closed.
    """

    def __init__(
        self,
        configs: EntityConfigs,
        *,
        limit: Callable[[], int],
        burst_s: float,
        longest_s: float,
        metrics: QuotaMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._configs = configs
        self._limit = limit
        self._burst_s = burst_s
        self._longest_s = longest_s
        self._metrics = metrics
        self._clock = clock
        self._levels: Levels = {}
        self._broker: TokenBucket | None = None
        self._ips: RecentlyUsed[str, TokenBucket] = RecentlyUsed()
        configs.watch(EntityKind.CLIENT_QUOTA, lambda _: self._load())

    def admit(self, connection: NewConnection, ip: str) -> None:
        """Count a connection; what it is to wait for begins with the event loop's next turn."""
        now_s, loop = self._clock(), asyncio.get_running_loop()
        early_s = self._of_ip(ip, now_s)
        if early_s:
            self._metrics.connection_throttled("ip")
            loop.call_soon(connection.dismiss, min(early_s, self._longest_s))
            return
        wait_s = self._of_broker(now_s)
        if wait_s:
            self._metrics.connection_throttled("broker")
            loop.call_soon(connection.postpone, wait_s)

    def _of_ip(self, ip: str, now_s: float) -> float:
        """Count a connection of an address; return by how much it came too early, uncounted."""
        levels = self._levels.get(CONNECTION_CREATION_RATE)
        if levels is None:
            return 0.0
        address = ip_address(ip) or ip
        rate = ip_quota(levels, address)
        if rate is None:
            return 0.0
        bucket = self._ips.use(address, now_s)
        if bucket is None:
            bucket = TokenBucket(rate, burst_s=self._burst_s, now_s=now_s)
            self._ips.keep(address, bucket, now_s)
        elif bucket.rate != rate:
            bucket.change_rate(rate, now_s)
        early_s = bucket.wait_s(now_s, more=1)
        if not early_s:
            bucket.take(1, now_s)
        return early_s

    def _of_broker(self, now_s: float) -> float:
        rate = self._limit()
        if rate >= UNLIMITED:
            self._broker = None
            return 0.0
        if self._broker is None:
            self._broker = TokenBucket(rate, burst_s=self._burst_s, now_s=now_s)
        elif self._broker.rate != rate:
            self._broker.change_rate(rate, now_s)
        self._broker.take(1, now_s)
        return self._broker.wait_s(now_s)

    def _load(self) -> None:
        self._levels = levels_in(self._configs)
