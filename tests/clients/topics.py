"""Topics of the tests: never two of one name, and nothing in them is too old to keep."""

import uuid

from tests.clients.confluent import Confluent


def new_topic(confluent: Confluent, purpose: str, *, partition_count: int = 1) -> str:
    """Create a topic and return its name; retention never takes records with old timestamps."""
    name = f"{purpose}-{uuid.uuid4().hex[:8]}"
    confluent.create_topic(name, partition_count=partition_count, configs={"retention.ms": "-1"})
    return name
