"""Arguments of statements that are arrays."""

from collections.abc import Sequence

from protocol.ids import Partition


def numbers_as_text(numbers: list[int]) -> str:
    """Return numbers as the text of an array, for a parameter that is cast from text.

    asyncpg asks of every element of a list whether it is a list, too, which takes three times as
    long as writing it down, on the broker's event loop.
    """
    return f"{{{str(numbers)[1:-1]}}}"


def partition_columns(partitions: Sequence[Partition]) -> tuple[list[object], list[int]]:
    """Return topic ids and partition numbers, an array each."""
    return (
        [partition.topic_id for partition in partitions],
        [partition.index for partition in partitions],
    )
