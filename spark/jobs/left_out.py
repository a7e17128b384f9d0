"""Topics that are read and a run does not name: a source forgets how far it was in them.

Named again later, such a topic would be read from its beginning, and its records be there twice. A
topic that was deleted is another matter: its records are gone, and the source says so.
"""

from collections.abc import Collection, Mapping

from pyspark.sql import SparkSession

from spark.jobs.options import JobFailed, PipelineOptions
from spark.jobs.topic_ids import KeptIds, made_again, topics_in
from spark.jobs.topics import ids_of_those_there
from spark.sinks.hadoop_files import HadoopFiles


def refuse_left_out(
    session: SparkSession, options: PipelineOptions, checkpoint: HadoopFiles
) -> None:
    """Refuse to go on without topics that a checkpoint is of; before the query starts.

    Raises:
        JobFailed: one is there, and the options do not name it.
    """
    kept = KeptIds(checkpoint=checkpoint)
    left = left_out(session, options, topics_in(checkpoint), kept.all())
    if left:
        raise JobFailed(
            f"{checkpoint.path} is of {' and '.join(left)}, too: left out now and named again"
            " later, records would be read twice",
            fix=f"give {named(left)}, too, or another --output and --checkpoint",
        )


def left_out(
    session: SparkSession,
    options: PipelineOptions,
    topics: Collection[str],
    known: Mapping[str, str],
) -> list[str]:
    """Return which of some topics the options do not name, though they are there as they were.

    Args:
        session: that asks brokers.
        options: which topics are named, and who is asked.
        topics: by name.
        known: their ids; one that was made again is not what it was.
    """
    others = set(topics) - set(options.topics)
    if not others:
        return []
    there = ids_of_those_there(session, options, others)
    return sorted(there.keys() - made_again(known, there))


def named(topics: Collection[str]) -> str:
    """Return the options that name topics."""
    return " ".join(f"--topic {topic}" for topic in topics)
