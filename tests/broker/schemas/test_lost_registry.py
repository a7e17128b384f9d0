"""What becomes of records while the schema registry gives no answer, over the wire."""

import time

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.schemas.schema_wire import (
    INVALID,
    REFUSED,
    batch,
    code,
    end_offset,
    given_topic,
    ids,
    metrics,
    new_schema,
    prefixed,
    settings,
    until_code,
)
from tests.support.broker import BrokerProcess, start_broker
from tests.support.fake_registry import HANG_UP, FakeRegistry
from tests.support.wire import WireClient


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (0, b""),  # it hangs
        (500, b"{}"),
        (401, b'{"error_code":401,"message":"Unauthorized"}'),
        (404, b"<html>not here</html>"),
        (404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'),
        (302, b""),
        (200, b"{}"),
        (200, b"null"),
        (200, b"[1"),
        (200, b"[" * 100_000),
        (200, b" " * 2_000_000),
    ],
    ids=lambda case: str(case[:20]) if isinstance(case, bytes) else str(case),
)
async def test_without_an_answer_records_are_refused_for_now(
    wire: WireClient, registry: FakeRegistry, topic: str, status: int, body: bytes
) -> None:
    # Given a registry that knows a schema, and gives no answer
    await given_topic(wire, topic)
    known, new = (new_schema(registry, f"{topic}-value") for _ in range(2))
    assert await code(wire, topic, prefixed(known)) == 0
    registry.status, registry.body = status, body
    if not status:
        registry.open.clear()

    # When records come whose schema the broker does not know, then clients are to repeat them
    refused = await wire.produce(topic, batch(prefixed(new)))
    assert refused.error_code == REFUSED
    assert refused.error_message.startswith("the schema registry does not answer: ")
    # And what it knows is taken, and what has no id is refused for good
    assert await code(wire, topic, prefixed(known)) == 0
    assert await code(wire, topic, b"text") == INVALID

    # When it is back, then they are taken
    registry.status = 0
    registry.open.set()
    await until_code(wire, topic, ErrorCode.none, new)
    assert await end_offset(wire, topic) == 3


async def test_one_request_at_a_time_finds_out_whether_a_lost_registry_is_back(
    wire: WireClient, validating: BrokerProcess, registry: FakeRegistry, topic: str
) -> None:
    # Given a registry that ends every connection
    await given_topic(wire, topic)
    registry.status = HANG_UP
    lost = [prefixed(next(ids)) for _ in range(100)]
    assert await code(wire, topic, lost[0]) == REFUSED
    before, began_s = registry.asked.total(), time.monotonic()

    # When many ask, then one a second is passed on
    for one in lost:
        assert await code(wire, topic, one) == REFUSED
    assert registry.asked.total() - before <= 1 + time.monotonic() - began_s
    counted = await metrics(validating)
    assert 'streamhouse_schema_validation_refused_total{reason="registry"}' in counted
    assert 'streamhouse_schema_registry_requests_total{result="failed"}' in counted


async def test_a_schema_that_the_registry_fails_at_is_refused_alone(
    wire: WireClient, registry: FakeRegistry, topic: str
) -> None:
    # Given a registry that has trouble with one schema, which clients ask for all the time
    await given_topic(wire, topic)
    bad, *good = (new_schema(registry, f"{topic}-value") for _ in range(6))
    registry.broken = {bad}

    # When others come that the broker does not know, then they are taken
    for one in good:
        assert await code(wire, topic, prefixed(bad)) == REFUSED
        assert await code(wire, topic, prefixed(one)) == 0

    # And it, too, when the registry has recovered
    registry.broken = set()
    assert await code(wire, topic, prefixed(bad)) == 0


async def test_a_broker_may_accept_what_the_registry_does_not_answer_for(
    registry: FakeRegistry, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Given a broker with another policy, and a first registry that is not there
    nobody = "http://127.0.0.1:9"
    accept = "confluent.schema.validation.on.registry.failure=accept"
    broker = start_broker(
        tmp_path_factory.mktemp("accepts"), *settings(f"{nobody},{registry.url}", accept)
    )
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            await given_topic(wire, topic)
            # When the second knows a schema, then it is taken, and what it does not know is not
            assert await code(wire, topic, prefixed(new_schema(registry, f"{topic}-value"))) == 0
            assert await code(wire, topic, prefixed(new_schema(registry))) == INVALID

            # When none answers, then what has an id is taken unchecked, and counted
            registry.status = 503
            assert await code(wire, topic, prefixed(next(ids))) == 0
            assert await code(wire, topic, b"text") == INVALID
            assert "streamhouse_schema_validation_unchecked_total 1.0" in await metrics(broker)

            # And a batch of many schemas asks once
            before = registry.asked.total()
            assert await code(wire, topic, *(prefixed(next(ids)) for _ in range(50))) == 0
            assert registry.asked.total() == before + 1, "the rest is not checked either"
    finally:
        broker.stop()


async def test_a_broker_without_a_registry_says_so(broker: BrokerProcess, topic: str) -> None:
    async with await WireClient.connect(broker.bootstrap) as wire:
        await given_topic(wire, topic)
        refused = await wire.produce(topic, batch(prefixed(1)))

    assert refused.error_code == REFUSED
    assert "confluent.schema.registry.url is not set" in refused.error_message
