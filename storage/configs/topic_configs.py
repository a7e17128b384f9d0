"""What a topic's configs come to: its own values, else the broker's, parsed once into typed fields.

Nothing here is read per record: the broker keeps one TopicConfig per topic and makes a new one when
the topic is altered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from storage.configs.config_types import (
    ConfigValue,
    InvalidConfig,
    integer,
    order_problems,
    parse_values,
)
from storage.configs.subject_strategies import SubjectStrategy, strategy_of
from storage.configs.topic_config_table import (
    COMPACT,
    DELETE,
    KEY_STRATEGY,
    KEY_VALIDATION,
    LOG_APPEND_TIME,
    TOPIC_CONFIGS,
    UNLIMITED,
    VALUE_STRATEGY,
    VALUE_VALIDATION,
)

TopicValues = Mapping[str, ConfigValue]
"""The value of every topic config, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic's configs as produce, fetch, retention and compaction need them.

    Attributes:
        max_message_bytes: of one record batch as sent.
        log_append_time: the broker's clock sets all timestamps.
        compact, delete: the cleanup policy; neither keeps every record for ever.
        compression_type: a codec's name, `uncompressed`, or `producer` for what the producer chose.
        compression_level: of that codec; None where it has none.
        retention_ms, retention_bytes: UNLIMITED (-1) is for ever, or all.
        key_schemas, value_schemas: how the subjects are named that the schemas of keys and values
            must be registered under; None where that is not checked.
        validates_schemas: whether either is checked; asked with every batch.
    """

    max_message_bytes: int
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compression_type: str
    compression_level: int | None
    compact: bool
    delete: bool
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    key_schemas: SubjectStrategy | None
    value_schemas: SubjectStrategy | None
    validates_schemas: bool


def read_topic_config(explicit: Mapping[str, str], defaults: TopicValues) -> TopicConfig:
    """Return the configs of a topic that stores `explicit`.

    Args:
        explicit: what the topic sets itself.
        defaults: BrokerConfig.topic_values.

    Raises:
        InvalidConfig: a value is not allowed. What was checked before it was stored never raises.
    """
    return topic_config(read_topic_values(explicit, defaults))


def readable_topic_config(
    explicit: Mapping[str, str], defaults: TopicValues
) -> tuple[TopicConfig, list[str]]:
    """Return the configs of a topic, and what is wrong with those for which its defaults stand in.

    A topic that a later version of the broker has altered is served; nothing may be deleted by it.
    """
    own, problems = parse_values(explicit, TOPIC_CONFIGS, None)
    return topic_config({**defaults, **own}), problems


def read_topic_values(explicit: Mapping[str, str], defaults: TopicValues) -> TopicValues:
    """Return the value of every topic config; names that are not in the table are not looked at.

    Conflicts are not looked at, either: a topic that was fine must not become unusable because the
    broker's defaults change under it.

    Raises:
        InvalidConfig: a value is not allowed; it names all that are not.
    """
    own, problems = parse_values(explicit, TOPIC_CONFIGS, None)
    if problems:
        raise InvalidConfig(problems)
    return {**defaults, **own}


def topic_conflicts(values: TopicValues) -> list[str]:
    """Return what is wrong with values that are each allowed, but not together or not here."""
    problems = order_problems(values, "min.compaction.lag.ms", "max.compaction.lag.ms")
    if values["remote.storage.enable"] is True:
        problems.append(
            "remote.storage.enable must be false: all records lie in object storage anyway"
        )
    return problems


_LEVELS: Final = {
    "gzip": "compression.gzip.level",
    "lz4": "compression.lz4.level",
    "zstd": "compression.zstd.level",
}


def topic_config(values: TopicValues) -> TopicConfig:
    """Return `values`, which are all allowed, as typed fields."""
    policies = values["cleanup.policy"]
    assert isinstance(policies, tuple)
    compression_type = values["compression.type"]
    assert isinstance(compression_type, str)
    level = _LEVELS.get(compression_type)
    ratio = values["min.cleanable.dirty.ratio"]
    assert isinstance(ratio, int | float)
    return TopicConfig(
        max_message_bytes=integer(values, "max.message.bytes"),
        log_append_time=values["message.timestamp.type"] == LOG_APPEND_TIME,
        timestamp_before_max_ms=integer(values, "message.timestamp.before.max.ms"),
        timestamp_after_max_ms=integer(values, "message.timestamp.after.max.ms"),
        compression_type=compression_type,
        compression_level=integer(values, level) if level else None,
        compact=COMPACT in policies,
        delete=DELETE in policies,
        retention_ms=integer(values, "retention.ms"),
        retention_bytes=max(integer(values, "retention.bytes"), UNLIMITED),
        segment_bytes=integer(values, "segment.bytes"),
        segment_ms=integer(values, "segment.ms"),
        delete_retention_ms=integer(values, "delete.retention.ms"),
        min_compaction_lag_ms=integer(values, "min.compaction.lag.ms"),
        max_compaction_lag_ms=integer(values, "max.compaction.lag.ms"),
        min_cleanable_dirty_ratio=float(ratio),
        key_schemas=_strategy(values, KEY_VALIDATION, KEY_STRATEGY),
        value_schemas=_strategy(values, VALUE_VALIDATION, VALUE_STRATEGY),
        validates_schemas=True in (values[KEY_VALIDATION], values[VALUE_VALIDATION]),
    )


def _strategy(values: TopicValues, validation: str, strategy: str) -> SubjectStrategy | None:
    return strategy_of(str(values[strategy])) if values[validation] is True else None
