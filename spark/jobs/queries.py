"""Queries of a job: counted, told of in Prometheus, and started until all is read that was there.

Trigger.AvailableNow of brokers' source ends where the topics ended when it began. Of the direct
source Spark makes one batch: after a crash the one that was not done, and never more than
maxOffsetsPerTrigger. So a bounded job asks first where its topics end, and starts its query again
until it has come there. A run that makes no batch is the last one, too: what is missing then is
left out on purpose (failOnDataLoss=false). What is written meanwhile is for the next job.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark.jobs.options import JobFailed, PipelineOptions, Source, WrongUsage
from spark.jobs.task_errors import LIST_TOPICS
from spark.jobs.topics import reader_options
from spark.progress import watched
from spark.sources.choosing import Chooser, UnknownTopic
from spark.sources.cut import TopicPartition
from spark.sources.direct_stream import COMMIT_GROUP, MAX_OFFSETS
from spark.sources.log_index import LogIndex
from spark.sources.read_options import ReadOptions
from spark.sources.stream_offset import StreamOffset


@dataclass(slots=True, kw_only=True)
class Counted:
    """What one run of a query has done so far.

    Attributes:
        last_batch: its number; -1 before the first one.
        end: of the last batch, as its source writes it; empty before.
    """

    batches: int = 0
    records: int = 0
    last_batch: int = -1
    end: str = ""

    def note(self, query: StreamingQuery) -> None:
        """Count what is new; Spark keeps the last hundred, so this is called while it runs."""
        for progress in query.recentProgress:
            if progress.batchId > self.last_batch and "addBatch" in progress.durationMs:
                self.batches += 1
                self.records += int(progress.numInputRows)
                self.last_batch = int(progress.batchId)
                self.end = progress.sources[0].endOffset or ""

    def add(self, later: "Counted") -> None:
        """Count what the next run of the query has done."""
        self.batches += later.batches
        self.records += later.records
        self.last_batch, self.end = later.last_batch, later.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """How far a job goes.

    Attributes:
        ends: one past the last offset of each partition; empty where Spark sees to it.
    """

    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def now(cls, options: PipelineOptions) -> "Goal":
        """Return what there is at this moment.

        Raises:
            WrongUsage: options of the source cannot be, or a topic does not exist.
            MetadataUnavailable: Postgres gave no answer.
        """
        if options.follow or options.source is not Source.direct:
            return cls()
        try:
            return cls(ends=asyncio.run(_ends(options)))
        except UnknownTopic as error:
            raise WrongUsage(str(error), fix=LIST_TOPICS) from error
        except ValueError as error:
            raise WrongUsage(str(error)) from error

    def is_reached(self, counted: Counted) -> bool:
        """Return whether the run that was counted is the last one."""
        if not self.ends or not counted.batches:
            return True
        at = StreamOffset.of(json.loads(counted.end)).positions
        return all(at.get(each, 0) >= end for each, end in self.ends.items())


@contextmanager
def measured(session: SparkSession, options: PipelineOptions) -> Iterator[None]:
    """Tell Prometheus of the queries within the block, if the options say how.

    Raises:
        JobFailed: the port is taken, or the file cannot be written.
    """
    port, textfile = options.metrics_port, options.metrics_file
    if port is None and textfile is None:
        yield
        return
    with ExitStack() as stack:
        try:
            watching = watched(session, port=port, address=options.metrics_host, textfile=textfile)
            exported = stack.enter_context(watching)
        except OSError as error:
            raise JobFailed(
                f"metrics cannot be exported: {error}",
                fix="give another --metrics-port, or a --metrics-file whose directory is there",
            ) from error
        if exported.address is not None:
            sys.stderr.write(f"metrics: http://{exported.address}/metrics\n")
        yield


async def _ends(options: PipelineOptions) -> dict[TopicPartition, int]:
    location = options.location()
    others = (MAX_OFFSETS, COMMIT_GROUP)
    wanted = ReadOptions.of(reader_options(options), streaming=True, others=others)
    async with LogIndex.open(location.postgres) as index:
        chooser = Chooser(index=index, location=location, options=wanted)
        return await chooser.ends(await chooser.partitions())
