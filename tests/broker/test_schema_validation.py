"""Schema validation over the wire: what topics with it take, and what a registry may do to that."""

import asyncio
import base64
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator
from urllib.request import urlopen

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry

from broker.configs.broker_configs import read_broker_config
from broker.schemas.registry_breaker import FAILED_IN_A_ROW, RETRY_S, RETRY_SAME_S
from broker.schemas.registry_client import MAX_REQUESTS, RegistryClient, RegistryUnavailable
from broker.schemas.schema_metrics import RegistryMetrics
from broker.secrets_config import RegistryLogin
from protocol.records import Record, build_batch, decode_records
from storage.configs.config_types import InvalidConfig
from tests.support.broker import BrokerProcess, start_broker
from tests.support.fake_registry import HANG_UP, FakeRegistry, fake_registry
from tests.support.wire import WireClient, encode_frame, produce_request

INVALID, REFUSED = ErrorCode.invalid_record, ErrorCode.not_enough_replicas
TIMEOUT_MS = 3000
DEADLINE_S = 20.0
LATEST = -1
HEADER_BYTES = 61

_ids = itertools.count(1)


@pytest.fixture(scope="module")
def one_registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


@pytest.fixture
def registry(one_registry: FakeRegistry) -> FakeRegistry:
    """The registry, well again."""
    one_registry.status = 0
    one_registry.broken, one_registry.hanging = set(), set()
    one_registry.open.set()
    return one_registry


