"""Arguments of statements that are arrays."""

from collections.abc import Sequence

from protocol.ids import Partition


def numbers_as_text(numbers: list[int]) -> str:
    """Return numbers as the text of an array, for a parameter that is cast from text.

    asyncpg asks of every element of a list whether it is a list, too, which takes three times as
    long as writing it down, on the broker's event loop.
    """
    return f"{{{str(numbers)[1:-1]}}}"


def columns_as_texts(columns: list[list[int]]) -> list[str]:
    """Return numbers_as_text() of each column, in one go; there is one at least."""
    return f"{{{str(columns)[2:-2].replace('], [', '}|{')}}}".split("|")


def strings_as_text(strings: Sequence[str]) -> str:
    """Return strings without U+0000 as the text of an array."""
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in strings]
    return "{" + ",".join([f'"{text}"' for text in quoted]) + "}"


def partition_columns(partitions: Sequence[Partition]) -> tuple[list[object], list[int]]:
    """Return topic ids and partition numbers, an array each."""
    return (
        [partition.topic_id for partition in partitions],
        [partition.index for partition in partitions],
    )
