"""What a topic's configs ask of builder, retention and compaction."""

from dataclasses import dataclass

from protocol.compression import Codec

UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """One topic, by Kafka's names.

    Attributes:
        name, configs: kept in the topic's segments, so that they can be recovered from them.
        segment_bytes: a segment is built when there is so much.
        segment_ms: or when the oldest record that is not built was written so long ago.
        codec: batches are compressed with it; None keeps what the producer chose.
        compression_level: of that codec; None where it has none.
        compact, delete: the cleanup policy.
        retention_ms, retention_bytes: UNLIMITED (-1) is for ever, or all.
        delete_retention_ms: tombstones are kept for so long after they were first compacted.
    """

    name: str
    partition_count: int
    configs: dict[str, str]
    segment_bytes: int
    segment_ms: int
    codec: Codec | None
    compression_level: int | None
    compact: bool
    delete: bool
    retention_ms: int
    retention_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
