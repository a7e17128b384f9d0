"""Text of clients in Postgres, whose text cannot hold U+0000.

One odd group id or note of a consumer must not fail the statement that it shares with others. So
U+0001 begins an escape; text without these two characters is stored as it is.
"""

from typing import Final

_TO_STORED: Final = {0x00: "\x010", 0x01: "\x011"}


def to_stored(text: str) -> str:
    """Return what stands for `text` in the database; another text has another."""
    if "\x00" not in text and "\x01" not in text:
        return text
    return text.translate(_TO_STORED)


def from_stored(stored: str) -> str:
    """Return the text that `stored` stands for."""
    if "\x01" not in stored:
        return stored
    return stored.replace("\x010", "\x00").replace("\x011", "\x01")
