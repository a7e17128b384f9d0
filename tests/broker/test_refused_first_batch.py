"""A first batch of an idempotent producer that is refused for good, with others already behind it.

A partition takes sequence 0 first from a producer that it does not know, so what is behind a
refused first batch is refused, too, where Apache Kafka takes it. Clients begin anew with another
epoch then (KIP-360): only the record that is at fault may be lost, and its sender hears of it.
"""

from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tests.clients.confluent import Confluent
from tests.clients.java_tools import NULL, java_tools
from tests.support.broker import BrokerProcess

FLUSH_S: Final = 30.0
GOOD: Final = [b"value-%d of a size that fills a batch" % number for number in range(20)]


def compacted(broker: BrokerProcess, topic: str) -> Confluent:
    """Make a topic that refuses records without a key."""
    client = Confluent(bootstrap=broker.bootstrap)
    client.create_topic(topic, partition_count=1, configs={"cleanup.policy": "compact"})
    return client


def test_librdkafka_sends_again_what_is_behind_it(broker: BrokerProcess, topic: str) -> None:
    # Given a producer of one record a batch
    client = compacted(broker, topic)
    reported: list[tuple[bytes | None, int | None]] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        reported.append((message.value(), None if error is None else error.code()))

    settings = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}
    producer = Producer({**settings, "linger.ms": 0, "batch.num.messages": 1})

    # When it sends a bad record first, and others at once
    producer.produce(topic, b"bad", on_delivery=on_delivery)
    for value in GOOD:
        producer.produce(topic, value, b"key", on_delivery=on_delivery)
    assert producer.flush(FLUSH_S) == 0

    # Then the bad one is reported, and the others are in the log, in order
    assert sorted(reported) == sorted(
        [(b"bad", KafkaError.INVALID_RECORD), *((value, None) for value in GOOD)]
    )
    assert [record.value for record in client.consume(topic)] == GOOD


def java_produces(broker: BrokerProcess, topic: str, *arguments: str, values: list[bytes]) -> str:
    """Send a record without a key, then these with one; return what the stock tool complains of."""
    return (
        java_tools(broker.bootstrap)
        .run(
            "kafka-console-producer",
            *("--topic", topic, "--request-timeout-ms", "30000", *arguments),
            *("--reader-property", "parse.key=true", "--reader-property", f"null.marker={NULL}"),
            stdin=b"\n".join([f"{NULL}\tbad".encode(), *(b"key\t%b" % value for value in values)]),
        )
        .stderr
    )


def test_the_java_producer_sends_again_what_is_behind_it(broker: BrokerProcess, topic: str) -> None:
    # Given a topic that refuses records without a key
    client = compacted(broker, topic)

    # When the stock tool sends a bad record first, and each record as a batch of its own
    one_by_one = ("--batch-size", "1", "--timeout", "0")
    complaints = java_produces(broker, topic, *one_by_one, values=GOOD)

    # Then it tells of that one, and the others are in the log, in order
    assert complaints.count("ERROR") == complaints.count("InvalidRecordException") == 1
    assert [record.value for record in client.consume(topic)] == GOOD


def test_the_java_producer_tells_which_record_of_a_batch_is_at_fault(
    broker: BrokerProcess, topic: str
) -> None:
    # Given such a topic
    client = compacted(broker, topic)

    # When a bad record is in a batch with others, which goes out when all of them are there
    complaints = java_produces(broker, topic, "--timeout", "60000", values=GOOD)

    # Then all of them are refused, and only the bad one is called bad (KIP-467)
    assert complaints.count("InvalidRecordException") == 1
    assert complaints.count("part of a batch which had one more more invalid records") == len(GOOD)
    assert client.consume(topic) == []
