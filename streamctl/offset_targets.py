"""Where a group's offsets shall go: one target, worked out for each partition."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from streamctl.cluster import Cluster
from streamctl.errors import Failure, UsageError
from streamctl.group_state import PartitionName
from streamctl.topic_settings import check_topic_name


class TargetKind(StrEnum):
    """The option that names a target."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    OFFSET = "--to-offset"
    TIMESTAMP = "--to-timestamp"
    DURATION = "--by-duration"
    SHIFT = "--shift-by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What was asked for.

    Attributes:
        value: an offset, a number of records, milliseconds since 1970 (TIMESTAMP) or a
            length in milliseconds (DURATION); 0 where the kind says it all.
    """

    kind: TargetKind
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """What becomes of one partition's offset.

    Attributes:
        old: None if the group has none there.
        wanted: what the target asks for.
        new: wanted, or the nearest offset inside of the log.
    """

    topic: str
    partition: int
    old: int | None
    wanted: int
    new: int


def one_target(given: Mapping[TargetKind, int | bool | None]) -> Target:
    """Return the one target that was given. Raises UsageError if there is not exactly one."""
    present = [
        Target(kind=kind, value=int(value))
        for kind, value in given.items()
        if value is not None and value is not False
    ]
    if not present:
        raise UsageError("no target given", fix=f"say one of {', '.join(TargetKind)}")
    if len(present) > 1:
        named = " and ".join(target.kind.value for target in present)
        raise UsageError(f"{named} exclude each other", fix="keep one of them")
    if present[0].kind is TargetKind.OFFSET and present[0].value < 0:
        raise UsageError(
            f"--to-offset {present[0].value} is no offset",
            fix="--shift-by moves back and forth, --to-latest goes to the end",
        )
    return present[0]


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """Return a topic and the partitions named after it, None for all: orders:0,1.

    Raises:
        UsageError: no topic can have that name, or the partitions are not numbers with commas
            between them.
    """
    topic, colon, listed = text.partition(":")
    check_topic_name(topic)
    if not colon:
        return topic, None
    words = listed.split(",")
    if not all(word.isdecimal() for word in words):
        raise UsageError(
            f"--topic {text!r} is not TOPIC or TOPIC:PARTITIONS", fix="for example orders:0,1,2"
        )
    return topic, sorted({int(word) for word in words})


def changes(
    cluster: Cluster,
    topic: str,
    partitions: Iterable[int],
    *,
    target: Target,
    committed: Mapping[PartitionName, int],
    now_ms: int,
) -> list[OffsetChange]:
    """Return the change of each partition of a topic, in their order.

    Raises:
        Failure: --shift-by where there is no offset to shift.
    """
    chosen = sorted(partitions)
    starts = cluster.earliest_offsets(topic, chosen)
    ends = cluster.latest_offsets(topic, chosen)
    old = {at: committed.get((topic, at)) for at in chosen}
    wanted = _wanted(cluster, topic, starts, ends, old, target=target, now_ms=now_ms)
    return [
        OffsetChange(
            topic=topic,
            partition=at,
            old=old[at],
            wanted=wanted[at],
            new=min(max(wanted[at], starts[at]), ends[at]),
        )
        for at in chosen
    ]


def _wanted(
    cluster: Cluster,
    topic: str,
    starts: dict[int, int],
    ends: dict[int, int],
    old: Mapping[int, int | None],
    *,
    target: Target,
    now_ms: int,
) -> dict[int, int]:
    match target.kind:
        case TargetKind.EARLIEST:
            return starts
        case TargetKind.LATEST:
            return ends
        case TargetKind.OFFSET:
            return dict.fromkeys(starts, target.value)
        case TargetKind.TIMESTAMP | TargetKind.DURATION:
            by_time = target.kind is TargetKind.TIMESTAMP
            moment_ms = target.value if by_time else max(0, now_ms - target.value)
            found = cluster.offsets_at(topic, starts, moment_ms)
            return {at: ends[at] if offset is None else offset for at, offset in found.items()}
        case TargetKind.SHIFT:
            return {at: _shifted(topic, at, offset, target.value) for at, offset in old.items()}


def _shifted(topic: str, partition: int, offset: int | None, by: int) -> int:
    if offset is None:
        raise Failure(
            f"the group has no offset in {topic}[{partition}] that could be shifted",
            fix="name the partitions that have one, or use another target",
        )
    return offset + by
