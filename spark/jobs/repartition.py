"""Copy a topic into another one with more (or fewer) partitions, exactly once.

    python -m spark.jobs.repartition --data DIR --topic old --output new --partitions 24

The new topic is made with the configs of the old one, unless it is there and empty; what its
records may not fit is lifted and named, to be set when all is copied. Keys go where Kafka's clients
put them, and keep their order: spark/upkeep/repartitioning.py says what is kept. Without --follow
it ends when all is copied that was there at the start; with it, it goes on. To change over: copy;
stop the producers; run it once more; let everybody use the new topic. Offsets are other ones there,
so committed offsets of groups do not carry over.

Exactly once: a micro-batch is one write of the direct sink, all partitions in one transaction of
Postgres, which also notes (id of the query, number of the batch). The id is that of the checkpoint,
which has the offsets of each batch before it is begun. So, if anything dies
- before that transaction: nothing of the batch is in the new topic; the next run does it, from and
  to the same offsets.
- after it, before Spark has noted it: the next run does it again, and its write is left out.
- a checkpoint was put back from an older copy: the batches that it does not know are in the new
  topic, and would be taken for repeated with what has come since; the job refuses to go on.
- a new checkpoint has a new id: the job refuses to copy into a topic that has records, then.
- one of both topics was made again: the new one has nothing of what the checkpoint says was copied,
  the old one's offsets begin anew. The checkpoint keeps the ids of both, which are looked at before
  each batch, so the job refuses to go on.
A source that was compacted or retained between two tries of a batch changes nothing of this: the
batch was committed as a whole, or it was not.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Final

import typer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark.jobs.checked_query import CheckedBatches, CheckedQuery
from spark.jobs.options import JobFailed, PipelineOptions, Source, WrongUsage, pipeline, run
from spark.jobs.put_back import refuse_put_back
from spark.jobs.queries import Counted, Goal, measured
from spark.jobs.topic_ids import KeptIds, made_again, refuse_other_source
from spark.jobs.topics import read_stream, topic_ids
from spark.log_location import POSTGRES
from spark.session import Package
from spark.sinks.direct import keyed_sink
from spark.sinks.hadoop_files import HadoopFiles
from spark.sources.direct_stream import MAX_OFFSETS
from spark.upkeep.job import job_session
from spark.upkeep.output import counted, note, print_json
from spark.upkeep.repartitioning import Copy, Target, prepare_target, repartitioned
from spark.upkeep.settings import AsJson
from spark.upkeep.stores import UpkeepOrder, open_upkeep
from storage.sink_commits import SinkCommits

BATCH_OFFSETS: Final = 2_000_000
"""Of one micro-batch: what one transaction commits, and what is sorted at a time."""

ANEW: Final = "give another --output and --checkpoint"
START_S: Final = 120.0
POLL_S: Final = 1


@dataclass(slots=True, kw_only=True)
class BatchWriter:
    """Writes one micro-batch after the other; Spark may give it one again.

    Attributes:
        query_id: of the checkpoint; `known` is set once it is there.
    """

    options: PipelineOptions
    partition_count: int
    compression: str
    query_id: str = ""
    known: threading.Event = field(default_factory=threading.Event)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Make it part of the new topic, unless it is."""
        if not self.known.wait(START_S):  # Spark may be here before start() has returned
            raise TimeoutError("the query was started, and nobody says its id")
        place = {name: value for name, value in self.options.log.items() if name != POSTGRES}
        writer = repartitioned(batch, self.partition_count).write.format("streamhouse")
        writer = writer.mode("append").options(**place).option("topic", self.options.output)
        writer = writer.option("kafka.compression.type", self.compression)
        writer = writer.option("idempotencyKey", _key(self.query_id))
        writer.option("idempotencyVersion", str(batch_id)).save()


@pipeline
def repartition(
    options: PipelineOptions,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Of the new topic, to make it.")
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", help="Where the topic leaves it to the producer.")
    ] = "lz4",
    as_json: AsJson = False,
) -> None:
    """Copy a topic into another one with another number of partitions, exactly once."""
    if len(options.topics) != 1:
        raise WrongUsage("one topic is copied at a time: give --topic once")
    copy = Copy(source=options.topics[0], target=options.output, partition_count=partitions)
    packages = (Package.KAFKA,) if options.source is Source.kafka else ()
    with (
        job_session("repartition", options, packages) as session,
        measured(session, options),
    ):
        done = copy_topic(session, options, copy, compression)
    if as_json:
        print_json(
            {
                "from": copy.source,
                "into": copy.target,
                "records": done.records,
                "batches": done.batches,
            }
        )
    note(f"{counted(done.records, 'record')} of {copy.source} read into {copy.target}")


