"""Durations and sizes as people write them: 30d, 1d12h, 10GiB, infinite."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

INFINITE: Final = -1  # Kafka's own word for "no limit" in retention.ms and retention.bytes
LARGEST: Final = 2**63 - 1  # both are 64-bit on the wire; 30d does not fit in 32 bits

MILLISECONDS: Final = {  # largest first: the order in which a duration is written
    "w": 7 * 24 * 3_600_000,
    "d": 24 * 3_600_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
BYTES: Final = {
    "b": 1,
    **{prefix + "b": 1000**power for power, prefix in enumerate("kmgtp", start=1)},
    **{prefix + "ib": 1024**power for power, prefix in enumerate("kmgtp", start=1)},
}
DURATION_EXAMPLES: Final = "30d, 12h, 45m, 90s, 1500ms, 2w, 1d12h"
TIME_EXAMPLES: Final = "2025-01-31T12:00:00Z, 2025-01-31, 1738324800000"
SIZE_EXAMPLES: Final = "10GiB, 500MB, 1048576"

_TOO_LARGE: Final = " is larger than Kafka's 64 bits hold"
_DURATION = re.compile(r"(?:[0-9]+(?:ms|w|d|h|m|s))+")
_DURATION_PART = re.compile(r"([0-9]+)(ms|w|d|h|m|s)")
_SIZE = re.compile(r"([0-9]+) ?([kmgtp]?i?b)?", re.IGNORECASE)


def parse_duration(text: str) -> int:
    """Return the milliseconds that `text` stands for, e.g. 2592000000 for 30d.

    Raises:
        ValueError: not a duration, units not in falling order, or more than 64 bits.
    """
    if not _DURATION.fullmatch(text):
        if re.fullmatch(r"[0-9]+", text):
            raise ValueError(f"{text!r} has no unit: say {text}ms, {text}s or {text}d")
        raise ValueError(f"{text!r} is not a duration: write it like {DURATION_EXAMPLES}")
    parts = _DURATION_PART.findall(text)
    order = list(MILLISECONDS)
    ranks = [order.index(unit) for _, unit in parts]
    if ranks != sorted(set(ranks)):
        raise ValueError(
            f"{text!r} has units out of order or twice: write it like {DURATION_EXAMPLES}"
        )
    return _in_range(text, sum(int(count) * MILLISECONDS[unit] for count, unit in parts))


def parse_time(text: str) -> int:
    """Return milliseconds since 1970 in UTC; a time without a zone is UTC, as in Kafka's tools.

    Raises:
        ValueError: neither ISO 8601 nor milliseconds, or before 1970.
    """
    if re.fullmatch(r"[0-9]+", text):
        return _in_range(text, int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time: write it like {TIME_EXAMPLES}") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    if milliseconds < 0:
        raise ValueError(f"{text!r} is before 1970, where Kafka's time begins")
    return milliseconds


def parse_retention(text: str) -> int:
    """Return milliseconds, or INFINITE. Raises ValueError as parse_duration does."""
    return _or_infinite(parse_duration, text)


def parse_size(text: str) -> int:
    """Return bytes, or INFINITE. Raises ValueError as parse_bytes does."""
    return _or_infinite(parse_bytes, text)


def parse_bytes(text: str) -> int:
    """Return bytes; KB is 1000 and KiB is 1024.

    Raises:
        ValueError: not a size, or more than 64 bits.
    """
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a size: write it like {SIZE_EXAMPLES}")
    return _in_range(text, int(match[1]) * BYTES[(match[2] or "b").lower()])


def format_duration(milliseconds: int) -> str:
    """Return the exact duration in days and below; parse_retention reads it back."""
    if milliseconds == INFINITE:
        return "infinite"
    if milliseconds == 0:
        return "0ms"
    written = ""
    for unit, length in MILLISECONDS.items():
        if unit == "w":
            continue  # people compare days: 30d says more than 4w2d
        count, milliseconds = divmod(milliseconds, length)
        written += f"{count}{unit}" if count else ""
    return written


def format_size(size: int) -> str:
    """Return the exact size in the largest unit that divides it; parse_size reads it back."""
    if size == INFINITE:
        return "infinite"
    for unit, length in sorted(BYTES.items(), key=lambda item: item[1], reverse=True):
        if size >= length > 1 and size % length == 0:
            return f"{size // length}{_spelled(unit)}"
    return str(size)


def approximate_size(size: float) -> str:
    """Return about how much that is, for rates and totals: 12.3 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _in_range(text: str, value: int) -> int:
    if value > LARGEST:
        raise ValueError(f"{text!r}{_TOO_LARGE}")
    return value


def _or_infinite(parse: Callable[[str], int], text: str) -> int:
    if text == "infinite":
        return INFINITE
    try:
        return parse(text)
    except ValueError as error:
        said = str(error)
        if said.endswith((DURATION_EXAMPLES, SIZE_EXAMPLES)):
            said += ", infinite"
        elif said.endswith(_TOO_LARGE):
            said += "; say infinite"
        raise ValueError(said) from error


def _spelled(unit: str) -> str:
    return unit.upper().replace("IB", "iB")
