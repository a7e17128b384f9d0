"""Wide values with fields that a table has not, one of each shape.

Their shapes are found out by Python workers (`spark.tables.value_shapes`). One that is wide has to
be there in memory as it is, and what a task has met, but no more of them.
"""

from collections.abc import Collection, Iterator
from functools import partial
from itertools import accumulate

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from spark.tables.value_shapes import has_unknown, parsed, shape_key


def shortest_wide(
    wide: DataFrame, known: Collection[str], short: Collection[str], count: int, most: int
) -> list[str]:
    """Return the shortest value of each shape that has a field without a column.

    Args:
        wide: `text` of the values, which begin objects; read once.
        known: names of the columns.
        short: other values, whose shapes are left out.
        count: of values at most, together with the others.
        most: bytes of all of them together; the longest ones are left out.
    """
    others = {key for text in short if (value := parsed(text)) and (key := shape_key(value))}
    shapes = wide.mapInArrow(partial(_told_apart, frozenset(known)), "shape binary, text string")
    sized = F.struct(F.octet_length("text").alias("size"), "text")
    shortest = shapes.groupBy("shape").agg(F.min(sized).alias("one")).select("shape", "one.*")
    shortest.persist(StorageLevel.DISK_ONLY)
    try:
        found = shortest.select("size", "shape").collect()
        ordered = sorted((row["size"], bytes(row["shape"])) for row in found)
        left = [one for one in ordered if one[1] not in others][: count - len(short)]
        totals = accumulate(size for size, _ in left)
        fitting = [shape for (_, shape), total in zip(left, totals, strict=True) if total <= most]
        return [row["text"] for row in shortest.where(F.col("shape").isin(fitting)).collect()]
    finally:
        shortest.unpersist()


def _told_apart(
    known: Collection[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield values with their shapes, each time that one is shorter than those before."""
    sizes: dict[bytes, int] = {}
    for batch in batches:
        found: list[tuple[bytes, str]] = []
        for cell in batch.column(0):
            text = cell.as_py()
            value = parsed(text)
            if value is None or not has_unknown(value, known):
                continue
            shape = shape_key(value)
            size = cell.as_buffer().size  # bytes
            if size < sizes.get(shape, size + 1):
                sizes[shape] = size
                found.append((shape, text))
        shapes = pa.array([shape for shape, _ in found], pa.binary())
        texts = pa.array([text for _, text in found], pa.string())
        yield pa.RecordBatch.from_arrays([shapes, texts], names=["shape", "text"])
