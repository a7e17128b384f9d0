"""Columns of a DataFrame as records: those of Spark's Kafka sink, and a timestamp.

    key        string or binary; may be left out
    value      string or binary
    headers    array<struct<key: string, value: binary>>; may be left out
    topic      string; unless the option `topic` names one for all
    partition  int; null, or left out: as Kafka's producers choose
    timestamp  timestamp; null, or left out: when the row is written
Other columns are not looked at, as there.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from spark.sinks.direct_options import TOPIC
from spark.sinks.direct_records import Longs, Rows, lengths_of

_KEY, _VALUE, _HEADERS = "key", "value", "headers"
_PARTITION, _TIMESTAMP = "partition", "timestamp"
_WRITTEN_AS: Final = {
    _KEY: "string or binary",
    _VALUE: "string or binary",
    _HEADERS: "array<struct<key: string, value: binary>>",
    TOPIC: "string",
    _PARTITION: "int",
    _TIMESTAMP: "timestamp",
}
_ANY_PARTITION: Final = -1
_HEADER_TYPE: Final = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


class UnfitRows(ValueError):
    """Rows are no records of the topic that they are for; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where records are in rows.

    Attributes:
        places: number of each column that is there, by its name above.
        topic: of all rows; None if a column tells.
    """

    places: dict[str, int]
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> Self:
        """Find the columns of a DataFrame.

        Raises:
            UnfitRows: one is missing, there twice, or of another type.
        """
        places: dict[str, int] = {}
        for number, field in enumerate(schema.fields):
            name = field.name.lower()
            if name not in _WRITTEN_AS:
                continue
            if name in places:
                raise UnfitRows(f"column {name} is there twice")
            if not _fits(name, field.dataType):
                found = field.dataType.simpleString()
                raise UnfitRows(f"column {name} is {found}, it has to be {_WRITTEN_AS[name]}")
            places[name] = number
        if _VALUE not in places:
            raise UnfitRows("there is no column value")
        if topic is None and TOPIC not in places:
            raise UnfitRows("there is no column topic: add it, or set the option topic")
        return cls(places=places, topic=topic)

    def rows(self, batch: pa.RecordBatch, now_ms: int) -> Rows:
        """Return the records of a batch; those without a timestamp are of `now_ms`."""
        timestamps = self._find(batch, _TIMESTAMP)
        if timestamps is None:
            times = np.full(batch.num_rows, now_ms, np.int64)
        else:
            in_us = timestamps.cast(pa.timestamp("us", timestamps.type.tz)).cast(pa.int64())
            missing = pa.scalar(now_ms * 1000, pa.int64())
            times = pc.fill_null(in_us, missing).to_numpy(zero_copy_only=False) // 1000
        keys = self._find(batch, _KEY)
        headers = self._find(batch, _HEADERS)
        if headers is not None and not lengths_of(pc.list_value_length(headers)).any():
            headers = None
        return Rows(
            keys=pa.nulls(batch.num_rows, pa.binary()) if keys is None else keys.cast(pa.binary()),
            values=batch.column(self.places[_VALUE]).cast(pa.binary()),
            headers=None if headers is None else headers.cast(_HEADER_TYPE),
            timestamps_ms=times,
        )

    def topics(self, batch: pa.RecordBatch) -> tuple[list[str], Longs]:
        """Return the topics of a batch, and for each row the number of its topic among them.

        Raises:
            UnfitRows: a row has none.
        """
        if self.topic is not None:
            return [self.topic], np.zeros(batch.num_rows, np.int64)
        column = batch.column(self.places[TOPIC])
        if column.null_count:
            raise UnfitRows("a row has no topic: the column topic is null")
        encoded = column.cast(pa.string()).dictionary_encode()
        numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return encoded.dictionary.to_pylist(), numbers

    def partitions(self, batch: pa.RecordBatch) -> Longs | None:
        """Return the partition that each row asks for, -1 where it does not; None if none does."""
        column = self._find(batch, _PARTITION)
        if column is None or column.null_count == len(column):
            return None
        asked: Longs = pc.fill_null(column.cast(pa.int64()), _ANY_PARTITION).to_numpy()
        if (asked < _ANY_PARTITION).any() or _asks_for_any(column):
            raise UnfitRows("a row has a negative partition")
        return asked

    def _find(self, batch: pa.RecordBatch, name: str) -> pa.Array | None:
        place = self.places.get(name)
        return None if place is None else batch.column(place)


def _asks_for_any(column: pa.Array) -> bool:
    """Return whether a row has -1 itself."""
    return bool(pc.any(pc.equal(column, _ANY_PARTITION)).as_py())


def _fits(name: str, found: DataType) -> bool:
    match name:
        case "key" | "value":
            return isinstance(found, StringType | BinaryType)
        case "topic":
            return isinstance(found, StringType)
        case "partition":
            return isinstance(found, IntegerType)
        case "timestamp":
            return isinstance(found, TimestampType)
        case _:
            return isinstance(found, ArrayType) and _is_header(found.elementType)


def _is_header(found: DataType) -> bool:
    return (
        isinstance(found, StructType)
        and [field.name for field in found.fields] == ["key", "value"]
        and isinstance(found.fields[0].dataType, StringType)
        and isinstance(found.fields[1].dataType, BinaryType)
    )
