"""What the broker's configs come to: what is set and defaults, parsed once into typed fields.

A config's value comes from the first place that has one: set while the broker runs for this broker,
or for the whole cluster (KIP-226), set at its start (`--set`), the default. What an earlier version
has let be set of one broker, and is of CLUSTER_ONLY, does not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from broker.configs.broker_config_table import BROKER_CONFIGS, ORDERED
from broker.configs.broker_settings import (
    dynamic_name_problem,
    shown,
    static_name_problem,
)
from broker.schemas.schema_config import SchemaConfig, schema_config
from broker.security.security_config import SecurityConfig, security_config
from storage.configs.cluster_config_table import (
    CLUSTER_ONLY,
    DYNAMIC_CONFIGS,
    BrokerValues,
    topic_defaults,
)
from storage.configs.config_types import (
    ConfigValue,
    InvalidConfig,
    integer,
    order_problems,
    parse_values,
    strings,
)
from storage.configs.topic_configs import TopicConfig, TopicValues, topic_config, topic_conflicts

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The broker's configs in force.

    Attributes:
        explicit: what was set at its start, by Kafka's names, in the form that Kafka shows.
        cluster_wide: likewise, what is set while it runs, of the whole cluster.
        own: likewise, of this broker alone.
        conflicts: what is wrong with values that are each allowed, but not together.
        topic_values: the value of every topic config for a topic that sets nothing.
        topic_defaults: the same, typed.
        connections_max_idle_ms, queued_max_request_bytes: UNLIMITED (-1) is no limit.
    """

    explicit: Mapping[str, str]
    cluster_wide: Mapping[str, str]
    own: Mapping[str, str]
    conflicts: tuple[str, ...]
    topic_values: TopicValues
    topic_defaults: TopicConfig
    auto_create_topics_enable: bool
    broker_rack: str | None
    connections_max_idle_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    log_cleaner_backoff_ms: int
    log_cleaner_enable: bool
    log_retention_check_interval_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_request_partition_size_limit: int
    num_partitions: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    schemas: SchemaConfig
    security: SecurityConfig
    quota_window_num: int
    quota_window_size_seconds: int
    socket_listen_backlog_size: int
    socket_request_max_bytes: int
    telemetry_max_bytes: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int


def read_broker_config(
    settings: Mapping[str, str],
    *,
    cluster_wide: Mapping[str, str] = _NOTHING,
    own: Mapping[str, str] = _NOTHING,
) -> BrokerConfig:
    """Return the configs of a broker that is started with `settings`, by Kafka's names.

    Args:
        settings: of its start.
        cluster_wide: what is set while it runs, of the whole cluster.
        own: what is set while it runs, of this broker alone.

    Raises:
        InvalidConfig: it names every mistake, so that one look at it is enough.
    """
    config = merge_broker_configs(settings, cluster_wide, own)
    if config.conflicts:
        raise InvalidConfig(config.conflicts)
    return config


def merge_broker_configs(
    settings: Mapping[str, str], cluster_wide: Mapping[str, str], own: Mapping[str, str]
) -> BrokerConfig:
    """Return the same, with its conflicts: places that are each fine may not go together.

    Raises:
        InvalidConfig: it names every value that is not allowed.
    """
    layers, problems = list[dict[str, ConfigValue]](), list[str]()
    for texts, keys, name_problem in (
        (settings, BROKER_CONFIGS, static_name_problem),
        (cluster_wide, DYNAMIC_CONFIGS, dynamic_name_problem),
        (own, DYNAMIC_CONFIGS, dynamic_name_problem),
    ):
        layer, wrong = parse_values(texts, keys, name_problem)
        layers.append(layer)
        problems += wrong
    values: dict[str, ConfigValue | None] = {
        name: key.default for name, key in BROKER_CONFIGS.items()
    }
    of_start, of_cluster, of_broker = layers
    values |= of_start | of_cluster
    values |= {name: value for name, value in of_broker.items() if name not in CLUSTER_ONLY}
    if problems:
        raise InvalidConfig(problems)
    return _broker_config([shown(layer) for layer in layers], topic_defaults(values), values)


