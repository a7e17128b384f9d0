"""The broker configs that everybody who works on the log has to read, not brokers only.

They are those that topics follow, what stands in for these, and all else that can be set of the
whole cluster while it runs (KIP-226): what of it cannot be read may be what keeps records.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from storage.configs.config_docs import CLUSTER_DOCS
from storage.configs.config_types import LONG_MAX, Check, ConfigKey, ConfigType, ConfigValue, Range
from storage.configs.topic_config_table import TOPIC_CONFIGS, UNLIMITED, TopicConfigKey
from storage.configs.topic_configs import TopicValues

BrokerValues = Mapping[str, ConfigValue | None]
"""The value of every broker config, by name; None where it has none."""

_INT, _LONG = ConfigType.INT, ConfigType.LONG
_POSITIVE, _NOT_NEGATIVE = Range(1), Range(0)
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_STRICTER: Final = {"log.retention.ms": Range(1, also=-1)}
"""What Kafka checks of a broker config, and not of the topic config that follows it: one topic may
keep nothing (retention.ms=0), but no slip empties all."""

FALLBACKS: Final = {
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
    "log.retention.ms": (("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
    "log.retention.minutes": (("log.retention.hours", 60),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", _HOUR_MS),),
    "log.roll.ms": (("log.roll.hours", _HOUR_MS),),
}
"""Configs without a default of their own: what counts where they are not set, and its factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigKey(ConfigKey):
    """A broker config.

    Attributes:
        dynamic: whether it can be set while the broker runs.
    """

    dynamic: bool


def _key(
    kind: ConfigType,
    name: str,
    default: ConfigValue | None,
    check: Check,
    *,
    dynamic: bool = False,
) -> BrokerConfigKey:
    return BrokerConfigKey(
        name=name,
        type=kind,
        default=default,
        doc=CLUSTER_DOCS[name],
        check=check,
        dynamic=dynamic,
    )


def _topic_default_keys() -> list[BrokerConfigKey]:
    """Return a row for each broker config that topics follow."""
    return [
        BrokerConfigKey(
            name=key.broker_name,
            type=key.type,
            default=None if key.broker_name in FALLBACKS else key.default,
            doc=f"For topics without {key.name}: {key.doc}",
            check=_STRICTER.get(key.broker_name, key.check),
            dynamic=True,
        )
        for key in TOPIC_CONFIGS.values()
        if key.broker_name
    ]


CLUSTER_CONFIGS: Final = {
    key.name: key
    for key in (
        _key(_LONG, "log.cleaner.backoff.ms", 15_000, _NOT_NEGATIVE, dynamic=True),
        _key(_LONG, "log.flush.scheduler.interval.ms", LONG_MAX, _POSITIVE),
        _key(_INT, "log.retention.hours", 168, Range(1, also=-1)),
        _key(_INT, "log.retention.minutes", None, Range(1, also=-1)),
        _key(_INT, "log.roll.hours", 168, _POSITIVE),
        _key(_INT, "log.roll.jitter.hours", 0, _NOT_NEGATIVE),
        _key(_INT, "max.connection.creation.rate", 2**31 - 1, _POSITIVE, dynamic=True),
        _key(_INT, "max.connections", 10_000, _POSITIVE, dynamic=True),
        _key(_INT, "max.connections.per.ip", 1000, _POSITIVE, dynamic=True),
        _key(_INT, "producer.id.expiration.ms", 86_400_000, _POSITIVE, dynamic=True),
        *_topic_default_keys(),
    )
}
"""By name; a part of broker/configs/broker_config_table.py's."""

ONLY_DYNAMIC: Final = {
    name: _key(_LONG, name, None, _NOT_NEGATIVE, dynamic=True)
    for name in (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}
"""Configs that can only be set while the broker runs, and are shown where they are (KIP-73)."""

DYNAMIC_CONFIGS: Final = ONLY_DYNAMIC | {
    name: key for name, key in CLUSTER_CONFIGS.items() if key.dynamic
}
"""All that can be set while the broker runs."""

CLUSTER_ONLY: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "log.cleaner.backoff.ms",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "producer.id.expiration.ms",
    }
)
"""Those of DYNAMIC_CONFIGS that no broker has for itself: upkeep reads them, which works for all.

In Apache Kafka one broker's value is for the logs on its disks. Here no log belongs to a broker.
"""


def topic_defaults(broker_values: BrokerValues) -> TopicValues:
    """Return the value of every topic config for a topic that sets nothing.

    Args:
        broker_values: of each of CLUSTER_CONFIGS at least.
    """
    return {key.name: _topic_default(key, broker_values) for key in TOPIC_CONFIGS.values()}


def _topic_default(key: TopicConfigKey, broker_values: BrokerValues) -> ConfigValue:
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
