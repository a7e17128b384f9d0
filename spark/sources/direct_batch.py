"""A batch read of format("streamhouse"): planned by the driver, done by executors."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark.log_location import LogLocation
from spark.sources.choosing import Chooser
from spark.sources.log_index import LogIndex
from spark.sources.planning import PlanOptions, plan
from spark.sources.pushed import Filter, Pushed
from spark.sources.read_options import ReadOptions
from spark.sources.snapshots import find_as_of, plan_as_of
from spark.sources.split import Split

if TYPE_CHECKING:
    import pyarrow as pa

NO_FILTER: Final = Pushed()


class DirectReader(DataSourceReader):
    """A batch query; options are read where it is planned, so their errors show there."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow what is planned (Spark 4.1+ asks); all filters stay Spark's to apply."""
        self._pushed = Pushed.of(filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        """Return the splits of one snapshot.

        Raises:
            ValueError: an option cannot be.
            DataLoss: what is wanted is not there (any more).
            StorageError: Postgres or the store gave no answer.
        """
        return list(asyncio.run(plan_batch(self._options, self._pushed)))

    def read(self, partition: InputPartition | None) -> "Iterator[pa.RecordBatch]":
        if partition is None:  # there is no split: Spark asks once all the same
            return iter(())
        assert isinstance(partition, Split)
        from spark.sources.split_reader import read_split  # noqa: PLC0415 - only executors need it

        return read_split(partition)


async def plan_batch(options: Mapping[str, str], pushed: Pushed = NO_FILTER) -> list[Split]:
    """Return the splits of a bounded read, all of one snapshot.

    Raises:
        as DirectReader.partitions.
    """
    location = LogLocation.of(options)
    as_of = find_as_of(options)
    read = ReadOptions.of(options) if as_of is None else None
    async with LogIndex.open(location.postgres) as index:
        if read is None:
            return await plan_as_of(index, location, options)
        cut = await Chooser(index=index, location=location, options=read).cut()
        how = PlanOptions.of(read)
        how = replace(how, timestamps_ms=pushed.times(*how.timestamps_ms))
        return await plan(index, location, pushed.narrow(cut), how)
