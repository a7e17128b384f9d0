"""Schema validation over the wire: what topics with it take, and what waits for the registry."""

import asyncio
import base64

import pytest
from kio.schema.errors import ErrorCode

from protocol.records import decode_records
from tests.broker.schemas.schema_wire import (
    DEADLINE_S,
    INVALID,
    TIMEOUT_MS,
    batch,
    code,
    end_offset,
    given_topic,
    ids,
    new_schema,
    prefixed,
    until_code,
)
from tests.support.broker import BrokerProcess
from tests.support.fake_registry import FakeRegistry
from tests.support.wire import WireClient, encode_frame, produce_request

HEADER_BYTES = 61


async def test_only_ids_that_are_registered_under_the_topics_subject_are_taken(
    wire: WireClient, registry: FakeRegistry, topic: str
) -> None:
    # Given a topic whose values have schemas
    await given_topic(wire, topic)
    good, of_other = new_schema(registry, f"{topic}-value"), new_schema(registry, "other-value")
    as_key, unknown = new_schema(registry, f"{topic}-key"), next(ids)

    # When batches come, then those are taken whose values all name one of its schemas, or are null
    for codec in range(5):
        assert await code(wire, topic, prefixed(good), prefixed(good), codec=codec) == 0
    assert await code(wire, topic, None, prefixed(good)) == 0
    assert await end_offset(wire, topic) == 12

    # And nothing of the others: no id, too short for one, of another subject, negative, unknown
    wrong = [prefixed(one) for one in (of_other, as_key, unknown, 2**31, 2**32 - 1)]
    for value in (b"", b"text", b"\0\0\0\0", b"\1" + prefixed(good)[1:], *wrong):
        assert await code(wire, topic, prefixed(good), value) == INVALID, value
    assert await end_offset(wire, topic) == 12
    assert registry.logins == {f"Basic {base64.b64encode(b'broker:secret').decode()}"}


async def test_the_message_says_what_is_wrong(
    wire: WireClient, registry: FakeRegistry, topic: str
) -> None:
    await given_topic(wire, topic)
    unknown = new_schema(registry)

    refused = await wire.produce(topic, batch(prefixed(unknown)))
    assert refused.error_message == f"schema {unknown} is not registered under {topic}-value"
    refused = await wire.produce(topic, batch(b"text"))
    assert refused.error_message == "a record's value does not begin with the id of a schema"


async def test_keys_are_checked_apart_from_values(
    wire: WireClient, registry: FakeRegistry, topic: str
) -> None:
    await wire.create_topic(topic, confluent_key_schema_validation="true")
    key = new_schema(registry, f"{topic}-key")

    assert (await wire.produce(topic, batch(b"text", key=prefixed(key)))).error_code == 0
    assert (await wire.produce(topic, batch(b"text", key=None))).error_code == 0
    assert (await wire.produce(topic, batch(b"text", key=b"text"))).error_code == INVALID


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("RecordNameStrategy", "shop.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "{topic}-shop.Order"),
    ],
)
async def test_subjects_may_be_named_by_the_records_type(
    wire: WireClient, registry: FakeRegistry, topic: str, strategy: str, subject: str
) -> None:
    await given_topic(wire, topic, strategy=strategy)
    order = '{"type":"record","namespace":"shop","name":"Order","fields":[]}'
    good = new_schema(registry, subject.format(topic=topic), schema=order)
    by_topic = new_schema(registry, f"{topic}-value", schema=order)
    without_name = new_schema(registry, f"{topic}-value", schema='"string"')

    assert await code(wire, topic, prefixed(good)) == 0
    assert await code(wire, topic, prefixed(by_topic)) == INVALID
    assert await code(wire, topic, prefixed(without_name)) == INVALID


