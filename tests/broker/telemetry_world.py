"""Telemetry in memory, on a clock that the test moves, and clients of it."""

import itertools
from random import Random
from uuid import UUID

from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry

from broker.configs.entity_configs import EntityConfigs
from broker.http.exposition import family_pieces
from broker.http.metrics_config import MetricsConfig
from broker.network.client_session import ClientSession
from broker.refusals import Refusal
from broker.telemetry.telemetry import Telemetry
from broker.telemetry.telemetry_points import PushedMetrics
from broker.telemetry.telemetry_series import ClientSeries
from broker.telemetry.telemetry_wanted import Wanted
from protocol.compression import Codec
from protocol.errors import InvalidRecords
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.otlp import a_gauge, a_number, a_sum, payload

HOST = "10.0.0.1"
MAX_BYTES = 20_000
_ports = itertools.count(5555)


class World:
    """Telemetry with a clock, in memory."""

    def __init__(self, config: MetricsConfig | None = None) -> None:
        self.now_s = 1000.0
        self.configs = EntityConfigs(MemoryMetadata(Random(3)))
        random = Random(4)
        self.series = ClientSeries(
            CollectorRegistry(), config=config or MetricsConfig(), clock=lambda: self.now_s
        )
        self.telemetry = Telemetry(
            self.configs,
            self.series,
            max_bytes=MAX_BYTES,
            new_id=lambda: UUID(bytes=random.randbytes(16), version=4),
            clock=lambda: self.now_s,
        )

    async def subscribe(self, name: str, **configs: str | None) -> None:
        changes = {key.replace("_", "."): value for key, value in configs.items()}
        change = EntityChange(entity=Entity(EntityKind.CLIENT_METRICS, name), changes=changes)
        await self.configs.alter([change])

    async def exported(self) -> list[str]:
        """Return the lines of clients' series, without what tells clients apart."""
        text = b"".join(family_pieces(await self.series.families())).decode()
        return [line for line in text.splitlines() if line.startswith("org_apache_kafka_")]


class Client:
    """A client instance on one connection."""

    def __init__(self, world: World, client_id: str = "app") -> None:
        self.world = world
        self.client_id = client_id
        self.session = ClientSession()
        self.session.software_name, self.session.software_version = "apache-kafka-java", "4.3.1"
        self.instance_id: UUID | None = None
        self.wanted: Wanted | None = None
        self.peer = f"{HOST}:{next(_ports)}"

    def ask(self) -> Wanted:
        self.instance_id, self.wanted = self.world.telemetry.ask(
            self.instance_id, self.client_id, self.peer, self.session
        )
        return self.wanted

    async def push(
        self, data: bytes = b"", *, codec: int = Codec.NONE, terminating: bool = False
    ) -> ErrorCode:
        """Push by what it was asked last; return the error code."""
        assert self.wanted is not None
        pushed = PushedMetrics(
            instance_id=self.instance_id,
            subscription_id=self.wanted.subscription_id,
            codec=codec,
            payload=data,
            terminating=terminating,
        )
        try:
            await self.world.telemetry.push(pushed, self.client_id, self.peer, self.session)
        except Refusal as refusal:
            return refusal.code
        except InvalidRecords:
            return ErrorCode.invalid_record
        return ErrorCode.none


def gauge(value: float, name: str = "org.apache.kafka.g") -> bytes:
    return payload(a_gauge(name, a_number(value)))


def counter(delta: int, name: str = "org.apache.kafka.c") -> bytes:
    return payload(a_sum(name, delta, delta=True))
