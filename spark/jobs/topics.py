"""Topics as DataFrames, from brokers or from the log itself, as a job's options say.

Both have the columns of Spark's own format("kafka"), headers included.
"""

import re
from collections.abc import Collection
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from spark.jobs.options import PipelineOptions, Source, WrongUsage
from spark.jobs.task_errors import LIST_TOPICS
from spark.jobs.topic_ids import in_hexadecimal
from spark.log_location import POSTGRES
from spark.sources.direct_stream import COMMIT_GROUP, MAX_OFFSETS
from spark.sources.kafka import client_options
from spark.sources.kept_connection import KeptConnection
from spark.sources.log_index import LogIndex

_MISSING: Final = "UnknownTopicOrPartitionException"
_OF_STREAMS: Final = {name.lower() for name in (MAX_OFFSETS, COMMIT_GROUP)}
_STARTING: Final = "startingoffsets"
_LATEST: Final = re.compile(r"^\s*latest\s*$|:\s*-1\s*[,}]", re.IGNORECASE)  # -1 for a partition
_FORMATS: Final = {Source.kafka: "kafka", Source.direct: "streamhouse"}


def read_stream(
    session: SparkSession, options: PipelineOptions, *, are_there: bool = False
) -> DataFrame:
    """Return the topics as a stream, from the beginning unless the options say otherwise.

    Args:
        session: that reads.
        options: where from.
        are_there: brokers were asked for the topics just now.

    Raises:
        WrongUsage: brokers have no such topic.
    """
    if not are_there:
        refuse_missing(session, options)
    reader = session.readStream.format(_FORMATS[options.source])
    return reader.options(**reader_options(options)).load()


def read_now(
    session: SparkSession, options: PipelineOptions, *, are_there: bool = False
) -> DataFrame:
    """Return what the topics have now. Takes and raises what `read_stream` does.

    Options that only a stream has are left out: a job's are of its query, and a batch refuses them.
    So is a start at the latest offset: it begins with the earliest.
    """
    if not are_there:
        refuse_missing(session, options)
    given = reader_options(options)
    of_batch = {name: value for name, value in given.items() if not _is_of_streams(name, value)}
    return session.read.format(_FORMATS[options.source]).options(**of_batch).load()


def _is_of_streams(name: str, value: str) -> bool:
    if name.lower() == _STARTING:
        return _LATEST.search(value) is not None
    return name.lower() in _OF_STREAMS


def reader_options(options: PipelineOptions) -> dict[str, str]:
    """Return the source's options; a DSN is in the session's environment, not in a plan."""
    common = {
        "subscribe": ",".join(options.topics),
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    if options.source is Source.direct:
        place = {name: value for name, value in options.log.items() if name != POSTGRES}
        return {**place, **common, **options.reader}
    return {
        "kafka.isolation.level": "read_committed",
        **client_options(options.bootstrap, options.client),
        **common,
        **options.reader,
    }


def topic_ids(session: SparkSession, options: PipelineOptions) -> dict[str, str]:
    """Return the ids of topics by name, whatever the source: one that is made again has another.

    Raises:
        WrongUsage: brokers have no such topic.
        Py4JJavaError: they gave no answer.
        MetadataUnavailable: Postgres gave no answer for a minute.
        MetadataWentBack: brokers have marked the database as one that was set back.
    """
    ids = ids_of_those_there(session, options, options.topics)
    if options.source is Source.kafka:  # of a deleted one the other source says more
        for name in options.topics:
            if name not in ids:
                raise WrongUsage(f"there is no topic {name}", fix=LIST_TOPICS)
    return ids


def ids_of_those_there(
    session: SparkSession, options: PipelineOptions, topics: Collection[str]
) -> dict[str, str]:
    """Return the ids of topics by name, without those that do not exist.

    Raises:
        Py4JJavaError, MetadataUnavailable, MetadataWentBack: see `topic_ids`.
    """
    if options.source is Source.direct:
        return _ids_in_log(options, topics)
    java = session.sparkContext._jvm  # noqa: SLF001 - the client that Spark itself reads with
    assert java is not None
    properties = java.java.util.Properties()
    for name, value in {**options.client, "bootstrap.servers": options.bootstrap}.items():
        properties.put(name, value)
    names = java.java.util.ArrayList()
    for name in topics:
        names.add(name)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        answers = admin.describeTopics(names).topicNameValues()
        ids = {name: _id_of(answers.get(name)) for name in topics}
    finally:
        admin.close()
    return {name: in_hexadecimal(text) for name, text in ids.items() if text is not None}


def refuse_missing(session: SparkSession, options: PipelineOptions) -> None:
    """Ask for brokers' topics first: what the connector says of a missing one does not name it.

    Raises:
        WrongUsage: they have no such topic.
    """
    if options.source is Source.kafka:
        topic_ids(session, options)


def _id_of(answer: Any) -> str | None:
    """Return the id that a broker gives; None if there is no such topic."""
    try:
        text: str = answer.get().topicId().toString()
    except Py4JJavaError as error:
        if _MISSING not in str(error.java_exception):
            raise
        return None
    return text


def _ids_in_log(options: PipelineOptions, topics: Collection[str]) -> dict[str, str]:
    kept = KeptConnection(options.location().postgres)

    async def look() -> dict[str, str]:
        index = await LogIndex.on(await kept.get())
        return {each.topic: str(each.topic_id) for each in await index.topics(topics)}

    try:
        return kept.run(look)
    finally:
        kept.close()
