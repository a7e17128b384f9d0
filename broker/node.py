"""The parts of one broker, wired."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from prometheus_client import CollectorRegistry

from broker.api_table import APIS
from broker.broker_set import BrokerSet
from broker.cluster import Cluster
from broker.config import Settings
from broker.configs.broker_configs import BrokerConfig
from broker.configs.config_writes import ConfigWrites
from broker.configs.dynamic_broker_config import DynamicBrokerConfig
from broker.configs.entity_configs import EntityConfigs
from broker.dispatch import Dispatch
from broker.fetch_sessions import FetchSessions
from broker.groups.group_setup import make_groups
from broker.http.cluster_metrics import ClusterMetrics
from broker.http.http_setup import make_http
from broker.http.metrics import (
    BrokerMetrics,
    GroupCollector,
    GroupMetrics,
    PartitionSeries,
)
from broker.large_requests import LargeRequests
from broker.log_dirs import LogDir
from broker.log_setup import make_log
from broker.membership import Members
from broker.message_classes import MessageClasses
from broker.network.addresses import Address, parse_address
from broker.network.listeners import Listener, listeners_config, parse_listener
from broker.network.memory import MemoryBudget
from broker.network.reception import ServerLimits
from broker.network.refused_connections import RefusalLog
from broker.network.server import Server
from broker.quotas.quota_setup import make_quotas
from broker.read_failures import ReadFailures
from broker.record_looks import RecordLooks
from broker.schemas.schema_setup import make_schemas
from broker.security.security_setup import Security
from broker.services import ApiRange, Services
from broker.start_patience import StartPatience
from broker.telemetry.telemetry_setup import make_telemetry
from broker.topics import Topics
from broker.transactions.producer_ids import ProducerIds
from broker.transactions.transaction_setup import make_transactions
from broker.upkeep.upkeep_order import UpkeepOrder
from broker.upkeep.upkeep_process import UpkeepProcess
from storage.metadata.entity_configs import EntityKind
from storage.metadata.port import MetadataStore
from storage.metadata.usage import BROKER_CLIENT
from storage.metrics import StoreCollector
from storage.objects.object_paths import uuid7
from storage.objects.objects_counted import CountedStore
from storage.objects.open_store import store_name
from storage.objects.port import ObjectStore
from storage.objects.store_traffic import StoreTraffic
from storage.usage_counter import UsageCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A broker that serves.

    Attributes:
        bootstrap: the first listener's advertised address.
        http: where health and metrics are.
    """

    bootstrap: Address
    http: Address


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def new_object_id() -> UUID:
    return uuid7(wall_ms(), os.urandom(10))


