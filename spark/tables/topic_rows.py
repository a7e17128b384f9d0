"""A topic as a table of a query: fields of its values as columns, and what Kafka keeps beside them.

Fields come first, as they are called; then _key, _value, _headers, _partition, _offset, _timestamp.
A field called like one of those, or like another one but for capitals, is left to _value. A value
without a field, or that cannot be read, has null there; no record is left out.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from spark.tables.decoded import Values, decode

NAMES: Final = ("_key", "_value", "_headers", "_partition", "_offset", "_timestamp")


def topic_rows(records: DataFrame, values: Values) -> DataFrame:
    """Return a row for each record.

    Args:
        records: of a read with includeHeaders.
        values: which columns there are, and how values hold them.
    """
    is_text = not values.registered or all(text is None for text in values.registered.values())
    if values.registered is None:
        # each field for itself: one that does not fit is null, the others of its record are not
        row = F.from_json(F.col("value").cast("string"), values.columns)
        decoded = records.withColumn("row", row) if len(values.columns) else records
    else:
        decoded = decode(records, values)
    return decoded.select(
        *(F.col("row")[one.name].alias(one.name) for one in values.columns),
        F.col("key").cast("string").alias("_key"),
        F.col("value").cast("string" if is_text else "binary").alias("_value"),
        F.col("headers").alias("_headers"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    )


def field_columns(fields: Iterable[StructField]) -> StructType:
    """Return the fields that can be columns beside those of records, each name once."""
    taken = {name.lower() for name in NAMES}
    columns: list[StructField] = []
    for one in fields:
        if one.name and one.name.lower() not in taken:
            taken.add(one.name.lower())
            columns.append(StructField(one.name, one.dataType))
    return StructType(columns)
