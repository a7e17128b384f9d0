"""Topics of the tests: never two of one name, and nothing in them is too old to keep."""

import uuid

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.clients.confluent import Confluent


def new_topic(confluent: Confluent, purpose: str, *, partition_count: int = 1) -> str:
    """Create a topic and return its name; retention never takes records with old timestamps."""
    name = f"{purpose}-{uuid.uuid4().hex[:8]}"
    confluent.create_topic(name, partition_count=partition_count, configs={"retention.ms": "-1"})
    return name


def add_partitions(confluent: Confluent, topic: str, partition_count: int) -> None:
    """Give a topic more partitions.

    Args:
        confluent: of the cluster.
        topic: its name.
        partition_count: that it has then.
    """
    admin = AdminClient({"bootstrap.servers": confluent.bootstrap})
    adding = admin.create_partitions([NewPartitions(topic, partition_count)])
    adding[topic].result(timeout=90)
