"""What librdkafka's admin client says of a group, for tests that look at it from outside."""

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

CALL_S: Final = 60.0
SETTLE_S: Final = 60.0
GLANCE_S: Final = 0.05


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """Return the committed offsets of a group that reads one topic, by partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = ConsumerGroupTopicPartitions(group)
    answered = admin.list_consumer_group_offsets([asked], request_timeout=CALL_S)
    places = answered[group].result().topic_partitions or ()
    return {place.partition: place.offset for place in places if place.offset >= 0}


def await_committed(bootstrap: str, group: str, offsets: Mapping[int, int]) -> None:
    """Return when these are among the group's committed offsets.

    Raises:
        AssertionError: they are not, SETTLE_S later.
    """
    deadline = time.monotonic() + SETTLE_S
    while not offsets.items() <= (found := committed(bootstrap, group)).items():
        assert time.monotonic() < deadline, f"{group} has committed {found}, not {offsets}"
        time.sleep(GLANCE_S)