def _conflicts(topic_values: TopicValues, values: BrokerValues) -> tuple[str, ...]:
    problems = topic_conflicts(topic_values)
    for smaller, larger in ORDERED:
        problems += order_problems(values, smaller, larger)
    return tuple(problems)


def _broker_config(
    layers: Sequence[Mapping[str, str]],
    topic_values: TopicValues,
    values: BrokerValues,
) -> BrokerConfig:
    explicit, cluster_wide, own = map(MappingProxyType, layers)
    return BrokerConfig(
        explicit=explicit,
        cluster_wide=cluster_wide,
        own=own,
        conflicts=_conflicts(topic_values, values),
        topic_values=MappingProxyType(topic_values),
        topic_defaults=topic_config(topic_values),
        auto_create_topics_enable=values["auto.create.topics.enable"] is True,
        broker_rack=str(values["broker.rack"] or "") or None,
        connections_max_idle_ms=integer(values, "connections.max.idle.ms"),
        controller_quota_window_num=integer(values, "controller.quota.window.num"),
        controller_quota_window_size_seconds=integer(
            values, "controller.quota.window.size.seconds"
        ),
        default_replication_factor=integer(values, "default.replication.factor"),
        delete_topic_enable=values["delete.topic.enable"] is True,
        fetch_max_bytes=integer(values, "fetch.max.bytes"),
        group_consumer_assignors=strings(values, "group.consumer.assignors"),
        group_consumer_heartbeat_interval_ms=integer(
            values, "group.consumer.heartbeat.interval.ms"
        ),
        group_consumer_max_heartbeat_interval_ms=integer(
            values, "group.consumer.max.heartbeat.interval.ms"
        ),
        group_consumer_max_session_timeout_ms=integer(
            values, "group.consumer.max.session.timeout.ms"
        ),
        group_consumer_max_size=integer(values, "group.consumer.max.size"),
        group_consumer_min_heartbeat_interval_ms=integer(
            values, "group.consumer.min.heartbeat.interval.ms"
        ),
        group_consumer_min_session_timeout_ms=integer(
            values, "group.consumer.min.session.timeout.ms"
        ),
        group_consumer_session_timeout_ms=integer(values, "group.consumer.session.timeout.ms"),
        group_initial_rebalance_delay_ms=integer(values, "group.initial.rebalance.delay.ms"),
        group_max_session_timeout_ms=integer(values, "group.max.session.timeout.ms"),
        group_max_size=integer(values, "group.max.size"),
        group_min_session_timeout_ms=integer(values, "group.min.session.timeout.ms"),
        log_cleaner_backoff_ms=integer(values, "log.cleaner.backoff.ms"),
        log_cleaner_enable=values["log.cleaner.enable"] is True,
        log_retention_check_interval_ms=integer(values, "log.retention.check.interval.ms"),
        max_connection_creation_rate=integer(values, "max.connection.creation.rate"),
        max_connections=integer(values, "max.connections"),
        max_connections_per_ip=integer(values, "max.connections.per.ip"),
        max_request_partition_size_limit=integer(values, "max.request.partition.size.limit"),
        num_partitions=integer(values, "num.partitions"),
        offset_metadata_max_bytes=integer(values, "offset.metadata.max.bytes"),
        offsets_retention_check_interval_ms=integer(values, "offsets.retention.check.interval.ms"),
        offsets_retention_minutes=integer(values, "offsets.retention.minutes"),
        producer_id_expiration_ms=integer(values, "producer.id.expiration.ms"),
        queued_max_request_bytes=integer(values, "queued.max.request.bytes"),
        schemas=schema_config(values),
        security=security_config(values),
        quota_window_num=integer(values, "quota.window.num"),
        quota_window_size_seconds=integer(values, "quota.window.size.seconds"),
        socket_listen_backlog_size=integer(values, "socket.listen.backlog.size"),
        socket_request_max_bytes=integer(values, "socket.request.max.bytes"),
        telemetry_max_bytes=integer(values, "telemetry.max.bytes"),
        transaction_max_timeout_ms=integer(values, "transaction.max.timeout.ms"),
        transactional_id_expiration_ms=integer(values, "transactional.id.expiration.ms"),
    )
