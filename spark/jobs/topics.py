"""Topics as DataFrames, from brokers or from the log itself, as a job's options say.

Both have the columns of Spark's own format("kafka"), headers included.
"""

import asyncio
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark.jobs.options import PipelineOptions, Source
from spark.log_location import POSTGRES
from spark.sources.kafka import client_options
from spark.sources.log_index import LogIndex

_FORMATS: Final = {Source.kafka: "kafka", Source.direct: "streamhouse"}


def read_stream(session: SparkSession, options: PipelineOptions) -> DataFrame:
    """Return the topics as a stream, from the beginning unless the options say otherwise."""
    reader = session.readStream.format(_FORMATS[options.source])
    return reader.options(**reader_options(options)).load()


def read_now(session: SparkSession, options: PipelineOptions) -> DataFrame:
    """Return what the topics have now."""
    reader = session.read.format(_FORMATS[options.source])
    return reader.options(**reader_options(options)).load()


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
    """Return the ids of topics by name: one that is deleted and made again has another.

    Raises:
        Py4JJavaError: brokers gave no answer, or have no such topic.
        MetadataUnavailable: Postgres gave no answer.
    """
    if options.source is Source.direct:
        return asyncio.run(_ids_in_log(options))
    java = session.sparkContext._jvm  # noqa: SLF001 - the client that Spark itself reads with
    assert java is not None
    properties = java.java.util.Properties()
    for name, value in {**options.client, "bootstrap.servers": options.bootstrap}.items():
        properties.put(name, value)
    names = java.java.util.ArrayList()
    for name in options.topics:
        names.add(name)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        found = admin.describeTopics(names).allTopicNames().get()
        return {name: found.get(name).topicId().toString() for name in options.topics}
    finally:
        admin.close()


async def _ids_in_log(options: PipelineOptions) -> dict[str, str]:
    async with LogIndex.open(options.location().postgres) as index:
        return {each.topic: str(each.topic_id) for each in await index.topics(options.topics)}