def copy_topic(
    session: SparkSession, options: PipelineOptions, copy: Copy, compression: str = "lz4"
) -> Counted:
    """Copy what there is, or for ever with `follow`; return what this run has done.

    Raises:
        LookupError: the topics cannot be what was asked for.
        JobFailed: the query failed, and a run after this one goes on where it was; or the
            checkpoint is of other topics, or of the other source.
    """
    checkpoint = HadoopFiles(session=session, path=options.checkpoint)
    refuse_other_source(checkpoint, options.source, ANEW)
    refuse_put_back(
        checkpoint,
        lambda query_id: asyncio.run(_last_batch(options, query_id)),
        options.output,
        ANEW,
    )
    is_resumed = checkpoint.exists("metadata")
    target = asyncio.run(_prepare(options, copy, is_resumed=is_resumed))
    for name, value in target.to_set.items():
        change = f"unset {name}" if value is None else f"set {name}={value}"
        note(f"when all is copied, {change} of {copy.target}, as {copy.source} has it")
    count = target.partition_count
    writer = BatchWriter(options=options, partition_count=count, compression=compression)
    limited = options.with_reader(**{MAX_OFFSETS: str(BATCH_OFFSETS)})
    check = partial(_refuse_other_topics, session, options, copy)
    goal, done = Goal.now(limited), Counted()
    while True:
        check()
        one_run = Counted()
        _finish(_start(session, limited, check, writer), one_run)
        done.add(one_run)
        if goal.is_reached(one_run):
            return done


def _key(query_id: str) -> str:
    return f"repartition:{query_id}"


async def _last_batch(options: PipelineOptions, query_id: str) -> int:
    commits = await SinkCommits.open(options.location().postgres)
    try:
        return await commits.last_batch(keyed_sink(_key(query_id)))
    finally:
        await commits.close()


async def _prepare(options: PipelineOptions, copy: Copy, *, is_resumed: bool) -> Target:
    async with open_upkeep(UpkeepOrder(location=options.location())) as stores:
        return await prepare_target(stores.metadata, copy, is_resumed=is_resumed)


def _refuse_other_topics(session: SparkSession, options: PipelineOptions, copy: Copy) -> None:
    """Refuse topics that the checkpoint is not of; names stay when topics are made again.

    Raises:
        JobFailed: one is another one.
    """
    log = replace(options, source=Source.direct, topics=(copy.target,))
    source, target = topic_ids(session, options), topic_ids(session, log)
    kept = KeptIds(checkpoint=HadoopFiles(session=session, path=options.checkpoint))
    before, now = kept.all(), source | target
    anew = f"give another --checkpoint, or remove {options.checkpoint}: it then begins anew"
    if copy.target not in target:
        raise JobFailed(f"{copy.target} was deleted while it was written", fix=anew)
    if copy.source not in source:
        raise JobFailed(
            f"{copy.source} was deleted while it was copied", fix="name one that is there"
        )
    for topic in sorted(before.keys() - now):
        others = " and ".join(sorted(now.keys() - before))
        raise JobFailed(f"{options.checkpoint} is of {topic}, not of {others}", fix=anew)
    for topic in made_again(before, now):
        raise JobFailed(
            f"the topic {topic} was made again: {options.checkpoint} is of the one before",
            fix=anew if topic in target else f"give another --output, too, and {anew}",
        )
    kept.keep(now)


def _start(
    session: SparkSession,
    options: PipelineOptions,
    check: Callable[[], None],
    writer: BatchWriter,
) -> CheckedQuery:
    writer.known.clear()
    batches = CheckedBatches(check=check, write=writer)
    stream = read_stream(session, options).writeStream.foreachBatch(batches)
    query = stream.trigger(**options.trigger()).start(checkpointLocation=options.checkpoint)
    writer.query_id = str(query.id)
    writer.known.set()
    return CheckedQuery(query=query, batches=batches)


def _finish(running: CheckedQuery, one_run: Counted) -> None:
    try:
        while not running.wait(POLL_S):
            one_run.note(running.query)
        one_run.note(running.query)
    except StreamingQueryException as error:
        reason = str(error).partition("\n")[0]
        raise JobFailed(f"the copy has failed: {reason}", fix="run it again") from error
    finally:
        running.query.stop()


if __name__ == "__main__":
    run(repartition)