async def test_a_topic_without_validation_asks_nobody(
    wire: WireClient, registry: FakeRegistry, topic: str
) -> None:
    await wire.create_topic(topic)
    registry.open.clear()
    before = registry.asked.total()

    assert await code(wire, topic, b"text", prefixed(next(ids))) == 0
    assert registry.asked.total() == before


async def test_answers_are_shared_and_remembered(
    wire: WireClient, validating: BrokerProcess, registry: FakeRegistry, topic: str
) -> None:
    # Given a registry that takes its time
    await given_topic(wire, topic)
    good = new_schema(registry, f"{topic}-value")
    registry.open.clear()

    # When several connections produce with a schema at once
    async def produce_alone() -> ErrorCode:
        async with await WireClient.connect(validating.bootstrap) as alone:
            return await code(alone, topic, prefixed(good))

    async with asyncio.TaskGroup() as tasks:
        several = [tasks.create_task(produce_alone()) for _ in range(5)]
        async with asyncio.timeout(DEADLINE_S):
            while not registry.asked_for(good):
                await asyncio.sleep(0.01)
        registry.open.set()

    # Then one request was enough for them, and for those after them
    assert [task.result() for task in several] == [0] * 5
    assert await code(wire, topic, prefixed(good)) == 0
    assert registry.asked_for(good) == 1


async def test_what_was_unknown_is_taken_once_it_is_registered(
    wire: WireClient, registry: FakeRegistry, topic: str
) -> None:
    await given_topic(wire, topic)
    schema_id = next(ids)
    assert await code(wire, topic, prefixed(schema_id)) == INVALID

    # Under another subject it was taken before: this one's records are not held up by that
    await given_topic(wire, f"{topic}-other")
    registry.register(schema_id, f"{topic}-value")
    await until_code(wire, topic, ErrorCode.none, schema_id)
    registry.register(schema_id, f"{topic}-value", f"{topic}-other-value")
    assert await code(wire, f"{topic}-other", prefixed(schema_id)) == 0


async def test_a_registry_that_hangs_costs_only_what_needs_it(
    wire: WireClient, validating: BrokerProcess, registry: FakeRegistry, topic: str
) -> None:
    # Given a topic with a schema that the broker knows and one that it must ask for
    plain = f"{topic}-plain"
    await given_topic(wire, topic, partitions=2)
    await wire.create_topic(plain)
    known, new = (new_schema(registry, f"{topic}-value") for _ in range(2))
    assert await code(wire, topic, prefixed(known)) == 0
    registry.open.clear()

    # When one connection sends both, and to other partitions, all in one go
    sent = [
        produce_request(topic, batch(prefixed(new))),
        produce_request(topic, batch(prefixed(known) + b"second")),
        produce_request(topic, batch(prefixed(known)), partition=1),
        produce_request(plain, batch(b"text")),
    ]
    async with await WireClient.connect(validating.bootstrap) as pipelined:
        await pipelined.send(b"".join(encode_frame(one, at) for at, one in enumerate(sent)))

        # Then the others get into their logs while it waits, and nothing overtakes it in its own
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            while await end_offset(wire, plain) < 1:
                await asyncio.sleep(0.01)
            while not (await wire.fetch(topic, 0, partition=1)).records:
                await asyncio.sleep(0.01)
            assert await end_offset(wire, topic) == 1
            registry.open.set()
        for at, request in enumerate(sent):
            correlation_id, answer = await pipelined.receive(request)
            assert correlation_id == at
            assert answer.responses[0].partition_responses[0].error_code == 0
    assert await values(wire, topic, 1) == [prefixed(new), prefixed(known) + b"second"]


async def values(wire: WireClient, topic: str, offset: int) -> list[bytes | None]:
    data, found = (await wire.fetch(topic, offset)).records, list[bytes | None]()
    while data:
        size = 12 + int.from_bytes(data[8:12])
        count = int.from_bytes(data[57:61])
        found += [one.value for one in decode_records(data[HEADER_BYTES:size], count)]
        data = data[size:]
    return found
