"""A job that folds a topic: batch after batch into tables, bounded or going on.

Spark keeps which offsets each batch has, and does a batch again that it has not noted as done.
What a batch needs of those before is in the output (spark/sinks/batch_tables.py), so a batch that
is done again gives the same rows. What happens when something dies is written there. A topic that
is made again begins at offset 0 anew, so its ids are looked at before each batch (topic_ids.py).
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from spark.charts.lag import LagLog
from spark.jobs.checked_query import CheckedBatches, CheckedQuery
from spark.jobs.group_commits import GroupCommits
from spark.jobs.left_out import refuse_left_out
from spark.jobs.options import JobFailed, PipelineOptions
from spark.jobs.put_back import refuse_put_back
from spark.jobs.queries import Counted, Goal
from spark.jobs.topic_ids import KeptIds, keep_or_refuse, refuse_other_source
from spark.jobs.topics import read_stream, topic_ids
from spark.sinks.batch_tables import BatchTables, OtherRun
from spark.sinks.hadoop_files import HadoopFiles

POLL_S = 1
REPORT_S = 10  # between two reports of a run that goes on; they take Spark's time, too
ANEW = "give another --output and --checkpoint to begin anew"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a batch made, by name of the table.

    Attributes:
        rows: final; added to their tables.
        carried: in the place of what the batch before carried.
    """

    rows: Mapping[str, DataFrame]
    carried: Mapping[str, DataFrame]


class Fold(Protocol):
    """What a job computes; no input, no output."""

    @property
    def carried(self) -> Mapping[str, str]:
        """Schemas of the tables that go from one batch to the next."""

    @property
    def rules(self) -> Mapping[str, Any]:
        """What it decides by, as JSON; a run cannot be resumed with other ones."""

    def judge(self, records: DataFrame, carried: Mapping[str, DataFrame]) -> DataFrame:
        """Return what all of a batch is made of; computed once."""

    def step(self, judged: DataFrame, carried: Mapping[str, DataFrame]) -> Outcome:
        """Return what the batch makes of it."""


def no_more(outcome: Outcome, run_id: str, batch: int) -> None:
    """Do nothing with a batch but write its tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """A fold on its way through a topic.

    Attributes:
        also: called with the run's id after a batch's tables are written, and again if the batch
            is done again.
        group: that is told how far the query is; None for none.
        lag: where each progress is noted; None for nowhere.
        report: called every REPORT_S at most while there is news, and at the end.
    """

    session: SparkSession
    options: PipelineOptions
    fold: Fold
    also: Callable[[Outcome, str, int], None] = no_more
    group: GroupCommits | None = None
    lag: LagLog | None = None
    report: Callable[[], None] = field(default=lambda: None)

    def run(self, name: str) -> None:
        """Fold what is there, or go on until the query is stopped.

        Args:
            name: of the query, for metrics.

        Raises:
            JobFailed: output, checkpoint, source and rules do not belong together, or a topic was
                made again.
            StreamingQueryException: a batch failed; a later run does it again.
        """
        tables = BatchTables(session=self.session, path=self.options.output)
        try:
            run_id = tables.claim(self.options.checkpoint, self.fold.rules)
        except OtherRun as error:
            raise JobFailed(str(error)) from error
        refuse_other_source(self._checkpoint(), self.options.source, ANEW)
        refuse_left_out(self.session, self.options, self._checkpoint())
        refuse_put_back(
            self._checkpoint(),
            lambda _query_id: tables.last_batch(self.fold.carried),
            self.options.output,
            ANEW,
        )
        goal = Goal.now(self.options)
        counted = self._run_once(name, run_id)
        while not goal.is_reached(counted):
            counted = self._run_once(name, run_id)
        self.report()

    def _run_once(self, name: str, run_id: str) -> Counted:
        self._refuse_other_topics()
        stream = read_stream(self.session, self.options, are_there=True)
        write = partial(self._fold_batch, run_id)
        batches = CheckedBatches(check=self._refuse_other_topics, write=write)
        writer = stream.writeStream.queryName(name).foreachBatch(batches)
        writer = writer.trigger(**self.options.trigger())
        query = writer.start(checkpointLocation=self.options.checkpoint)
        counted = Counted()
        try:
            self._watch(CheckedQuery(query=query, batches=batches), counted)
        finally:
            query.stop()
        return counted

    def _refuse_other_topics(self) -> None:
        keep_or_refuse(
            KeptIds(checkpoint=self._checkpoint()),
            topic_ids(self.session, self.options),
            self.options.output,
            fix=ANEW,
        )

    def _checkpoint(self) -> HadoopFiles:
        return HadoopFiles(session=self.session, path=self.options.checkpoint)

    def _fold_batch(self, run_id: str, records: DataFrame, batch: int) -> None:
        tables = BatchTables(session=records.sparkSession, path=self.options.output)
        carried = tables.carried(self.fold.carried, batch - 1)
        judged = self.fold.judge(records, carried).persist()
        try:
            outcome = self.fold.step(judged, carried)
            for name, rows in {**outcome.rows, **outcome.carried}.items():
                tables.write(name, rows, batch)
            self.also(outcome, run_id, batch)
        finally:
            judged.unpersist()
        for name in self.fold.carried:
            tables.forget(name, batch - 1)

    def _watch(self, running: CheckedQuery, counted: Counted) -> None:
        noted = ""
        reported_s = time.monotonic()
        ended = False
        while not ended:
            ended = running.wait(POLL_S)
            counted.note(running.query)
            recent = [json.loads(each.json) for each in running.query.recentProgress]
            new = [each for each in recent if each["timestamp"] > noted]
            for progress in new:
                noted = progress["timestamp"]
                self._note(progress)
            if new and time.monotonic() - reported_s > REPORT_S:
                self._report_meanwhile()
                reported_s = time.monotonic()

    def _report_meanwhile(self) -> None:
        """Report; a fold does not end because there is no room for that, or nothing to draw."""
        try:
            self.report()
        except (OSError, ValueError) as error:
            log.warning("no report: %s", error)

    def _note(self, progress: Mapping[str, Any]) -> None:
        if self.lag is not None:
            self.lag.note(progress)
        if self.group is not None:
            self.group.commit(progress)
