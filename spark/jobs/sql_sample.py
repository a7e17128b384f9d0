"""The newest values of a topic that a query finds the names of fields in, as many as fit a driver.

Values come with the first look if they are short. Else it tells how long they are, and a second one
brings the newest of them: a driver has 1 GiB, and holds a text several times while it looks at it.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

SAMPLE_COUNT: Final = 1_000
SAMPLE_BYTES: Final = 8 * 1024 * 1024
_SHORT_BYTES: Final = SAMPLE_BYTES // SAMPLE_COUNT


def newest_values(values: DataFrame) -> list[str]:
    """Return the texts of the newest records, SAMPLE_BYTES at most; a longer one is left out.

    Args:
        values: columns partition, offset and value, a text or null; SAMPLE_COUNT or a few more.
    """
    there = values.where(F.col("value").isNotNull())
    size = F.octet_length("value")
    short = F.when(size <= _SHORT_BYTES, F.col("value"))
    looked = there.select("partition", "offset", size.alias("size"), short.alias("value")).collect()
    if all(row["value"] is not None for row in looked):
        return [row["value"] for row in looked]
    first = first_offsets({(row["partition"], row["offset"]): row["size"] for row in looked})
    wanted = F.lit(False)
    for partition, offset in first.items():
        wanted |= (F.col("partition") == partition) & (F.col("offset") >= offset)
    chosen = there.where(wanted & (size <= SAMPLE_BYTES)).select("value")
    return [row["value"] for row in chosen.collect()]


def first_offsets(sizes: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """Return from which offset on values of each partition are SAMPLE_BYTES together, or less.

    Partitions take turns, each from its last offset backwards; one that has none is left out.

    Args:
        sizes: bytes of values by partition and offset; longer ones than SAMPLE_BYTES do not count.
    """
    turns: list[tuple[int, int, int]] = []
    counts: dict[int, int] = {}
    for partition, offset in sorted(sizes, reverse=True):
        if sizes[partition, offset] <= SAMPLE_BYTES:
            counts[partition] = counts.get(partition, 0) + 1
            turns.append((counts[partition], partition, offset))
    first: dict[int, int] = {}
    total = 0
    for _, partition, offset in sorted(turns):
        total += sizes[partition, offset]
        if total > SAMPLE_BYTES:
            break
        first[partition] = offset
    return first
