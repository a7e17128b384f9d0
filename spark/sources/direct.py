"""format("streamhouse"): topics read and written without brokers.

The driver plans from the index in Postgres (spark/sources/planning.py), executors get ranges of
objects from the store (spark/sources/split_reader.py). Columns are those of format("kafka").
What options mean is said in spark/sources/read_options.py, where the log is in
spark/log_location.py.

Spark starts a process of Python for each step before a query, and each imports this module: what
only one of them needs is imported there.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from spark.sources.columns import COLUMNS, HEADERS
from spark.sources.read_options import wants_headers


class StreamHouse(DataSource):
    """What `session.dataSource.register` takes."""

    @classmethod
    def name(cls) -> str:
        return "streamhouse"

    def schema(self) -> str:
        return f"{COLUMNS}, {HEADERS}" if wants_headers(self.options) else COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark.sources.direct_batch import DirectReader  # noqa: PLC0415

        return DirectReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from spark.sources.direct_stream import DirectStreamReader  # noqa: PLC0415

        return DirectStreamReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark.sinks.direct import DirectWriter  # noqa: PLC0415

        return DirectWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from spark.sinks.direct import DirectStreamWriter  # noqa: PLC0415

        return DirectStreamWriter(self.options, schema, overwrite=overwrite)
