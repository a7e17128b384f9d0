"""Topics as DataFrames, from brokers or from the log itself, as a job's options say.

Both have the columns of Spark's own format("kafka"), headers included.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark.jobs.options import PipelineOptions, Source
from spark.log_location import POSTGRES
from spark.sources.kafka import client_options

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
