"""Records that are much alike: megabytes of them in a batch of some kilobytes."""

from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin._resource import ResourceType

from tests.clients.confluent import Confluent
from tests.clients.topics import new_topic

ALIKE: Final = b'{"state": "unchanged", "reason": "none", "sensor": 12345678}' * 170  # 10 KB


def produce_as_one_batch(bootstrap: str, topic: str, count: int) -> None:
    """Send records of the times 1, 2, 3 … ms."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": "zstd",
            "linger.ms": 5000,
            "batch.size": 2**26,
            "message.max.bytes": 2**26,
        }
    )
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(count):
        producer.produce(
            topic, key=b"%d" % number, value=ALIKE, timestamp=number + 1, on_delivery=delivered
        )
    assert producer.flush(120) == 0
    assert failures == []


def test_a_time_is_found_in_a_batch_a_thousandth_of_its_size(confluent: Confluent) -> None:
    # Given 30 MB in one batch
    topic = new_topic(confluent, "alike")
    produce_as_one_batch(confluent.bootstrap, topic, 3000)

    # When it is asked for the first record of a time
    found = confluent.offset_for_time(topic, 0, 2000)

    # Then it is that record
    assert found == 1999


def test_a_compacted_topic_takes_what_producers_make_of_alike_records(confluent: Confluent) -> None:
    topic = new_topic(confluent, "alike-compacted")
    confluent.set_configs(ResourceType.TOPIC, topic, {"cleanup.policy": "compact"})
    produce_as_one_batch(confluent.bootstrap, topic, 1000)
    assert confluent.record_counts(topic) == {0: 1000}
