"""What the broker's configs come to: `--set` and defaults, parsed once into typed fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from broker.broker_config_table import (
    BROKER_CONFIGS,
    FALLBACKS,
    FLAGS,
    NODE_FACTS,
    ORDERED,
)
from broker.config_types import (
    ConfigValue,
    InvalidConfig,
    format_value,
    integer,
    order_problems,
    parse_value,
    strings,
    unknown_name,
)
from broker.topic_config_table import TOPIC_CONFIGS, UNLIMITED, TopicConfigKey
from broker.topic_configs import TopicConfig, TopicValues, topic_config, topic_conflicts

BrokerValues = Mapping[str, ConfigValue | None]
"""The value of every broker config, by name; None where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The broker's configs, fixed from its start on.

    Attributes:
        explicit: what was set, by Kafka's names, in the form that Kafka shows.
        topic_values: the value of every topic config for a topic that sets nothing.
        topic_defaults: the same, typed.
        queued_max_request_bytes: UNLIMITED (-1) is no limit.
    """

    explicit: Mapping[str, str]
    topic_values: TopicValues
    topic_defaults: TopicConfig
    auto_create_topics_enable: bool
    broker_rack: str | None
    connections_max_idle_ms: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    log_cleaner_backoff_ms: int
    log_cleaner_enable: bool
    log_retention_check_interval_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_request_partition_size_limit: int
    num_partitions: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    socket_listen_backlog_size: int
    socket_request_max_bytes: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int


def read_broker_config(settings: Mapping[str, str]) -> BrokerConfig:
    """Return the configs of a broker that is started with `settings`, by Kafka's names.

    Raises:
        InvalidConfig: it names every mistake, so that one look at it is enough.
    """
    values: dict[str, ConfigValue | None] = {
        name: key.default for name, key in BROKER_CONFIGS.items()
    }
    explicit: dict[str, str] = {}
    problems: list[str] = []
    for name, text in settings.items():
        if name in NODE_FACTS:
            problems.append(f"{name} follows from the broker's place in its cluster")
        elif name in FLAGS:
            problems.append(f"{name} is given with {FLAGS[name]}")
        elif name not in BROKER_CONFIGS:
            problems.append(unknown_name("broker", name, BROKER_CONFIGS))
        else:
            try:
                value = parse_value(BROKER_CONFIGS[name], text)
            except InvalidConfig as invalid:
                problems += invalid.problems
            else:
                values[name] = value
                explicit[name] = format_value(value)
    topic_values = {key.name: _topic_default(key, values) for key in TOPIC_CONFIGS.values()}
    if not problems:
        problems = topic_conflicts(topic_values)
        for smaller, larger in ORDERED:
            problems += order_problems(values, smaller, larger)
    if problems:
        raise InvalidConfig(problems)
    return _broker_config(MappingProxyType(explicit), MappingProxyType(topic_values), values)


def _topic_default(key: TopicConfigKey, broker_values: BrokerValues) -> ConfigValue:
    """Return what a topic follows that does not set `key`."""
    if not key.broker_name:
        return key.default
    value = broker_values[key.broker_name]
    if value is not None:
        return value
    for name, factor in FALLBACKS[key.broker_name]:
        value = broker_values[name]
        if value is not None:
            assert isinstance(value, int)
            return UNLIMITED if value == UNLIMITED else value * factor
    raise AssertionError(f"the last fallback of {key.broker_name} has no default")


def _broker_config(
    explicit: Mapping[str, str],
    topic_values: TopicValues,
    values: BrokerValues,
) -> BrokerConfig:
    return BrokerConfig(
        explicit=explicit,
        topic_values=topic_values,
        topic_defaults=topic_config(topic_values),
        auto_create_topics_enable=values["auto.create.topics.enable"] is True,
        broker_rack=str(values["broker.rack"] or "") or None,
        connections_max_idle_ms=integer(values, "connections.max.idle.ms"),
        default_replication_factor=integer(values, "default.replication.factor"),
        delete_topic_enable=values["delete.topic.enable"] is True,
        fetch_max_bytes=integer(values, "fetch.max.bytes"),
        group_consumer_assignors=strings(values, "group.consumer.assignors"),
        group_consumer_heartbeat_interval_ms=integer(
            values, "group.consumer.heartbeat.interval.ms"
        ),
        group_consumer_max_size=integer(values, "group.consumer.max.size"),
        group_consumer_session_timeout_ms=integer(values, "group.consumer.session.timeout.ms"),
        group_initial_rebalance_delay_ms=integer(values, "group.initial.rebalance.delay.ms"),
        group_max_session_timeout_ms=integer(values, "group.max.session.timeout.ms"),
        group_max_size=integer(values, "group.max.size"),
        group_min_session_timeout_ms=integer(values, "group.min.session.timeout.ms"),
        log_cleaner_backoff_ms=integer(values, "log.cleaner.backoff.ms"),
        log_cleaner_enable=values["log.cleaner.enable"] is True,
        log_retention_check_interval_ms=integer(values, "log.retention.check.interval.ms"),
        max_connections=integer(values, "max.connections"),
        max_connections_per_ip=integer(values, "max.connections.per.ip"),
        max_request_partition_size_limit=integer(values, "max.request.partition.size.limit"),
        num_partitions=integer(values, "num.partitions"),
        offset_metadata_max_bytes=integer(values, "offset.metadata.max.bytes"),
        offsets_retention_check_interval_ms=integer(values, "offsets.retention.check.interval.ms"),
        offsets_retention_minutes=integer(values, "offsets.retention.minutes"),
        producer_id_expiration_ms=integer(values, "producer.id.expiration.ms"),
        queued_max_request_bytes=integer(values, "queued.max.request.bytes"),
        socket_listen_backlog_size=integer(values, "socket.listen.backlog.size"),
        socket_request_max_bytes=integer(values, "socket.request.max.bytes"),
        transaction_max_timeout_ms=integer(values, "transaction.max.timeout.ms"),
        transactional_id_expiration_ms=integer(values, "transactional.id.expiration.ms"),
    )
