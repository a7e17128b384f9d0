"""Records that became no row of a table: what they are, and which of them are left.

A dead letter is settled once the table has a row of its topic, partition and offset: nothing is
deleted to say so, and who looks never sees a moment at which it is in neither or in both.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StructType

_HEADER = StructType().add("key", "string").add("value", "binary")
SCHEMA: Final = (
    StructType()
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("timestamp", "timestamp")
    .add("key", "binary")
    .add("value", "binary")
    .add("headers", ArrayType(_HEADER))
    .add("reason", "string")
)
LEFT_OUT: Final = "left out by the first try, whose rows are in the table"


def dead_letters(decoded: DataFrame) -> DataFrame:
    """Return what `spark.tables.decoded.decode` gave a reason."""
    return decoded.where("reason is not null").select(*SCHEMA.names)


def complement(decoded: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the records that have no row, whatever logic was used when rows were written.

    Args:
        decoded: records with today's reasons.
        rows: of the table, with _kafka_topic, _kafka_partition and _kafka_offset.
    """
    missing = decoded.join(rows, _same_place(decoded, rows), "left_anti")
    reason = F.coalesce("reason", F.lit(LEFT_OUT))
    return missing.withColumn("reason", reason).select(*SCHEMA.names)


def places(letters: DataFrame) -> DataFrame:
    """Return topic, partition and offset as rows of the table name them."""
    names = ("topic", "partition", "offset")
    return letters.select(*(F.col(name).alias(f"_kafka_{name}") for name in names))


def left(letters: DataFrame, rows: DataFrame) -> DataFrame:
    """Return dead letters that the table still has no row for."""
    one_each = letters.dropDuplicates(["topic", "partition", "offset"])
    return one_each.join(rows, _same_place(one_each, rows), "left_anti").select(*SCHEMA.names)


def _same_place(records: DataFrame, rows: DataFrame) -> list[Column]:
    return [
        records["topic"] == rows["_kafka_topic"],
        records["partition"] == rows["_kafka_partition"],
        records["offset"] == rows["_kafka_offset"],
    ]
