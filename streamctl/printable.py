"""Records as people and programs read them; nothing in a record can drive the terminal."""

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import typer

from streamctl.output import Json

NULL: Final = "<null>"
EMPTY: Final = "<empty>"
UNREADABLE_HEADERS: Final = "<headers with a name that is not UTF-8>"

Bytes = bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as it was read.

    Attributes:
        timestamp_ms: since 1970 in UTC; None if the record has none.
        timestamp_type: create, log-append, or none.
        key: None is Kafka's null, which is not the same as no bytes.
        value: None is a tombstone.
        headers: in order; a name may come more than once. None if they cannot be read.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    timestamp_type: str
    key: Bytes
    value: Bytes
    headers: list[tuple[str, Bytes]] | None


def printable(data: Bytes) -> str:
    r"""Return bytes as one safe line: UTF-8 where it is, \xff for other bytes, \n for controls."""
    if data is None:
        return NULL
    if not data:
        return EMPTY
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def printable_text(text: str) -> str:
    """Return a name that a client chose as one safe line."""
    return printable(text.encode("utf-8", "surrogateescape"))


def iso_time(timestamp_ms: int | None) -> str:
    """Return a timestamp as 2025-01-31T12:00:00.123Z, or "-" if there is none to show."""
    if timestamp_ms is None:
        return "-"
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms}ms"  # producers set it freely: it may be past the year 9999
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def as_text(record: Record, *, colours: bool) -> str:
    """Return a record as one line: partition@offset, time, key, value, headers."""
    headers = UNREADABLE_HEADERS
    if record.headers is not None:
        headers = "  ".join(
            f"{printable_text(name)}={printable(value)}" for name, value in record.headers
        )
    place, time = f"{record.partition}@{record.offset}", iso_time(record.timestamp_ms)
    key, value = printable(record.key), printable(record.value)
    if colours:
        place, time = typer.style(place, fg="cyan"), typer.style(time, dim=True)
        key = typer.style(key, dim=True) if not record.key else typer.style(key, fg="yellow")
        value = typer.style(value, dim=True) if not record.value else value
        headers = typer.style(headers, fg="magenta") if headers else ""
    line = f"{place}  {time}  {key}  {value}"
    return f"{line}  {headers}" if headers else line


def as_json(record: Record) -> str:
    """Return a record as one line of JSON.

    Bytes that are UTF-8 are a string, others {"base64": …}, Kafka's null is null.
    """
    return json.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "timestamp_type": record.timestamp_type,
            "timestamp": None if record.timestamp_ms is None else iso_time(record.timestamp_ms),
            "key": json_bytes(record.key),
            "value": json_bytes(record.value),
            "headers": (
                None
                if record.headers is None
                else [{"name": name, "value": json_bytes(value)} for name, value in record.headers]
            ),
        },
        ensure_ascii=False,
    )


def json_bytes(data: Bytes) -> Json:
    """Return bytes as JSON has them: text where they are UTF-8, null for Kafka's null."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