@pytest.fixture(scope="module")
def validating(
    one_registry: FakeRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    running = start_broker(
        tmp_path_factory.mktemp("schemas"),
        *settings(one_registry.url, "confluent.missing.id.cache.ttl.sec=1"),
        environment=os.environ
        | {
            "STREAMHOUSE_SCHEMA_REGISTRY__USER": "broker",
            "STREAMHOUSE_SCHEMA_REGISTRY__PASSWORD": "secret",
        },
    )
    yield running
    running.stop()


@pytest.fixture
async def wire(validating: BrokerProcess, registry: FakeRegistry) -> AsyncIterator[WireClient]:
    """A connection to a broker that has heard from its registry: no test inherits a failure."""
    async with await WireClient.connect(validating.bootstrap) as client:
        await given_topic(client, name := f"probe-{next(_ids)}")
        await until_code(client, name, INVALID, new_schema(registry))
        yield client


async def given_topic(
    wire: WireClient, name: str, *, partitions: int = 1, strategy: str = "TopicNameStrategy"
) -> None:
    """Create a topic whose values must have schemas."""
    await wire.create_topic(
        name,
        partitions,
        confluent_value_schema_validation="true",
        confluent_value_subject_name_strategy=strategy,
    )


async def metrics(broker: BrokerProcess) -> str:
    def read() -> str:
        with urlopen(f"http://{broker.http}/metrics") as response:
            text: str = response.read().decode()
            return text

    return await asyncio.to_thread(read)


def settings(url: str, *more: str) -> list[str]:
    """Return flags of a broker with a registry that is not waited for long."""
    timeout = f"confluent.schema.registry.request.timeout.ms={TIMEOUT_MS}"
    pairs = (f"confluent.schema.registry.url={url}", timeout, *more)
    return [word for pair in pairs for word in ("--set", pair)]


def new_schema(registry: FakeRegistry, *subjects: str, schema: str = "{}") -> int:
    registry.register(schema_id := next(_ids), *subjects, schema=schema)
    return schema_id


def prefixed(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + b"object"


def batch(*values: bytes | None, key: bytes | None = None, codec: int = 0) -> bytes:
    records = [Record(offset_delta=at, key=key, value=one) for at, one in enumerate(values)]
    return build_batch(records, attributes=codec, base_timestamp_ms=time.time_ns() // 1_000_000)


async def code(wire: WireClient, topic: str, *values: bytes | None, codec: int = 0) -> ErrorCode:
    answer = await wire.produce(topic, batch(*values, codec=codec))
    found: ErrorCode = answer.error_code
    return found


async def until_code(wire: WireClient, topic: str, wanted: ErrorCode, schema_id: int) -> None:
    """Produce with a schema until that is the answer."""
    async with asyncio.timeout(DEADLINE_S):
        while await code(wire, topic, prefixed(schema_id)) != wanted:
            await asyncio.sleep(0.05)


async def end_offset(wire: WireClient, topic: str) -> int:
    offset: int = (await wire.list_offset(topic, LATEST)).offset
    return offset


async def test_only_ids_that_are_registered_under_the_topics_subject_are_taken(
    wire: WireClient, registry: FakeRegistry, topic: str
) -> None:
    # Given a topic whose values have schemas
    await given_topic(wire, topic)
    good, of_other = new_schema(registry, f"{topic}-value"), new_schema(registry, "other-value")
    as_key, unknown = new_schema(registry, f"{topic}-key"), next(_ids)

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

    assert await code(wire, topic, b"text", prefixed(next(_ids))) == 0
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
    schema_id = next(_ids)
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
    lost = [prefixed(next(_ids)) for _ in range(100)]
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


async def test_a_schema_that_the_registry_hangs_at_gives_way_to_others(
    registry: FakeRegistry,
) -> None:
    # Given a client of a registry that never answers for one schema
    client = client_of(registry)
    bad, good = new_schema(registry), new_schema(registry)
    registry.hanging = {bad}

    async def ask_always() -> None:
        while not await answered(client, bad):
            await asyncio.sleep(0.01)

    asking = asyncio.ensure_future(ask_always())
    try:
        # When another one is asked for now and then, then it is answered as soon as one may ask
        for _ in range(3):
            await asyncio.sleep(0.3)
            async with asyncio.timeout(2 * RETRY_S):
                while not await answered(client, good):
                    await asyncio.sleep(0.05)
    finally:
        asking.cancel()
        registry.hanging = set()
        await client.close()


def client_of(*registries: FakeRegistry) -> RegistryClient:
    return RegistryClient(
        [one.url for one in registries],
        login=RegistryLogin(),
        timeout_s=0.2,
        metrics=RegistryMetrics(CollectorRegistry()),
    )


async def answered(client: RegistryClient, schema_id: int) -> bool:
    try:
        return await client.get(f"/schemas/ids/{schema_id}") == {"schema": "{}"}
    except RegistryUnavailable:
        return False


async def test_registries_that_fail_in_different_ways_are_given_up_together(
    registry: FakeRegistry,
) -> None:
    with fake_registry() as hanging:
        # Given a registry that hangs and one that has trouble with everything, and many who ask
        hanging.open.clear()
        registry.status = 503
        client = client_of(hanging, registry)
        assert not any(await asyncio.gather(*(answered(client, next(_ids)) for _ in range(24))))
        before, began_s = registry.asked.total(), time.monotonic()
        assert hanging.asked.total() <= MAX_REQUESTS, "those that waited fail with the first"

        # When more come, then all are refused at once
        assert not any(await asyncio.gather(*(answered(client, next(_ids)) for _ in range(24))))
        assert time.monotonic() - began_s < 0.5 * RETRY_S
        assert registry.asked.total() == before

        # And later but one of them waits, while it finds out whether one is back
        await asyncio.sleep(RETRY_S)
        assert not any(await asyncio.gather(*(answered(client, next(_ids)) for _ in range(24))))
        assert registry.asked.total() <= before + 1
        assert hanging.asked.total() <= MAX_REQUESTS + 1

        # When one is, then it answers
        registry.status = 0
        good = new_schema(registry)
        async with asyncio.timeout(2 * RETRY_S):
            while not await answered(client, good):
                await asyncio.sleep(0.05)
        assert await answered(client, new_schema(registry))
        await client.close()


async def test_a_registry_that_hangs_is_not_waited_for_by_each_who_asks_another(
    registry: FakeRegistry,
) -> None:
    with fake_registry() as hanging:
        # Given a registry that does not know some schemas, and one that hangs
        hanging.open.clear()
        client = client_of(registry, hanging)

        # When they are asked for, then the second is waited for once
        for _ in range(4):
            assert await client.get(f"/schemas/ids/{next(_ids)}") is None
        assert hanging.asked.total() == 1
        await client.close()


async def test_many_schemas_that_the_registry_fails_at_give_way_to_others(
    registry: FakeRegistry,
) -> None:
    # Given a registry that has trouble with more schemas than make it look lost
    client = client_of(registry)
    bad = [new_schema(registry) for _ in range(2 * FAILED_IN_A_ROW)]
    registry.broken = set(bad)

    async def ask_always(schema_id: int) -> None:
        while not await answered(client, schema_id):
            await asyncio.sleep(0.01)

    asking = [asyncio.ensure_future(ask_always(one)) for one in bad]
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not all(registry.asked[f"/schemas/ids/{one}"] for one in bad):
                await asyncio.sleep(0.05)

        # When others are asked for, then each is answered as soon as one may ask
        for _ in range(3):
            await asyncio.sleep(0.3)
            good = new_schema(registry)
            async with asyncio.timeout(2 * RETRY_S):
                while not await answered(client, good):
                    await asyncio.sleep(0.05)

        # And they, too, when the registry has recovered
        registry.broken = set()
        async with asyncio.timeout(2 * RETRY_SAME_S):
            await asyncio.gather(*asking)
    finally:
        for one in asking:
            one.cancel()
        await client.close()


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
            assert await code(wire, topic, prefixed(next(_ids))) == 0
            assert await code(wire, topic, b"text") == INVALID
            assert "streamhouse_schema_validation_unchecked_total 1.0" in await metrics(broker)

            # And a batch of many schemas asks once
            before = registry.asked.total()
            assert await code(wire, topic, *(prefixed(next(_ids)) for _ in range(50))) == 0
            assert registry.asked.total() == before + 1, "the rest is not checked either"
    finally:
        broker.stop()


async def test_a_broker_without_a_registry_says_so(broker: BrokerProcess, topic: str) -> None:
    async with await WireClient.connect(broker.bootstrap) as wire:
        await given_topic(wire, topic)
        refused = await wire.produce(topic, batch(prefixed(1)))

    assert refused.error_code == REFUSED
    assert "confluent.schema.registry.url is not set" in refused.error_message


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("localhost:8081", "must be URLs"),
        ("ftp://registry", "must be URLs"),
        ("http://", "must be URLs"),
        ("http://[", "must be URLs"),
        ("http://registry:99999", "must be URLs"),
        ("http://registry?token=x", "must be URLs"),
        ("http://registry:8081,http://me:secret@registry", "must not hold a password"),
    ],
)
def test_a_registrys_url_is_checked_at_the_start(url: str, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem) as invalid:
        read_broker_config({"confluent.schema.registry.url": url})
    assert "secret" not in str(invalid.value)
