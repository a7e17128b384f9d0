"""What one broker is made of, wired; node.py has it serve."""

import os
import time
from collections.abc import Mapping
from uuid import UUID

from prometheus_client import CollectorRegistry

from broker.api_table import APIS
from broker.broker_metrics import BrokerMetrics
from broker.cluster import Cluster
from broker.config import Settings
from broker.configs.broker_configs import BrokerConfig
from broker.configs.config_writes import ConfigWrites
from broker.configs.dynamic_broker_config import DynamicBrokerConfig
from broker.configs.entity_configs import EntityConfigs
from broker.dispatch import Dispatch
from broker.fetch_sessions import FetchSessions
from broker.groups.group_metrics import GroupCollector, GroupMetrics
from broker.groups.group_setup import make_groups
from broker.http.cluster_metrics import ClusterMetrics
from broker.http.http_port import HttpServer
from broker.http.http_setup import make_http
from broker.http.partition_series import PartitionSeries
from broker.large_requests import LargeRequests
from broker.log_dirs import LogDir
from broker.log_setup import make_log
from broker.membership import Members
from broker.message_classes import MessageClasses
from broker.network.listeners import parse_listener
from broker.network.memory import MemoryBudget
from broker.network.refused_connections import RefusalLog
from broker.quotas.quota_setup import make_quotas
from broker.read_failures import ReadFailures
from broker.record_scans import RecordScans
from broker.schemas.schema_setup import make_schemas
from broker.security.security_setup import Security
from broker.services import ApiRange, Services
from broker.telemetry.telemetry_setup import make_telemetry
from broker.topics import Topics
from broker.transactions.producer_ids import ProducerIds
from broker.transactions.transaction_setup import make_transactions
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
from storage.wall_clock import now_ms


def _new_object_id() -> UUID:
    return uuid7(now_ms(), os.urandom(10))


_clock = time.monotonic  # finer than uvloop's, which has milliseconds


