"""The ways in which rows of a topic come into Spark; what they add up to may not depend on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

MOST_RECORDS: Final = 120_000  # of a micro-batch

Table = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A format with its options, read as a batch or as a stream.

    Attributes:
        options: of the reader, without the topic.
    """

    session: SparkSession
    format: str
    options: Mapping[str, str]
    streaming: bool

    def result(self, topic: str, table: Table) -> DataFrame:
        """Return a table of all of a topic."""
        if self.streaming:
            return self._streamed(topic, table)
        reader = self.session.read.format(self.format).options(**self.options)
        return table(reader.option("subscribe", topic).load())

    def _streamed(self, topic: str, table: Table) -> DataFrame:
        """Return what a query says at the end; it takes the topic in several micro-batches."""
        name = f"{self.format}_{table.__name__}"
        reader = self.session.readStream.format(self.format).options(**self.options)
        reader = reader.option("maxOffsetsPerTrigger", str(MOST_RECORDS))
        rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        writer = table(rows).writeStream.format("memory").queryName(name).outputMode("complete")
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        assert len([one for one in query.recentProgress if one["numInputRows"]]) > 1
        return self.session.table(name)
