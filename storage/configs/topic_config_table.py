"""The table of topic configs: Apache Kafka 4.3's with every name, type and default, and a few more.

Those that begin with `confluent.` are Confluent Server's for schema validation.

The default is Kafka's; where `broker_name` is not empty, that broker config comes before it.
Configs about files, flushing, replicas and tiers (KIP-405) are accepted and reported, so that tools
and definitions made for Apache Kafka work, and have no effect here: their docs say so.
"""

from dataclasses import dataclass
from typing import Final

from storage.configs.config_docs import TOPIC_DOCS
from storage.configs.config_types import (
    LONG_MAX,
    Check,
    ConfigKey,
    ConfigType,
    ConfigValue,
    OneOf,
    Range,
    replica_list,
)
from storage.configs.subject_strategies import DEFAULT_STRATEGY, STRATEGY_NAMES

PRODUCER_COMPRESSION: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"
LOG_APPEND_TIME: Final = "LogAppendTime"
COMPACT: Final = "compact"
DELETE: Final = "delete"
UNLIMITED: Final = -1
KEY_VALIDATION: Final = "confluent.key.schema.validation"
KEY_STRATEGY: Final = "confluent.key.subject.name.strategy"
VALUE_VALIDATION: Final = "confluent.value.schema.validation"
VALUE_STRATEGY: Final = "confluent.value.subject.name.strategy"

_DAY_MS = 24 * 60 * 60 * 1000
_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_POSITIVE, _NOT_NEGATIVE = Range(minimum=1), Range(minimum=0)
_POLICIES = OneOf((COMPACT, DELETE))
_CODECS = OneOf((UNCOMPRESSED, "zstd", "lz4", "snappy", "gzip", PRODUCER_COMPRESSION))
_STRATEGIES = OneOf(STRATEGY_NAMES)
_TIMESTAMP_TYPES = OneOf(("CreateTime", LOG_APPEND_TIME))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigKey(ConfigKey):
    """A topic config.

    Attributes:
        default: never None.
        broker_name: the broker config that topics without this config follow; empty if none.
    """

    default: ConfigValue
    broker_name: str


def _key(
    kind: ConfigType, name: str, default: ConfigValue, broker_name: str, check: Check | None = None
) -> TopicConfigKey:
    return TopicConfigKey(
        name=name,
        type=kind,
        default=default,
        doc=TOPIC_DOCS[name],
        check=check,
        broker_name=broker_name,
    )


_CLEANER = "log.cleaner."
_TIMESTAMP = "log.message.timestamp."
_KEYS = (
    _key(_LIST, "cleanup.policy", (DELETE,), "log.cleanup.policy", _POLICIES),
    _key(_INT, "compression.gzip.level", -1, "compression.gzip.level", Range(1, 9, also=-1)),
    _key(_INT, "compression.lz4.level", 9, "compression.lz4.level", Range(1, 17)),
    _key(_STRING, "compression.type", PRODUCER_COMPRESSION, "compression.type", _CODECS),
    _key(_INT, "compression.zstd.level", 3, "compression.zstd.level", Range(-131_072, 22)),
    _key(_BOOLEAN, KEY_VALIDATION, False, ""),
    _key(_STRING, KEY_STRATEGY, DEFAULT_STRATEGY, "", _STRATEGIES),
    _key(_BOOLEAN, VALUE_VALIDATION, False, ""),
    _key(_STRING, VALUE_STRATEGY, DEFAULT_STRATEGY, "", _STRATEGIES),
    _key(_LONG, "delete.retention.ms", _DAY_MS, _CLEANER + "delete.retention.ms", _NOT_NEGATIVE),
    _key(_LONG, "file.delete.delay.ms", 60_000, "log.segment.delete.delay.ms", _NOT_NEGATIVE),
    _key(_LONG, "flush.messages", LONG_MAX, "log.flush.interval.messages", _POSITIVE),
    _key(_LONG, "flush.ms", LONG_MAX, "log.flush.interval.ms", _NOT_NEGATIVE),
    _key(_LIST, "follower.replication.throttled.replicas", (), "", replica_list),
    _key(_INT, "index.interval.bytes", 4096, "log.index.interval.bytes", _NOT_NEGATIVE),
    _key(_LIST, "leader.replication.throttled.replicas", (), "", replica_list),
    _key(_LONG, "local.retention.bytes", -2, "log.local.retention.bytes", Range(-2)),
    _key(_LONG, "local.retention.ms", -2, "log.local.retention.ms", Range(-2)),
    _key(_LONG, "max.compaction.lag.ms", LONG_MAX, _CLEANER + "max.compaction.lag.ms", _POSITIVE),
    _key(_INT, "max.message.bytes", 1_048_588, "message.max.bytes", _NOT_NEGATIVE),
    _key(
        _LONG,
        "message.timestamp.after.max.ms",
        60 * 60 * 1000,
        _TIMESTAMP + "after.max.ms",
        _NOT_NEGATIVE,
    ),
    _key(
        _LONG,
        "message.timestamp.before.max.ms",
        LONG_MAX,
        _TIMESTAMP + "before.max.ms",
        _NOT_NEGATIVE,
    ),
    _key(_STRING, "message.timestamp.type", "CreateTime", _TIMESTAMP + "type", _TIMESTAMP_TYPES),
    _key(_DOUBLE, "min.cleanable.dirty.ratio", 0.5, _CLEANER + "min.cleanable.ratio", Range(0, 1)),
    _key(_LONG, "min.compaction.lag.ms", 0, _CLEANER + "min.compaction.lag.ms", _NOT_NEGATIVE),
    _key(_INT, "min.insync.replicas", 1, "min.insync.replicas", _POSITIVE),
    _key(_BOOLEAN, "preallocate", False, "log.preallocate"),
    _key(_BOOLEAN, "remote.log.copy.disable", False, ""),
    _key(_BOOLEAN, "remote.log.delete.on.disable", False, ""),
    _key(_BOOLEAN, "remote.storage.enable", False, ""),
    _key(_LONG, "retention.bytes", UNLIMITED, "log.retention.bytes"),
    _key(_LONG, "retention.ms", 7 * _DAY_MS, "log.retention.ms", Range(-1)),
    _key(_INT, "segment.bytes", 2**30, "log.segment.bytes", Range(2**20)),
    _key(_INT, "segment.index.bytes", 10 * 2**20, "log.index.size.max.bytes", Range(4)),
    _key(_LONG, "segment.jitter.ms", 0, "log.roll.jitter.ms", _NOT_NEGATIVE),
    _key(_LONG, "segment.ms", 7 * _DAY_MS, "log.roll.ms", _POSITIVE),
    _key(_BOOLEAN, "unclean.leader.election.enable", False, "unclean.leader.election.enable"),
)

TOPIC_CONFIGS: Final = {key.name: key for key in _KEYS}
"""All topic configs by name, in the order of their names."""
