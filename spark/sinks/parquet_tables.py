"""Tables of Parquet files: Spark's file sink with its commit log, and a pointer to what is current.

Below the directory of a table:

    _pointer/00000001.json    what the table is; the highest number counts, none is ever changed
    g1/_table=rows/…          rows and dead letters of the first generation, in one file sink: a
    g1/_table=dead_letters/…  micro-batch is in `_spark_metadata` with both or not at all
    g1_redone_1/…             dead letters of it that became rows later

A file sink takes the batches of one query, once each, by their number. So each generation has its
own directory and its own checkpoint, and a swap is one new file of `_pointer`: all or nothing. On
file systems whose rename does not replace, only one of two swaps at the same moment succeeds; on S3
(s3a) both do, and the later one counts.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from spark.sinks.hadoop_files import HadoopFiles
from spark.tables import deadletter
from spark.tables.decoded import places

KIND: Final = "_table"
ROWS: Final = "rows"
DEAD_LETTERS: Final = "dead_letters"
_POINTERS: Final = "_pointer"
_POINTER: Final = re.compile(r"[0-9]{8}\.json")
_COMMIT_LOG: Final = "_spark_metadata"


class PointerMoved(RuntimeError):
    """Another process changed what the table is at the same time; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """What a table is.

    Attributes:
        number: of its file.
        generation: whose rows are those of the table; 0 before there is one.
        columns: of each generation, one that is being made included; places are among them.
        partition_by: columns that make directories.
        redone: directories with rows that were dead letters.
    """

    number: int = 0
    generation: int = 0
    columns: Mapping[int, StructType] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    redone: tuple[str, ...] = ()

    def text(self) -> str:
        """Return what its file holds."""
        return json.dumps(
            {
                "generation": self.generation,
                "columns": {key: one.jsonValue() for key, one in self.columns.items()},
                "partition_by": self.partition_by,
                "redone": self.redone,
            }
        )

    @classmethod
    def of(cls, number: int, text: str) -> "Pointer":
        """Return what a file says."""
        found: dict[str, Any] = json.loads(text)
        columns = found["columns"].items()
        return cls(
            number=number,
            generation=found["generation"],
            columns={int(key): StructType.fromJson(one) for key, one in columns},
            partition_by=tuple(found["partition_by"]),
            redone=tuple(found["redone"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTable:
    """A directory of Parquet files.

    Attributes:
        path: absolute, or a URL.
    """

    path: str

    def directory(self, generation: int) -> str:
        """Return where the file sink of a generation writes."""
        return f"{self.path}/g{generation}"

    def pointer(self, session: SparkSession) -> Pointer:
        """Return what the table is now."""
        files = HadoopFiles(session=session, path=f"{self.path}/{_POINTERS}")
        names = (name for name in files.names("") if _POINTER.fullmatch(name))
        newest = max(names, default=None)
        text = None if newest is None else files.read_text(newest)
        if newest is None or text is None:
            return Pointer()
        return Pointer.of(int(newest.removesuffix(".json")), text)

    def point(self, session: SparkSession, pointer: Pointer) -> None:
        """Make the table what `pointer` says; its number is that of the one that it comes from.

        Raises:
            PointerMoved: another process was first.
        """
        name = f"{pointer.number + 1:08}.json"
        files = HadoopFiles(session=session, path=f"{self.path}/{_POINTERS}")
        try:
            files.write_text(name, pointer.text())
        except FileExistsError as error:
            raise PointerMoved(f"{self.path} was changed by another process meanwhile") from error

    def rows(self, session: SparkSession, generation: int) -> DataFrame:
        """Return the rows of a generation, with those that were dead letters."""
        pointer = self.pointer(session)
        columns = pointer.columns[generation]
        rows = self._kind(session, generation, ROWS, columns)
        mine = f"g{generation}_"
        for name in (one for one in pointer.redone if one.startswith(mine)):
            redone = session.read.schema(columns).parquet(f"{self.path}/{name}")
            rows = rows.unionByName(redone)
        return rows

    def dead_letters(self, session: SparkSession, generation: int) -> DataFrame:
        """Return the dead letters of a generation, settled ones included."""
        columns = deadletter.SCHEMA
        stored = StructType([StructField(f"_kafka_{one.name}", one.dataType) for one in columns])
        letters = self._kind(session, generation, DEAD_LETTERS, stored)
        return letters.select(*(F.col(f"_kafka_{name}").alias(name) for name in columns.names))

    def append(
        self, generation: int, partition_by: tuple[str, ...], batch: DataFrame, batch_id: int
    ) -> None:
        """Write a micro-batch of `rows_and_dead_letters`, or nothing if it was written before.

        This is what writeStream.format("parquet") does, which lets nobody look before a batch.
        """
        java = batch.sparkSession.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to it
        assert java is not None
        spark = java.org.apache.spark.sql.execution
        sink = spark.streaming.FileStreamSink(
            batch.sparkSession._jsparkSession,  # noqa: SLF001
            self.directory(generation),
            spark.datasources.parquet.ParquetFileFormat(),
            java.PythonUtils.toSeq([KIND, *partition_by]),
            java.PythonUtils.toScalaMap({}),
        )
        sink.addBatch(batch_id, batch._jdf)  # noqa: SLF001

    def has_batches(self, session: SparkSession, generation: int) -> bool:
        """Return whether a query has written into a generation."""
        return HadoopFiles(session=session, path=self.directory(generation)).exists(_COMMIT_LOG)

    def last_batch(self, session: SparkSession, generation: int) -> int:
        """Return the last micro-batch that is in a generation; -1 if none is."""
        files = HadoopFiles(session=session, path=self.directory(generation))
        numbers = (name.removesuffix(".compact") for name in files.names(_COMMIT_LOG))
        return max((int(one) for one in numbers if one.isdigit()), default=-1)

    def _kind(
        self, session: SparkSession, generation: int, kind: str, columns: StructType
    ) -> DataFrame:
        if not self.has_batches(session, generation):
            return session.createDataFrame([], columns)
        stored = StructType([*columns]).add(KIND, "string")
        files = session.read.schema(stored).parquet(self.directory(generation))
        return files.where(F.col(KIND) == kind).select(*columns.names)


def rows_and_dead_letters(decoded: DataFrame) -> DataFrame:
    """Return what one file sink writes of decoded records: a stream that is split is read twice."""
    fits = F.col("reason").isNull()
    return decoded.select(
        "row.*",
        *places(),
        F.when(~fits, F.col("value")).alias("_kafka_value"),
        F.when(~fits, F.col("headers")).alias("_kafka_headers"),
        F.col("reason").alias("_kafka_reason"),
        F.when(fits, ROWS).otherwise(DEAD_LETTERS).alias(KIND),
    )
