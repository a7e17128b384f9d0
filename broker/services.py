"""What a request handler may use; made once by app.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker.broker_configs import BrokerConfig
from broker.cluster import Cluster
from broker.entity_configs import EntityConfigs
from broker.groups import Groups
from broker.memory import MemoryBudget
from broker.producer_ids import ProducerIds
from broker.topics import Topics
from broker.transactions import Transactions
from storage.log import Log
from storage.metadata import MetadataStore
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
        advertised: what dispatch can answer, by API key.
        now_ms: the wall clock, milliseconds since the epoch.
    """

    log: Log
    topics: Topics
    metadata: MetadataStore
    cluster: Cluster
    groups: Groups
    transactions: Transactions
    config: BrokerConfig
    entity_configs: EntityConfigs
    producer_ids: ProducerIds
    memory: MemoryBudget
    usage: UsageCounter
    advertised: Mapping[int, ApiRange]
    now_ms: Callable[[], int]