class Parts:
    """All parts of a broker that has no address yet.

    Attributes:
        config: the broker's own, as they are now.
        rates: of connections, which may be limited.
        refusals: of connections.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        config: BrokerConfig,
        metadata: MetadataStore,
        objects: ObjectStore,
        traffic: StoreTraffic,
    ) -> None:
        self.registry = CollectorRegistry()
        self.metrics = BrokerMetrics(self.registry)
        self.memory = MemoryBudget(config.queued_max_request_bytes)
        self.metadata = metadata
        self.usage = UsageCounter(metadata, client_id=BROKER_CLIENT, now_ms=now_ms)
        counted = CountedStore(objects, self.usage)
        self.members = Members(metadata, _new_object_id())
        self._log_parts = make_log(
            *(settings, metadata, counted, self.registry),
            clock=_clock,
            now_ms=now_ms,
            new_id=_new_object_id,
            name_of=self._topic_name,
        )
        self.log, self.writer = self._log_parts.log, self._log_parts.writer
        self.entity_configs = EntityConfigs(metadata)
        self.config = DynamicBrokerConfig(config, self.entity_configs)
        self.topics = Topics(metadata, self.log, config)
        self.config.watch(lambda: self.topics.follow(self.config.current))
        self.entity_configs.watch(EntityKind.ACL, lambda _: self.topics.answers.clear())
        self._wire_security(settings, config)
        self._wire_coordinators(config)
        self._wire_requests(settings, config)
        self.registry.register(StoreCollector(traffic))
        self.http = self._make_http(settings, counted, traffic)

    def _wire_security(self, settings: Settings, config: BrokerConfig) -> None:
        self.refusals = RefusalLog(_clock)
        protocols = [parse_listener(text).protocol for text in settings.listen]
        self.security = Security(
            *(config.security, settings.secrets, protocols, self.entity_configs, self.registry),
            self.refusals,
            clock=_clock,
            now_ms=now_ms,
        )

    def _wire_coordinators(self, config: BrokerConfig) -> None:
        """Make what groups, producers and transactions need."""
        self._groups, self.group_upkeep, group_table = make_groups(
            store=self.metadata,
            topics=self.topics,
            coordinates=self._coordinates,
            config=config,
            entity_configs=self.entity_configs,
            authorizer=self.security.authorizer,
            metrics=GroupMetrics(self.registry),
        )
        self.registry.register(GroupCollector(group_table.states))
        self._producer_ids = ProducerIds(self.metadata)
        self._transactions, self.transaction_upkeep = make_transactions(
            self.metadata,
            self.log,
            self._producer_ids,
            self.registry,
            unused_ms=config.transactional_id_expiration_ms,
            now_ms=now_ms,
        )

    def _wire_requests(self, settings: Settings, config: BrokerConfig) -> None:
        """Make what else the handlers of requests use."""
        self._classes = MessageClasses()
        self._large = LargeRequests()
        self._read_failures = ReadFailures(self.registry, self._topic_name, _clock)
        self._fetch_sessions = FetchSessions()
        self._config_writes = ConfigWrites()
        self._log_dir = LogDir(self.metadata, store_name(settings.store_url), _clock)
        self._quotas, self.rates = make_quotas(
            self.entity_configs, self.config, self.registry, _clock
        )
        self._record_scans = RecordScans()
        self._schemas, self._close_schemas = make_schemas(
            config.schemas, settings.schema_registry, self._record_scans, self.registry
        )
        self._telemetry, self._client_series = make_telemetry(
            *(self.entity_configs, settings.metrics, self.registry),
            max_bytes=config.telemetry_max_bytes,
            clock=_clock,
        )

    def _make_http(
        self, settings: Settings, objects: ObjectStore, traffic: StoreTraffic
    ) -> HttpServer:
        self._cluster_metrics = ClusterMetrics(
            self.metadata,
            lambda: self.members.current,
            settings.metrics,
            now_ms=now_ms,
            clock=_clock,
        )
        return make_http(
            *(self.registry, self.metadata, objects, traffic, self.usage),
            sources=(
                PartitionSeries(self.log.known_partitions, self.topics.name_of).families,
                self._client_series.families,
                self._cluster_metrics.families,
            ),
            now_ms=now_ms,
            token=settings.secrets.http_token,
        )

    def _topic_name(self, topic_id: UUID) -> str:
        return self.topics.name_of(topic_id)

    def _coordinates(self, key: str) -> bool:
        return self.members.current.coordinates(key)

    def dispatch(self, cluster: Cluster, node_facts: Mapping[str, str]) -> Dispatch:
        """Return what answers the requests of one listener (see Services for `node_facts`)."""
        services = self._services(cluster, node_facts)
        return Dispatch(services, self.metrics, self._classes, self._large)

    def _services(self, cluster: Cluster, node_facts: Mapping[str, str]) -> Services:
        """Return what handlers use; clients of a listener are told its advertised address."""
        return Services(
            log=self.log,
            read_failures=self._read_failures,
            fetch_sessions=self._fetch_sessions,
            topics=self.topics,
            metadata=self.metadata,
            cluster=cluster,
            groups=self._groups,
            transactions=self._transactions,
            dynamic_config=self.config,
            node_facts={**node_facts, "log.dirs": self._log_dir.name},
            entity_configs=self.entity_configs,
            config_writes=self._config_writes,
            log_dir=self._log_dir,
            producer_ids=self._producer_ids,
            quotas=self._quotas,
            record_scans=self._record_scans,
            schemas=self._schemas,
            memory=self.memory,
            usage=self.usage,
            telemetry=self._telemetry,
            authorizer=self.security.authorizer,
            sasl=self.security.authentication(cluster.listener),
            audit=self.security.audit,
            advertised={key: ApiRange(key, api.low, api.high) for key, api in APIS.items()},
            count_error=self.metrics.error,
            now_ms=now_ms,
        )

    async def close(self) -> None:
        await self.http.close()
        await self._cluster_metrics.close()
        await self._close_schemas()
        self._record_scans.close()
        self._classes.close()
        await self.security.close()
        await self._log_parts.close()
