"""Queries whose batches are written only while their topics are those that they were."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from spark.jobs.options import JobFailed
from spark.sinks.lake_batches import Superseded, TakenOver

_TOLD: Final = (JobFailed, Superseded, TakenOver)


@dataclass(slots=True, kw_only=True)
class CheckedBatches:
    """Looks before each batch is written; one object for each start of a query.

    Attributes:
        check: raises JobFailed if the batch must not be written.
        write: a batch, by its number.
        error: that ended the query: Spark passes on its text only.
    """

    check: Callable[[], None]
    write: Callable[[DataFrame, int], None]
    error: Exception | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch; Spark calls this, again and again for one until it returned."""
        try:
            self.check()
            self.write(batch, batch_id)
        except _TOLD as error:
            self.error = error
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuery:
    """A query that was started, and its batches."""

    query: StreamingQuery
    batches: CheckedBatches

    def wait(self, timeout_s: int | None = None) -> bool:
        """Return whether the query has ended; without a timeout, once it has.

        Raises:
            JobFailed: a batch was not to be written.
            Superseded: the table was swapped.
            TakenOver: another run loads it now.
            StreamingQueryException: it failed otherwise.
        """
        try:
            ended = self.query.awaitTermination(timeout_s)
        except StreamingQueryException as failed:
            if self.batches.error is not None:
                raise self.batches.error from failed
            raise
        return timeout_s is None or bool(ended)
