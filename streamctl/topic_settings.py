"""Topic settings out of options: friendly ones and Kafka's own names, never both for one."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from streamctl.errors import UsageError
from streamctl.output import counted
from streamctl.properties import parse_pairs
from streamctl.units import INFINITE, format_duration, format_size

LONGEST_NAME: Final = 249  # Kafka's limit; a partition's directory had to fit a file name
_NAME_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


class Compression(StrEnum):
    """What a broker does to the batches it stores; `producer` keeps them as they come."""

    PRODUCER = "producer"
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class CleanupPolicy(StrEnum):
    """What happens to old records."""

    DELETE = "delete"
    COMPACT = "compact"
    BOTH = "compact,delete"


def topic_settings(
    *,
    retention_ms: int | None,
    retention_bytes: int | None,
    compression: Compression | None,
    cleanup_policy: CleanupPolicy | None,
    assignments: Iterable[str],
) -> dict[str, str]:
    """Return settings by Kafka's names.

    Raises:
        UsageError: --set is not NAME=VALUE, or says again what it or another option has said.
    """
    friendly = {
        "retention.ms": None if retention_ms is None else str(retention_ms),
        "retention.bytes": None if retention_bytes is None else str(retention_bytes),
        "compression.type": None if compression is None else _kafka_name(compression),
        "cleanup.policy": None if cleanup_policy is None else cleanup_policy.value,
    }
    settings = {name: value for name, value in friendly.items() if value is not None}
    for name, value in parse_pairs("--set", assignments):
        if name in settings:
            raise UsageError(f"{name} is given twice", fix="leave one of them out")
        settings[name] = value
    return settings


def check_topic_name(name: str) -> None:
    """Raise UsageError unless Kafka allows a topic of that name."""
    wrong = sorted(set(name) - _NAME_CHARACTERS)
    if wrong:
        raise UsageError(
            f"topic name {name!r} has {' '.join(map(repr, wrong))} in it",
            fix="use letters, digits, '.', '_' and '-'",
        )
    if not name or name in {".", ".."} or len(name) > LONGEST_NAME:
        raise UsageError(
            f"{name!r} cannot be a topic's name",
            fix=f"use 1 to {LONGEST_NAME} characters, and not only one or two dots",
        )


def readable(name: str, value: str) -> str | None:
    """Return a setting's value as people say it (30d, 10GiB), or None if it is plain already."""
    try:
        number = int(value)
    except ValueError:
        return None
    if number < INFINITE:
        return None
    if name.endswith(".ms"):
        return format_duration(number)
    return format_size(number) if name.endswith(".bytes") and number else None


def summary(partitions: int | None, settings: Mapping[str, str | None] | Mapping[str, str]) -> str:
    """Return what was set, as the end of a sentence: ": 6 partitions, retention.ms 30d"."""
    parts = [] if partitions is None else [counted(partitions, "partition")]
    for name, value in settings.items():
        said = "default" if value is None else readable(name, value) or value
        parts.append(f"{name} {said}")
    return f": {', '.join(parts)}" if parts else ""


def _kafka_name(compression: Compression) -> str:
    return "uncompressed" if compression is Compression.NONE else compression.value
