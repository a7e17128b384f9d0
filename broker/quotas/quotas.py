"""Client quotas as this broker keeps them (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599).

They are per broker, as in Apache Kafka: a client of three brokers gets three times as much. Who has
none costs nothing: as long as no quota is set, a request looks at `Quotas.active` and no further.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.quotas.quota_entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from broker.quotas.quota_levels import client_quota
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_sensors import ClientQuotas, RecentlyUsed, Sensor, Sensors
from broker.quotas.quota_table import QuotaTable
from broker.quotas.quota_use import QuotasInForce, QuotaUse, Throttled

_CLIENT_QUOTAS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindows:
    """Over what time quotas are averaged; by Kafka's names.

    Attributes:
        samples, sample_s: quota.window.num and quota.window.size.seconds.
        mutation_samples, mutation_sample_s: controller.quota.window.num and .size.seconds.
    """

    samples: int = 11
    sample_s: int = 1
    mutation_samples: int = 11
    mutation_sample_s: int = 1

    @property
    def burst_s(self) -> float:
        """Seconds of its rate that a client may use at once: Kafka's whole windows but one."""
        return max(self.samples - 1, 1) * self.sample_s

    @property
    def mutation_burst_s(self) -> float:
        """Likewise of mutations (KIP-599 counts all windows)."""
        return self.mutation_samples * self.mutation_sample_s


class Quotas:
    """The quotas of users and client ids.

    Attributes:
        active: whether any is set.
        table: all that are set, those of addresses, too.
    """

    def __init__(
        self,
        table: QuotaTable,
        *,
        windows: QuotaWindows,
        metrics: QuotaMetrics,
        clock: Callable[[], float],
    ) -> None:
        self.active = False
        self.table = table
        self._windows = windows
        self._clock = clock
        self._in_force = QuotasInForce(
            version=0, longest_s=windows.sample_s, clock=clock, metrics=metrics
        )
        self._sensors = Sensors()
        self._clients: RecentlyUsed[tuple[str, str], ClientQuotas] = RecentlyUsed()
        metrics.watch(self._sensors.all)
        table.watch(self._changed)

    def use(
        self, connection: Throttled, client_id: str, api: str, request_bytes: int
    ) -> QuotaUse | None:
        """Return what counts a request that begins, or None if nothing limits its client."""
        client = self.of_client(connection.session.principal, client_id)
        if not client.limited:
            return None
        return QuotaUse(
            client,
            connection,
            api=api,
            request_bytes=request_bytes,
            in_force=self._in_force,
        )

    def of_client(self, user: str, client_id: str) -> ClientQuotas:
        """Return what limits a client now."""
        now_s, key = self._clock(), (user, client_id)
        known = self._clients.use(key, now_s)
        if known is None or known.version != self._in_force.version:
            # the old one keeps its sensors alive until the new one has them
            known = self._resolve(user, client_id, now_s)
            self._clients.keep(key, known, now_s)
        return known

    def _changed(self) -> None:
        self._in_force.version += 1
        self.active = any(quota in self.table.levels for quota in _CLIENT_QUOTAS)
        if not self.active:
            self._clients.clear()

    def _resolve(self, user: str, client_id: str, now_s: float) -> ClientQuotas:
        windows = self._windows

        def sensor(quota: str, burst_s: float, unit: float = 1.0) -> Sensor | None:
            found = client_quota(self.table.levels.get(quota, {}), user, client_id)
            if found is None:
                return None
            rate = found.rate * unit
            return self._sensors.get(
                quota,
                found.user,
                found.client_id,
                rate=rate,
                burst_s=burst_s,
                forgets=quota != CONTROLLER_MUTATION_RATE,
                now_s=now_s,
            )

        sensors = {
            "produce": sensor(PRODUCER_BYTE_RATE, windows.burst_s),
            "fetch": sensor(CONSUMER_BYTE_RATE, windows.burst_s),
            "request": sensor(REQUEST_PERCENTAGE, windows.burst_s, unit=0.01),
            "mutation": sensor(CONTROLLER_MUTATION_RATE, windows.mutation_burst_s),
        }
        limited = any(one is not None for one in sensors.values())
        return ClientQuotas(version=self._in_force.version, limited=limited, **sensors)
