"""What options of a write to format("streamhouse") mean. Spark gives names in any case.

postgres, store, data       where the log is (spark/log_location.py)
topic                       for all rows, whatever the column `topic` says
kafka.compression.type      none, gzip, snappy, lz4, zstd, where the topic's compression.type
                            is `producer`; none by default, as of Kafka's producers
batchBytes                  of a record batch before compression; 524288. A record that is larger
                            has one of its own, and max.message.bytes holds, too
objectBytes                 of rows that go into one object; 33554432. A task needs four times as
                            much memory
commitWithin                how long a job may take from its first upload to its commit before
                            uploads are given up: seconds, or a number with s, m, h or d; 24h
idempotencyKey              of a batch write: one that has committed under this key is not done
                            again. A streaming query needs none: its id and batches are known
idempotencyVersion          with a key: which write of it this is, from 0 on; they ascend. One
                            that comes again is left out, one that comes too late is an error
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from protocol.compression import Codec
from spark.log_location import DATA, POSTGRES, STORE

MiB: Final = 1024 * 1024
TOPIC: Final = "topic"
COMPRESSION: Final = "kafka.compression.type"
BATCH_BYTES: Final = "batchBytes"
OBJECT_BYTES: Final = "objectBytes"
COMMIT_WITHIN: Final = "commitWithin"
IDEMPOTENCY_KEY: Final = "idempotencyKey"
IDEMPOTENCY_VERSION: Final = "idempotencyVersion"

CODECS: Final = {codec.name.lower(): codec for codec in Codec}

_OWN: Final = (
    *(POSTGRES, STORE, DATA, TOPIC, COMPRESSION, BATCH_BYTES, OBJECT_BYTES, COMMIT_WITHIN),
    *(IDEMPOTENCY_KEY, IDEMPOTENCY_VERSION),
)
_OF_SPARK: Final = (
    "checkpointLocation",
    "queryName",
    "path",
)  # it hands on what it has used itself
_KNOWN: Final = frozenset(name.lower() for name in (*_OWN, *_OF_SPARK))
_SPAN: Final = re.compile(r"(\d+)([smhd]?)")
_UNITS: Final = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_MOST_OBJECT_BYTES: Final = 256 * MiB  # Arrow has offsets of 31 bits
DEFAULT_BATCH_BYTES: Final = 512 * 1024
DEFAULT_OBJECT_BYTES: Final = 32 * MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of one write, but for where the log is.

    Attributes:
        topic: None if a column tells.
        codec: for topics that leave it to the producer.
        batch_bytes: of a record batch before compression.
        object_bytes: of the rows that make an object.
        commit_within: from an upload to its commit.
        key: None if the write may happen again when it is asked for again.
        version: of the writes under that key.
    """

    topic: str | None = None
    codec: Codec = Codec.NONE
    batch_bytes: int = DEFAULT_BATCH_BYTES
    object_bytes: int = DEFAULT_OBJECT_BYTES
    commit_within: timedelta = timedelta(hours=24)
    key: str | None = None
    version: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return what `options` say.

        Raises:
            ValueError: one is not known, or cannot be; the message names it.
        """
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(name for name in options if name.lower() not in _KNOWN)
        if unknown:
            raise ValueError(
                f"format streamhouse writes without option {', '.join(unknown)};"
                f" it knows {', '.join(_OWN)}"
            )
        key = given.get(IDEMPOTENCY_KEY.lower())
        if key is None and IDEMPOTENCY_VERSION.lower() in given:
            raise ValueError(f"option {IDEMPOTENCY_VERSION} is of writes with {IDEMPOTENCY_KEY}")
        if key == "":
            raise ValueError(f"option {IDEMPOTENCY_KEY} is empty: give it a text, or leave it out")
        return cls(
            topic=given.get(TOPIC),
            codec=_codec(given.get(COMPRESSION, "none")),
            batch_bytes=_number(given, BATCH_BYTES, DEFAULT_BATCH_BYTES, 1024, 64 * MiB),
            object_bytes=_number(
                given, OBJECT_BYTES, DEFAULT_OBJECT_BYTES, 1024, _MOST_OBJECT_BYTES
            ),
            commit_within=_span(given.get(COMMIT_WITHIN.lower(), "24h")),
            key=key,
            version=_number(given, IDEMPOTENCY_VERSION, 0, 0, 2**63 - 1),
        )


def _codec(name: str) -> Codec:
    if name not in CODECS:
        raise ValueError(f"option {COMPRESSION} is one of {', '.join(CODECS)}, not {name!r}")
    return CODECS[name]


def _number(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise ValueError(f"option {name} is a number from {least} to {most}, not {text!r}")
    return int(text)


def _span(text: str) -> timedelta:
    match = _SPAN.fullmatch(text.strip().lower())
    if match is None or int(match[1]) == 0 or len(match[1]) > 6:
        raise ValueError(f"option {COMMIT_WITHIN} is a time like 90m or 24h, not {text!r}")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