class Broker:
    """The parts of one broker, wired."""

    def __init__(
        self,
        *,
        settings: Settings,
        config: BrokerConfig,
        metadata: MetadataStore,
        objects: ObjectStore,
        traffic: StoreTraffic,
        upkeep: UpkeepOrder | None,
    ) -> None:
        clock = time.monotonic  # finer than uvloop's, which has milliseconds
        registry = CollectorRegistry()
        self._metrics = BrokerMetrics(registry)
        self._settings = settings
        self._listeners = self._advertised = ""
        self._memory = MemoryBudget(config.queued_max_request_bytes)
        self._metadata = metadata
        self.usage = UsageCounter(metadata, client_id=BROKER_CLIENT, now_ms=wall_ms)
        objects = CountedStore(objects, self.usage)
        self.members = Members(metadata, new_object_id())
        self._log_parts = make_log(
            *(settings, metadata, objects, registry),
            clock=clock,
            now_ms=wall_ms,
            new_id=new_object_id,
            name_of=self._topic_name,
        )
        self.log, self.writer = self._log_parts.log, self._log_parts.writer
        self._read_failures = ReadFailures(registry, self._topic_name, clock)
        self._fetch_sessions = FetchSessions()
        self.entity_configs = EntityConfigs(metadata)
        self._config_writes = ConfigWrites()
        self._config = DynamicBrokerConfig(config, self.entity_configs)
        protocols = [parse_listener(text).protocol for text in settings.listen]
        self._refusals = RefusalLog(clock)
        self.security = Security(
            *(config.security, settings.secrets, protocols, self.entity_configs, registry),
            self._refusals,
            clock=clock,
            now_ms=wall_ms,
        )
        self.topics = Topics(metadata, self.log, config)
        self._config.watch(lambda: self.topics.follow(self._config.current))
        self.entity_configs.watch(EntityKind.ACL, lambda _: self.topics.answers.clear())
        self.groups, self.group_upkeep, group_table = make_groups(
            store=metadata,
            topics=self.topics,
            coordinates=self._coordinates,
            config=config,
            entity_configs=self.entity_configs,
            metrics=GroupMetrics(registry),
        )
        self._log_dir = LogDir(metadata, store_name(settings.store_url), clock)
        self._producer_ids = ProducerIds(metadata)
        self._quotas, self._rates = make_quotas(self.entity_configs, self._config, registry, clock)
        self._looks = RecordLooks()
        self._classes = MessageClasses()
        self._large = LargeRequests()
        self._schemas, self._close_schemas = make_schemas(
            config.schemas, settings.schema_registry, self._looks, registry
        )
        self.transactions, self.transaction_upkeep = make_transactions(
            metadata,
            self.log,
            self._producer_ids,
            registry,
            unused_ms=config.transactional_id_expiration_ms,
            now_ms=wall_ms,
        )
        registry.register(GroupCollector(group_table.states))
        self.telemetry, client_series = make_telemetry(
            *(self.entity_configs, settings.metrics, registry),
            max_bytes=config.telemetry_max_bytes,
            clock=clock,
        )
        self._cluster_metrics = ClusterMetrics(
            metadata, lambda: self.members.current, settings.metrics, now_ms=wall_ms, clock=clock
        )
        registry.register(StoreCollector(traffic))
        self.http = make_http(
            *(registry, metadata, objects, traffic, self.usage),
            sources=(
                PartitionSeries(self.log.known_partitions, self.topics.name_of).families,
                client_series.families,
                self._cluster_metrics.families,
            ),
            now_ms=wall_ms,
            token=settings.secrets.http_token,
        )
        self._upkeep: UpkeepProcess | None = None
        if upkeep is not None:
            self._upkeep = UpkeepProcess(upkeep, registry, compacts=config.log_cleaner_enable)
            self.http.details["upkeep"] = self._upkeep.state

    async def bind(self) -> tuple[Server, Sequence[Listener], Running]:
        """Take all addresses, so that one in use is known before anything runs."""
        given = [parse_listener(text) for text in self._settings.listen]
        host, port = parse_address(self._settings.http, listener=False)
        http = Address(host, await self.http.listen(host, port))
        self._metrics.watch_memory(lambda: self._memory.used_bytes)
        server = Server(
            memory=self._memory,
            metrics=self._metrics,
            limits=self._limits(),
            rates=self._rates,
            refusals=self._refusals,
            tls=self.security.tls,
        )
        self.entity_configs.watch(EntityKind.CLIENT_QUOTA, lambda _: server.unmute())

        def follow_limits() -> None:
            server.limits = self._limits()

        self._config.watch(follow_limits)
        ports = [await server.bind(one) for one in given]
        reached = [
            Listener(one.protocol, Address(one.address.host, port))
            for one, port in zip(given, ports, strict=True)
        ]
        self._listeners = listeners_config(reached)
        for at, text in enumerate(self._settings.advertise):
            reached[at] = parse_listener(text)
        return server, reached, Running(bootstrap=reached[0].address, http=http)

    async def join(
        self, reached: Sequence[Listener], *, alone: bool, patience: StartPatience
    ) -> list[Dispatch]:
        """Become a member of the cluster; return a dispatch for each listener."""
        await self.members.join(
            [one.registered for one in reached],
            rack=self._config.current.broker_rack,
            preferred_node_id=self._settings.worker,
            alone=alone,
        )
        self._advertised = listeners_config(reached)
        self._config.identify(self.members.current.membership.node_id)
        cluster_id = await patience.ask(self._metadata.cluster_id)
        clusters = [
            Cluster(
                cluster_id=cluster_id,
                brokers=self.members.current,
                listener=listener,
                protocol=one.protocol,
            )
            for listener, one in enumerate(reached)
        ]
        for cluster in clusters:
            self.members.on_change(cluster.change)
            self.members.on_list(cluster.tell)
        self.members.on_change(self._brokers_changed)
        self.members.on_list(lambda _: self.topics.answers.clear())
        await patience.ask(self.security.start)
        return [
            Dispatch(self._services(cluster), self._metrics, self._classes, self._large)
            for cluster in clusters
        ]

    def _brokers_changed(self, brokers: BrokerSet) -> None:
        self.group_upkeep.membership_changed(brokers.generation)
        self.log.leaders_changed()
        self.log.wake_waiters()  # who waits here for a partition that moved is to be told
        if brokers.is_cut_off:
            self.writer.answer_idempotent()

    def _topic_name(self, topic_id: UUID) -> str:
        return self.topics.name_of(topic_id)

    def _coordinates(self, key: str) -> bool:
        return self.members.current.coordinates(key)

    def _limits(self) -> ServerLimits:
        config = self._config.current
        return ServerLimits(
            max_frame_bytes=config.socket_request_max_bytes,
            max_early_bytes=config.security.max_receive_bytes,
            max_connections=config.max_connections,
            max_connections_per_ip=config.max_connections_per_ip,
            max_idle_s=config.connections_max_idle_ms / 1000,
            backlog=config.socket_listen_backlog_size,
        )

    def _services(self, cluster: Cluster) -> Services:
        """Return what handlers use; clients of a listener are told its advertised address."""
        return Services(
            log=self.log,
            read_failures=self._read_failures,
            fetch_sessions=self._fetch_sessions,
            topics=self.topics,
            metadata=self._metadata,
            cluster=cluster,
            groups=self.groups,
            transactions=self.transactions,
            dynamic_config=self._config,
            node_facts={
                "broker.id": str(cluster.node_id),
                "node.id": str(cluster.node_id),
                "listeners": self._listeners,
                "advertised.listeners": self._advertised,
                "log.dirs": self._log_dir.name,
            },
            entity_configs=self.entity_configs,
            config_writes=self._config_writes,
            log_dir=self._log_dir,
            producer_ids=self._producer_ids,
            quotas=self._quotas,
            looks=self._looks,
            schemas=self._schemas,
            memory=self._memory,
            usage=self.usage,
            telemetry=self.telemetry,
            authorizer=self.security.authorizer,
            sasl=self.security.authentication(cluster.listener),
            audit=self.security.audit,
            advertised={key: ApiRange(key, api.low, api.high) for key, api in APIS.items()},
            count_error=self._metrics.error,
            now_ms=wall_ms,
        )

    async def run_upkeep(self) -> None:
        """Keep the upkeep process running, if this broker has one, until cancelled."""
        if self._upkeep is not None:
            await self._upkeep.run()

    async def close(self) -> None:
        await self.http.close()
        await self._cluster_metrics.close()
        await self._close_schemas()
        self._looks.close()
        self._classes.close()
        await self.security.close()
        await self._log_parts.close()
