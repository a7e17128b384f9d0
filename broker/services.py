"""What a request handler may use; parts.py makes one for each listener."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker.cluster import Cluster
from broker.configs.broker_configs import BrokerConfig
from broker.configs.config_writes import ConfigWrites
from broker.configs.dynamic_broker_config import DynamicBrokerConfig
from broker.configs.entity_configs import EntityConfigs
from broker.fetch_sessions import FetchSessions
from broker.groups.groups import Groups
from broker.log_dirs import LogDir
from broker.network.memory import MemoryBudget
from broker.quotas.quotas import Quotas
from broker.read_failures import ReadFailures
from broker.record_scans import RecordScans
from broker.schemas.schema_validation import SchemaValidation
from broker.security.audit import Audit
from broker.security.authentication import Authentication
from broker.security.authorizer import Authorizer
from broker.telemetry.telemetry import Telemetry
from broker.topics import Topics
from broker.transactions.producer_ids import ProducerIds
from broker.transactions.transactions import Transactions
from storage.log import Log
from storage.metadata.port import MetadataStore
from storage.usage_counter import UsageCounter


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The versions of one API that ApiVersions names."""

    key: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The broker as handlers see it.

    Attributes:
        node_facts: configs that follow from where this broker is, by name (NODE_FACTS).
        sasl: who lets clients in; None on a listener without SASL.
        advertised: what dispatch can answer, by API key.
        count_error: takes note of an API's name, an error code's, and how often it was answered.
        now_ms: the wall clock, milliseconds since the epoch.
    """

    log: Log
    read_failures: ReadFailures
    fetch_sessions: FetchSessions
    topics: Topics
    metadata: MetadataStore
    cluster: Cluster
    groups: Groups
    transactions: Transactions
    dynamic_config: DynamicBrokerConfig
    node_facts: Mapping[str, str]
    entity_configs: EntityConfigs
    config_writes: ConfigWrites
    log_dir: LogDir
    producer_ids: ProducerIds
    quotas: Quotas
    record_scans: RecordScans
    schemas: SchemaValidation
    memory: MemoryBudget
    usage: UsageCounter
    telemetry: Telemetry
    authorizer: Authorizer
    sasl: Authentication | None
    audit: Audit
    advertised: Mapping[int, ApiRange]
    count_error: Callable[[str, str, int], None]
    now_ms: Callable[[], int]

    @property
    def config(self) -> BrokerConfig:
        """Return the broker's configs as they are now."""
        return self.dynamic_config.current
