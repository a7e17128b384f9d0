"""A program: all of a topic to another one, without brokers, as one streaming query.

Its arguments are the topics, the directory of its checkpoint, and how many records a micro-batch
has at most. Where the log is comes from the environment.
"""

import sys

from spark.session import build_session


def main(source: str, target: str, checkpoint: str, most_records: str) -> None:
    """Return when everything is copied that is there."""
    session = build_session("copy-topic", packages=())
    reader = session.readStream.format("streamhouse").option("subscribe", source)
    reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
    rows = reader.option("maxOffsetsPerTrigger", most_records).load()
    records = rows.select("key", "value", "headers", "timestamp")
    writer = records.writeStream.format("streamhouse").option("topic", target)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
