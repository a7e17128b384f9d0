"""Values of the simple types of Kafka's schemas, as bytes: usual ones, and odd ones."""

import struct
from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")


def pick(random: Random, choices: Sequence[T]) -> T:
    return choices[int(random.random() * len(choices))]


def _packed(layout: str, *values: int) -> tuple[bytes, ...]:
    return tuple(struct.pack(layout, value) for value in values)


_SMALL: Final = (0, 0, 0, 1, 1, 2, 3, 5, 10)

INTEGERS: Final = {
    "int8": _packed(">b", *_SMALL, -1, -2, 127, -128),
    "uint8": _packed(">B", *_SMALL, 255),
    "int16": _packed(">h", *_SMALL, -1, -2, 32_767, -32_768),
    "uint16": _packed(">H", *_SMALL, 65_535, 9092),
    "int32": _packed(">i", *_SMALL, -1, -2, 1000, 30_000, 2**31 - 1, -(2**31)),
    "uint32": _packed(">I", *_SMALL, 2**32 - 1),
    "int64": _packed(">q", *_SMALL, -1, -2, -3, 10**12, 2**63 - 1, -(2**63)),
    "uint64": _packed(">Q", *_SMALL, 2**64 - 1),
}
"""Wire values by kafka_type."""

TEXTS: Final = tuple(
    text.encode()
    for text in (
        *("", "a", "orders", "fuzz-topic", "fuzz-compacted", "fuzz-group", "consumer", "range"),
        *(
            "fuzz-group-2",
            "fuzz-transaction",
            "0",
            "1",
            "compact",
            "cleanup.policy",
            "retention.ms",
        ),
        *("..", "a\0b", "../../etc/passwd", "%2e%2e", "x" * 249, "x" * 250, "\u202e\u0430"),
        *("uniform", "cooperative-sticky", "__consumer_offsets", "User:alice", "*", "ANONYMOUS"),
        *("y" * 4097, "\n", "1e400", "-1", "9" * 40, "(a+)+$", "compression.type", "zstd"),
    )
)
"""Names that mean something to handlers, and texts that should not."""


def some_text(random: Random) -> bytes:
    return pick(random, TEXTS)


def some_bytes(random: Random) -> bytes:
    chosen = random.random()
    return random.randbytes(int(chosen * 24) if chosen < 0.99 else int(random.random() * 4096))


def some_uuid(random: Random) -> bytes:
    chosen = random.random()
    return bytes(16) if chosen < 0.2 else random.randbytes(16)
