"""Record values that name themselves, so that a reader can tell whether every byte is right."""

from typing import Final

from tests.crash.ledger import FOREIGN

LEAST_BYTES: Final = 64
SPREAD_BYTES: Final = 960


def encode(value: int) -> bytes:
    """Return the bytes of a value: its number over and over, 64 to 1023 of them."""
    word = b"%d " % value
    size = LEAST_BYTES + value * 7919 % SPREAD_BYTES
    return (word * (size // len(word) + 1))[:size]


def decode(data: bytes | None) -> int:
    """Return the value that has exactly these bytes; FOREIGN if none has."""
    word = (data or b"").partition(b" ")[0]
    if not word.isdigit():
        return FOREIGN
    return int(word) if encode(int(word)) == data else FOREIGN
