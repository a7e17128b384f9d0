"""What a topic's configs say to who writes to it: the rules that a broker keeps for its producers.

Values come from the topic, else from what is set for all brokers while they run, else from Kafka's
defaults. What a broker was started with (`serve --set`) is known to nobody else: set it for the
topic, or for the cluster, where it has to hold for jobs, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from protocol.compression import Codec
from spark.sinks.direct_options import CODECS
from storage.sink_commits import SinkTopic

_BROKER_NAMES: Final = {
    "cleanup.policy": "log.cleanup.policy",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
}
_VALIDATIONS: Final = ("confluent.key.schema.validation", "confluent.value.schema.validation")
_LEVELS: Final = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}
_GZIP_DEFAULT: Final = "-1"
_HOUR_MS: Final = 60 * 60 * 1000
_FOR_EVER_MS: Final = 2**63 - 1


class TopicNotWritable(ValueError):
    """A topic does not exist, or takes rows only from brokers; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """How batches of a topic have to be.

    Attributes:
        codec, level: what payloads are compressed with; no level is the codec's default.
        max_message_bytes: of a record batch, compressed.
        compact: records need a key.
        log_append_time: timestamps are those of the batch, not of its records.
        before_max_ms, after_max_ms: how far timestamps may be from now.
    """

    topic: SinkTopic
    codec: Codec
    level: int | None
    max_message_bytes: int
    compact: bool
    log_append_time: bool
    before_max_ms: int
    after_max_ms: int

    @classmethod
    def of(cls, topic: SinkTopic, preferred: Codec) -> "TopicRules":
        """Return the rules of a topic.

        Args:
            topic: as Postgres knows it.
            preferred: codec where the topic takes what the producer sends.

        Raises:
            TopicNotWritable: schemas are checked there, which a broker does.
        """
        if any(topic.configs.get(name, "").lower() == "true" for name in _VALIDATIONS):
            raise TopicNotWritable(
                f"topic {topic.name} validates schemas, which brokers do: write to it with"
                ' format("kafka")'
            )
        values = _Values(topic.configs, topic.defaults)
        chosen = values.get("compression.type", "producer")
        codec = {"producer": preferred, "uncompressed": Codec.NONE, **CODECS}[chosen]
        level = values.get(_LEVELS[codec], "") if codec in _LEVELS else ""
        policies = [policy.strip() for policy in values.get("cleanup.policy", "delete").split(",")]
        return cls(
            topic=topic,
            codec=codec,
            level=int(level) if level not in {"", _GZIP_DEFAULT} else None,
            max_message_bytes=int(values.get("max.message.bytes", "1048588")),
            compact="compact" in policies,
            log_append_time=values.get("message.timestamp.type", "CreateTime") == "LogAppendTime",
            before_max_ms=int(values.get("message.timestamp.before.max.ms", str(_FOR_EVER_MS))),
            after_max_ms=int(values.get("message.timestamp.after.max.ms", str(_HOUR_MS))),
        )


class _Values:
    def __init__(self, configs: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        self._configs = configs
        self._defaults = defaults

    def get(self, name: str, otherwise: str) -> str:
        broker_name = _BROKER_NAMES.get(name, name)
        return self._configs.get(name, self._defaults.get(broker_name, otherwise))
