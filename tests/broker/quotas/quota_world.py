"""Quotas in memory, on a clock that the test moves, and connections that they hold up."""

from random import Random

from prometheus_client import CollectorRegistry

from broker.configs.entity_configs import EntityConfigs
from broker.network.client_session import ANONYMOUS, ClientSession
from broker.quotas.quota_connections import UNLIMITED, ConnectionRates
from broker.quotas.quota_entities import QuotaEntity
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_table import QuotaTable
from broker.quotas.quota_use import QuotaUse
from broker.quotas.quotas import Quotas, QuotaWindows
from protocol.codec import RequestHeader
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from tests.support.fakes.metadata import MemoryMetadata

PRODUCE, FETCH, HEARTBEAT = "produce", "fetch", "heartbeat"
HEADER = RequestHeader(api_key=0, api_version=9, correlation_id=1, client_id="etl", body=0)


class FakeConnection:
    """Remembers what it is told."""

    def __init__(self, principal: str = ANONYMOUS) -> None:
        self.session = ClientSession()
        self.session.principal = principal
        self.muted_s = 0.0
        self.dismissed_s: float | None = None
        self.reads_ahead = True

    def mute(self, wait_s: float) -> None:
        self.muted_s = max(self.muted_s, wait_s)

    def postpone(self, wait_s: float) -> None:
        self.mute(wait_s)

    def dismiss(self, after_s: float) -> None:
        self.dismissed_s = after_s

    def read_one_ahead(self) -> None:
        self.reads_ahead = False

    def muted_ms(self) -> int:
        return round(self.muted_s * 1000)


class World:
    """Quotas on a clock of their own."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.store = MemoryMetadata(Random(7))
        self.configs = EntityConfigs(self.store)
        self.registry = CollectorRegistry()
        self.metrics = QuotaMetrics(self.registry)
        self.limit = UNLIMITED
        table = QuotaTable(self.configs)
        self.quotas = Quotas(
            table, windows=QuotaWindows(), metrics=self.metrics, clock=lambda: self.now_s
        )
        self.rates = ConnectionRates(
            table,
            limit=lambda: self.limit,
            burst_s=10,
            longest_s=1,
            metrics=self.metrics,
            clock=lambda: self.now_s,
        )

    async def set(self, parts: dict[str, str | None], **quotas: float | None) -> None:
        changes = {key: None if value is None else str(value) for key, value in quotas.items()}
        entity = Entity(EntityKind.CLIENT_QUOTA, QuotaEntity.of(parts.items()).text)
        await self.configs.alter([EntityChange(entity=entity, changes=changes)])

    def use(
        self, api: str = HEARTBEAT, size: int = 0, *, user: str = ANONYMOUS, client: str = "etl"
    ) -> tuple[QuotaUse | None, FakeConnection]:
        connection = FakeConnection(user)
        return self.quotas.use(connection, client, api, size), connection

    def limited(self, api: str = HEARTBEAT) -> tuple[QuotaUse, FakeConnection]:
        use, connection = self.use(api)
        assert use is not None
        return use, connection

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)
