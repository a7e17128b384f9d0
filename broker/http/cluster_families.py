"""What is exported once per cluster, as families of metrics: pure functions of what is known."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from broker.http.exposition import Family, label_text
from storage.metadata.groups import GroupListing
from storage.metadata.progress import NO_TIMESTAMP, GroupProgress, TopicProgress
from storage.metadata.usage import StoredBytes

_PREFIX: Final = "streamhouse_cluster_"

Samples = Iterator[tuple[str, float]]


def cluster_family(name: str, text: str, samples: Iterable[tuple[str, float]]) -> Family:
    """Return a gauge that is exported by one broker."""
    return Family(name=_PREFIX + name, text=text, samples=samples)


def topic_families(topics: Sequence[TopicProgress], stored: StoredBytes | None) -> list[Family]:
    """Return where logs begin and end, and how much of the object store topics take."""

    def offsets(of: Callable[[TopicProgress], Sequence[int]]) -> Samples:
        for one in topics:
            topic = label_text(topic=one.topic)
            for partition, offset in zip(one.partitions, of(one), strict=True):
                yield f'{topic},partition="{partition}"', offset

    sizes = stored.topics if stored is not None else {}
    return [
        cluster_family(
            "partition_log_start_offset",
            "First offset that can be read (low watermark).",
            offsets(lambda one: one.log_start_offsets),
        ),
        cluster_family(
            "partition_high_watermark",
            "One past the last committed record.",
            offsets(lambda one: one.high_watermarks),
        ),
        cluster_family(
            "topic_bytes",
            "Bytes of the topic in the object store.",
            ((label_text(topic=topic), size) for topic, size in sizes.items()),
        ),
    ]


def group_families(groups: Sequence[GroupListing]) -> list[Family]:
    """Return what state groups are in."""
    return [
        cluster_family(
            "group_members",
            "Members of the group.",
            ((label_text(group=one.group_id), one.member_count) for one in groups),
        ),
        cluster_family(
            "group_state",
            "1 for the state that the group is in.",
            ((label_text(group=one.group_id, state=one.state), 1) for one in groups),
        ),
    ]


def lag_families(groups: Sequence[GroupProgress], now_ms: int) -> list[Family]:
    """Return how far groups have come, and how far behind they are."""

    def numbers(of: Callable[[GroupProgress], Sequence[int]]) -> Samples:
        for one in groups:
            where = label_text(group=one.group_id, topic=one.topic)
            for partition, number in zip(one.partitions, of(one), strict=True):
                yield f'{where},partition="{partition}"', number

    def seconds() -> Samples:
        for one in groups:
            where = label_text(group=one.group_id, topic=one.topic)
            for partition, lag, since_ms in zip(
                one.partitions, one.lags, one.unread_since_ms, strict=True
            ):
                if lag and since_ms == NO_TIMESTAMP:
                    continue
                age_ms = max(now_ms - since_ms, 0) if lag else 0
                yield f'{where},partition="{partition}"', age_ms / 1000

    return [
        cluster_family(
            "group_committed_offset",
            "Where the group goes on reading.",
            numbers(lambda one: one.committed_offsets),
        ),
        cluster_family(
            "group_lag",
            "Records that the group has not read.",
            numbers(lambda one: one.lags),
        ),
        cluster_family(
            "group_lag_seconds",
            "Since the oldest record was produced that the group has not read.",
            seconds(),
        ),
    ]
