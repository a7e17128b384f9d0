"""Schema validation with a real registry and the serializers that people use with it."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.clients.apicurio import Apicurio, running_apicurio
from tests.clients.confluent import Confluent
from tests.support.broker import BrokerProcess, running_broker

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}],
    }
)
REFUND = ORDER.replace("Order", "Refund")
PERSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Person",
        "type": "object",
        "properties": {"id": {"type": "integer"}},
    }
)
ANIMAL = PERSON.replace("Person", "Animal")
VALIDATION = {"confluent.value.schema.validation": "true"}
TOPIC_RECORD = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"

Serializer = Callable[[Any, SerializationContext], bytes]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with running_apicurio(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def validating(
    registry: Apicurio, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    url = f"confluent.schema.registry.url={registry.url}"
    with running_broker(tmp_path_factory.mktemp("validating"), "--set", url) as broker:
        yield broker


@pytest.fixture(scope="module")
def confluent(validating: BrokerProcess) -> Confluent:
    return Confluent(bootstrap=validating.bootstrap)


@pytest.fixture(scope="module")
def schemas(registry: Apicurio) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def send(confluent: Confluent, topic: str, *values: bytes | None) -> list[KafkaError | None]:
    """Send values one after the other with an idempotent producer; return what became of each."""
    results: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": confluent.bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: results.append(error))
        assert producer.flush(60) == 0
    return results


def serialized(topic: str, serializer: Serializer, *numbers: int) -> list[bytes]:
    context = SerializationContext(topic, MessageField.VALUE)
    return [serializer({"id": number}, context) for number in numbers]


@pytest.mark.parametrize(
    ("make", "schema", "foreign"),
    [
        (AvroSerializer, ORDER, REFUND),
        (lambda schemas, text: JSONSerializer(text, schemas), PERSON, ANIMAL),
    ],
    ids=["avro", "json"],
)
def test_what_the_serializers_write_is_taken_and_nothing_else(
    confluent: Confluent,
    schemas: SchemaRegistryClient,
    make: Callable[[SchemaRegistryClient, str], Serializer],
    schema: str,
    foreign: str,
) -> None:
    # Given a topic with validation
    topic = f"validated-{uuid.uuid4().hex[:8]}"
    confluent.create_topic(topic, partition_count=1, configs=VALIDATION)

    # When values are sent, then those of schemas that are registered for it are taken, and null
    good = serialized(topic, make(schemas, schema), 1, 2)
    assert send(confluent, topic, *good, None) == [None, None, None]
    # And what has no schema, or one of another topic, is not
    others = serialized(f"{topic}-other", make(schemas, foreign), 3)
    errors = send(confluent, topic, b'{"id": 3}', *others)
    assert [error and error.code() for error in errors] == [KafkaError.INVALID_RECORD] * 2
    # So that the topic has what it was made for
    assert [record.value for record in confluent.consume(topic)] == [*good, None]


def test_a_topic_may_hold_several_types(
    confluent: Confluent, schemas: SchemaRegistryClient
) -> None:
    # Given a topic whose subjects are named by topic and type
    topic = "mixed"
    strategy = {"confluent.value.subject.name.strategy": TOPIC_RECORD}
    confluent.create_topic(topic, partition_count=1, configs=VALIDATION | strategy)
    by_record = {"subject.name.strategy": topic_record_subject_name_strategy}
    orders, refunds = (AvroSerializer(schemas, one, conf=by_record) for one in (ORDER, REFUND))

    # When both are sent, then both are taken; what is registered by topic alone is not
    good = serialized(topic, orders, 1) + serialized(topic, refunds, 1)
    assert send(confluent, topic, *good) == [None, None]
    by_topic = AvroSerializer(schemas, ORDER.replace("Order", "Return"))
    (error,) = send(confluent, topic, *serialized(topic, by_topic, 1))
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD


def test_an_unknown_strategy_is_refused_when_it_is_set(confluent: Confluent) -> None:
    strategy = {"confluent.value.subject.name.strategy": "com.example.OwnStrategy"}
    with pytest.raises(KafkaException, match="TopicNameStrategy"):
        confluent.create_topic("own", partition_count=1, configs=strategy)


def test_a_producer_outlives_a_registry_that_hangs(
    confluent: Confluent,
    schemas: SchemaRegistryClient,
    registry: Apicurio,
    validating: BrokerProcess,
) -> None:
    # Given a schema that the broker has not asked for, and a registry that hangs
    topic = "patient"
    confluent.create_topic(topic, partition_count=1, configs=VALIDATION)
    batches = serialized(topic, AvroSerializer(schemas, ORDER), *range(100))
    results: list[KafkaError | None] = []
    settings = {"batch.num.messages": 10, "linger.ms": 0, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": confluent.bootstrap} | settings)
    registry.pause()
    try:
        # When a producer sends, and the registry goes on after the broker gave up on it once
        for value in batches:
            producer.produce(topic, value, on_delivery=lambda error, _: results.append(error))
        deadline_s = time.monotonic() + 60
        while not refused_for_now(validating) and time.monotonic() < deadline_s:
            producer.poll(0.1)
    finally:
        registry.go_on()
    assert producer.flush(60) == 0

    # Then everything is there, once and in order
    assert results == [None] * len(batches)
    assert [record.value for record in confluent.consume(topic)] == batches
    assert refused_for_now(validating) > 0


def refused_for_now(broker: BrokerProcess) -> float:
    """Return how many batches the broker has refused because the registry did not answer."""
    name = 'streamhouse_schema_validation_refused_total{reason="registry"} '
    with urlopen(f"http://{broker.http}/metrics") as response:
        lines = response.read().decode().splitlines()
    (value,) = (line.removeprefix(name) for line in lines if line.startswith(name))
    return float(value)
