"""Where a query is, told to a consumer group through a broker, so that lag tools show it.

The query goes by its checkpoint alone. Spark's connector commits no offsets; this does it with the
same Java client and the same properties. With the direct source the option commitGroup does it.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

TIMEOUT_MS: Final = 10_000

log = logging.getLogger(__name__)


class GroupCommits:
    """Commits of one query to a group that has no members.

    Args:
        session: whose class path has the connector.
        group_id: one of its own for each query.
        properties: of Kafka's Java client, bootstrap.servers included.
    """

    def __init__(self, session: SparkSession, group_id: str, properties: Mapping[str, str]) -> None:
        java = session.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to Java
        assert java is not None
        self._java = java
        self._group_id = group_id
        self._committed: dict[str, dict[str, int]] = {}
        given = java.java.util.Properties()
        for name, value in properties.items():
            given.setProperty(name, value)
        self._admin = java.org.apache.kafka.clients.admin.AdminClient.create(given)

    def commit(self, progress: Mapping[str, Any]) -> None:
        """Commit the end of a batch, if it is another one than was committed last.

        A query does not fail because nobody hears it: the next batch tells more.
        """
        ends = end_offsets(progress)
        if not ends or ends == self._committed:
            return
        clients = self._java.org.apache.kafka.clients.consumer
        offsets = self._java.java.util.HashMap()
        for topic, partitions in ends.items():
            for number, offset in partitions.items():
                place = self._java.org.apache.kafka.common.TopicPartition(topic, int(number))
                offsets.put(place, clients.OffsetAndMetadata(offset))
        options = self._java.org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsOptions()
        options.timeoutMs(TIMEOUT_MS)
        try:
            self._admin.alterConsumerGroupOffsets(self._group_id, offsets, options).all().get()
        except Py4JJavaError as error:  # the group has members, or no broker answered
            log.warning("progress not reported to the group: %s", error.java_exception)
        else:
            self._committed = ends

    def close(self) -> None:
        """Let the connections go."""
        self._admin.close()


def end_offsets(progress: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return one past the last offset that a query has read, by topic and partition."""
    ends: dict[str, dict[str, int]] | None = progress["sources"][0]["endOffset"]
    return ends or {}
