"""What a warehouse has, of each format, read from its files by plain Python."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.spark.crash.table_files import (
    delta_batches,
    delta_files,
    iceberg_batches,
    iceberg_files,
    rows_of,
    streamed_batches,
    streamed_files,
)

Row = tuple[int, int, int]  # partition, offset, number
Letter = tuple[int, int, bytes]  # partition, offset, value


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseTables(ABC):
    """A table and its dead letters, of the first generation.

    Attributes:
        output: of the job.
    """

    output: Path

    @property
    def dead_letters(self) -> Path:
        return self.output.with_name(f"{self.output.name}_g1_dead_letters")

    @abstractmethod
    def batches(self) -> int:
        """Return how many micro-batches are in the table of rows."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """Return what became rows."""

    @abstractmethod
    def letters(self) -> list[Letter]:
        """Return what did not."""


class DeltaTables(WarehouseTables):
    def batches(self) -> int:
        return delta_batches(self.output)

    def rows(self) -> list[Row]:
        return rows_of(delta_files(self.output), "_kafka_partition", "_kafka_offset", "number")

    def letters(self) -> list[Letter]:
        return rows_of(delta_files(self.dead_letters), "partition", "offset", "value")


class IcebergTables(WarehouseTables):
    def batches(self) -> int:
        return iceberg_batches(self.output)

    def rows(self) -> list[Row]:
        return rows_of(iceberg_files(self.output), "_kafka_partition", "_kafka_offset", "number")

    def letters(self) -> list[Letter]:
        return rows_of(iceberg_files(self.dead_letters), "partition", "offset", "value")


class ParquetTables(WarehouseTables):
    def batches(self) -> int:
        return streamed_batches(self.output / "g1")

    def rows(self) -> list[Row]:
        return rows_of(self._files("rows"), "_kafka_partition", "_kafka_offset", "number")

    def letters(self) -> list[Letter]:
        columns = ("_kafka_partition", "_kafka_offset", "_kafka_value")
        return rows_of(self._files("dead_letters"), *columns)

    def _files(self, kind: str) -> list[Path]:
        return [
            file for file in streamed_files(self.output / "g1") if f"_table={kind}" in str(file)
        ]


KINDS: Mapping[str, Callable[..., WarehouseTables]] = {
    "delta": DeltaTables,
    "iceberg": IcebergTables,
    "parquet": ParquetTables,
}
