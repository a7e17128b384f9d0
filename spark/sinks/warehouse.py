"""A table with its dead letters and its generations, in any of three formats.

    format   table      being made  dead letters of generation N  a swap is
    parquet  OUTPUT/gN  OUTPUT/gM   in the same file sink         a new pointer file
    delta    OUTPUT     OUTPUT_gM   OUTPUT_gN_dead_letters        one commit of OUTPUT
    iceberg  OUTPUT     OUTPUT_gM   OUTPUT_gN_dead_letters        one snapshot of OUTPUT

OUTPUT is a directory or URL; for Iceberg also CATALOG.NAMESPACE.TABLE. Each generation has its own
checkpoint, so that who loads after a swap goes on where the new rows end.

Delta's and Iceberg's swap copies the rows of the new generation: the table keeps its name, its
history and its readers, whatever engine they are. Parquet's copies nothing, and readers have to
ask for the pointer (`Warehouse.rows`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from spark.java_directory import absolute
from spark.sinks.delta_tables import DeltaTable
from spark.sinks.iceberg_tables import IcebergTable, iceberg_at
from spark.sinks.parquet_tables import ParquetTable, Pointer
from spark.sinks.tables import LakeTable
from spark.tables import deadletter

_PLACE: Final = ("_kafka_topic", "_kafka_partition", "_kafka_offset")


class TableFormat(StrEnum):
    """What a table is made of."""

    parquet = "parquet"
    iceberg = "iceberg"
    delta = "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse(ABC):
    """Where rows of a topic and its dead letters are."""

    session: SparkSession

    @abstractmethod
    def generation(self) -> int:
        """Return whose rows are those of the table; 0 if there is no table."""

    @abstractmethod
    def columns(self, generation: int) -> StructType | None:
        """Return the columns of a generation, places included; None if there is none."""

    @abstractmethod
    def partition_by(self, generation: int) -> tuple[str, ...]:
        """Return the columns that make its partitions."""

    @abstractmethod
    def topics(self, generation: int) -> dict[str, str]:
        """Return the ids of the topics that a generation is of, by name, if it tells them."""

    @abstractmethod
    def create(
        self, generation: int, columns: StructType, partition_by: tuple[str, ...] = ()
    ) -> None:
        """Make a generation, or add columns to the one that is there; the first is the table."""

    @abstractmethod
    def rows(self, generation: int) -> DataFrame:
        """Return the rows of a generation."""

    @abstractmethod
    def dead_letters(self, generation: int) -> DataFrame:
        """Return all that did not fit when it came."""

    @abstractmethod
    def redo(self, generation: int, rows: DataFrame) -> None:
        """Add rows that were dead letters, in one commit."""

    @abstractmethod
    def swap(self, generation: int) -> None:
        """Make a generation that was created the table, in one commit."""

    def left(self, generation: int) -> DataFrame:
        """Return the dead letters that have no row yet."""
        return deadletter.left(self.dead_letters(generation), self.rows(generation))


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeWarehouse(Warehouse):
    """Tables of Delta or Iceberg.

    Attributes:
        output: of the options.
        table_format: delta or iceberg.
    """

    output: str
    table_format: TableFormat

    def generation(self) -> int:
        return self.live().generation(self.session)

    def columns(self, generation: int) -> StructType | None:
        return self.rows_table(generation).columns(self.session)

    def partition_by(self, generation: int) -> tuple[str, ...]:
        return self.rows_table(generation).partition_by(self.session)

    def topics(self, generation: int) -> dict[str, str]:
        return self.rows_table(generation).topics(self.session)

    def create(
        self, generation: int, columns: StructType, partition_by: tuple[str, ...] = ()
    ) -> None:
        self.letters_table(generation).create(self.session, deadletter.SCHEMA, ())
        table = self.rows_table(generation)
        table.create(self.session, columns, partition_by)
        table.add_columns(self.session, columns)

    def rows(self, generation: int) -> DataFrame:
        return self.rows_table(generation).read(self.session)

    def dead_letters(self, generation: int) -> DataFrame:
        return self.letters_table(generation).read(self.session)

    def redo(self, generation: int, rows: DataFrame) -> None:
        self.rows_table(generation).add(rows)

    def swap(self, generation: int) -> None:
        made = self.rows_table(generation)
        self.live().replace(
            made.read(self.session),
            generation=generation,
            partition_by=made.partition_by(self.session),
            topics=made.topics(self.session),
        )

    def live(self) -> LakeTable:
        """Return the table."""
        return self._table("")

    def rows_table(self, generation: int, live_generation: int | None = None) -> LakeTable:
        """Return the table, or the one that is being made.

        Args:
            generation: wanted.
            live_generation: whose rows are those of the table, as it was found; None: as it is now.
        """
        found = self.generation() if live_generation is None else live_generation
        is_live = generation == max(found, 1)
        return self.live() if is_live else self._table(f"_g{generation}")

    def letters_table(self, generation: int) -> LakeTable:
        """Return the table of dead letters."""
        return self._table(f"_g{generation}_dead_letters")

    def _table(self, suffix: str) -> LakeTable:
        if self.table_format is TableFormat.delta:
            return DeltaTable.at(self.output + suffix)
        if "/" in self.output:
            return iceberg_at(self.session, self.output + suffix)
        return IcebergTable(name=self.output + suffix)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetWarehouse(Warehouse):
    """A directory of Parquet files."""

    table: ParquetTable

    def generation(self) -> int:
        return self._pointer().generation

    def columns(self, generation: int) -> StructType | None:
        return self._pointer().columns.get(generation)

    def partition_by(self, generation: int) -> tuple[str, ...]:
        assert generation in self._pointer().columns
        return self._pointer().partition_by

    def topics(self, generation: int) -> dict[str, str]:
        return {}  # its files take no other checkpoint than the one that keeps them

    def create(
        self, generation: int, columns: StructType, partition_by: tuple[str, ...] = ()
    ) -> None:
        now = self._pointer()
        there = now.columns.get(generation, StructType())
        added = [one for one in columns if one.name not in there.names]
        if not added:
            return
        all_columns = StructType([*there, *added])
        self._point(
            replace(
                now,
                generation=now.generation or generation,
                columns={**now.columns, generation: all_columns},
                partition_by=now.partition_by or partition_by,
            )
        )

    def rows(self, generation: int) -> DataFrame:
        return self.table.rows(self.session, generation)

    def dead_letters(self, generation: int) -> DataFrame:
        return self.table.dead_letters(self.session, generation)

    def redo(self, generation: int, rows: DataFrame) -> None:
        now = self._pointer()
        name = f"g{generation}_redone_{now.number + 1}"  # of a run that died here: overwritten
        rows.write.mode("overwrite").parquet(f"{self.table.path}/{name}")
        self._point(replace(now, redone=(*now.redone, name)))

    def batches(self, generation: int) -> Callable[[DataFrame, int], None]:
        """Return what writes micro-batches of a generation, each number once."""
        return partial(self.table.append, generation, self.partition_by(generation))

    def swap(self, generation: int) -> None:
        self._point(replace(self._pointer(), generation=generation))

    def _pointer(self) -> Pointer:
        return self.table.pointer(self.session)

    def _point(self, pointer: Pointer) -> None:
        self.table.point(self.session, pointer)


def open_warehouse(session: SparkSession, table_format: TableFormat, output: str) -> Warehouse:
    """Return what is at an output of the command line, whether there is a table yet or not."""
    is_name = table_format is TableFormat.iceberg and "." in output and "/" not in output
    place = output if is_name else absolute(output)
    if table_format is TableFormat.parquet:
        return ParquetWarehouse(session=session, table=ParquetTable(path=place.rstrip("/")))
    return LakeWarehouse(session=session, output=place.rstrip("/"), table_format=table_format)


def positions(warehouse: Warehouse, generation: int) -> dict[tuple[str, int], int]:
    """Return the last offset of each topic and partition, of rows and dead letters together."""
    letters = warehouse.dead_letters(generation)
    places = deadletter.places(letters)
    both = warehouse.rows(generation).select(*_PLACE).unionByName(places)
    last = both.groupBy(*_PLACE[:2]).agg(F.max(_PLACE[2]).alias("last")).collect()
    return {(row[0], row[1]): row["last"] for row in last}
