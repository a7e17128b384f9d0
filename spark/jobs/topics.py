"""Topics as DataFrames, from brokers or from the log itself, as a job's options say.

Both have the columns of Spark's own format("kafka"), headers included.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark.jobs.options import PipelineOptions, Source
from spark.jobs.topic_ids import in_hexadecimal
from spark.log_location import POSTGRES
from spark.sources.kafka import client_options
from spark.sources.kept_connection import KeptConnection
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
    """Return the ids of topics by name, whatever the source: one that is made again has another.

    Raises:
        Py4JJavaError: brokers gave no answer, or have no such topic.
        MetadataUnavailable: Postgres gave no answer for a minute.
    """
    if options.source is Source.direct:
        return _ids_in_log(options)
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
        ids = {name: found.get(name).topicId().toString() for name in options.topics}
    finally:
        admin.close()
    return {name: in_hexadecimal(text) for name, text in ids.items()}


def _ids_in_log(options: PipelineOptions) -> dict[str, str]:
    kept = KeptConnection(options.location().postgres)

    async def look() -> dict[str, str]:
        index = LogIndex(await kept.get())
        return {each.topic: str(each.topic_id) for each in await index.topics(options.topics)}

    try:
        return kept.run(look)
    finally:
        kept.close()
