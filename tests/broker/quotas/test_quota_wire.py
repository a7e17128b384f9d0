"""Quotas over the wire: what is set, who is told to wait, and who is not."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.configs.entity_configs import MAX_CHANGES
from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess, running_broker
from tests.support.quota_wire import ANY, EXACT, alter, describe, set_quotas, shown
from tests.support.wire import (
    ConnectionEnded,
    WireClient,
    build,
    encode_frame,
    fetch_request,
    milliseconds,
    produce_request,
    request_entities,
)

METADATA, API_VERSIONS, CREATE_TOPICS = 3, 18, 19


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Return a broker that lets clients use three seconds of their quotas at once."""
    windows = ("--set", "quota.window.num=4", "--set", "controller.quota.window.num=1")
    with running_broker(tmp_path_factory.mktemp("quotas"), *windows) as running:
        yield running


@pytest.fixture
async def admin(broker: BrokerProcess) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(broker.bootstrap) as client:
        yield client


async def ask_as(wire: WireClient, client_id: str, request: Any) -> Any:
    """Return the response to a request of that client."""
    await wire.send(encode_frame(request, 1, client_id.encode()))
    return (await wire.receive(request))[1]


async def took_s(waiting: Any) -> float:
    began_s = time.monotonic()
    await waiting
    return time.monotonic() - began_s


def batch(size: int) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return build_batch([Record(offset_delta=0, value=b"x" * size)], base_timestamp_ms=now_ms)


def versions_request() -> Any:
    return request_entities(API_VERSIONS, 2).ApiVersionsRequest()


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_set_described_and_removed(admin: WireClient, version: int) -> None:
    # Given quotas of a user, of all its clients, and an entry that cannot be
    user = f"ann-{version}"
    one, both = [("user", user)], [("user", user), ("client-id", None)]
    outcomes = await alter(
        admin,
        (one, {"producer_byte_rate": 1000, "request_percentage": 12.5}),
        ([("user", "")], {"producer_byte_rate": 1}),
        (both, {"consumer_byte_rate": 2000}),
        version=version,
    )
    codes = [code for code, _ in outcomes]
    assert codes == [ErrorCode.none, ErrorCode.invalid_request, ErrorCode.none]

    # Then they are described, as far as a filter wants
    asked = ("user", EXACT, user)
    of_user = {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    of_clients = (("client-id", None), ("user", user))
    expected = {(("user", user),): of_user, of_clients: {"consumer_byte_rate": 2000.0}}
    assert shown(await describe(admin, asked, version=version)) == expected
    strictly = await describe(admin, asked, strict=True, version=version)
    assert shown(strictly) == {(("user", user),): of_user}

    # When all of the user is removed, one of it only for a check
    removal = {"producer_byte_rate": None, "request_percentage": None}
    await alter(admin, (both, {"consumer_byte_rate": None}), check=True, version=version)
    await alter(admin, (one, removal), version=version)

    # Then what was only checked is left
    left = shown(await describe(admin, asked, version=version))
    assert left == {of_clients: {"consumer_byte_rate": 2000.0}}
    await alter(admin, (both, {"consumer_byte_rate": None}), version=version)


async def test_of_too_many_changes_at_once_none_is_done(admin: WireClient) -> None:
    # Given a request for more quotas than one may change
    quotas = {"producer_byte_rate": 1, "consumer_byte_rate": 1, "request_percentage": 1}
    users = [[("user", f"many-{number}")] for number in range(MAX_CHANGES // len(quotas) + 1)]

    # When it is made, or only checked, then each entity is refused, as in Kafka
    for check in (True, False):
        codes = {
            code for code, _ in await alter(admin, *((one, quotas) for one in users), check=check)
        }
        assert codes == {ErrorCode.policy_violation}
    assert shown(await describe(admin, ("user", EXACT, "many-0"))) == {}

    # And to remove what is not set changes nothing
    removed = dict.fromkeys(quotas)
    outcomes = await alter(admin, *((one, removed) for one in users))
    assert {code for code, _ in outcomes} == {ErrorCode.none}


async def test_a_filter_without_meaning_is_refused_as_a_whole(admin: WireClient) -> None:
    response = await describe(admin, ("user", ANY, "named"))
    assert response.error_code is ErrorCode.invalid_request
    assert response.entries is None


@pytest.mark.parametrize("version", [3, 9])
async def test_a_producer_over_its_quota_is_muted_and_nobody_else(
    broker: BrokerProcess, admin: WireClient, topic: str, version: int
) -> None:
    # Given a producer that may send 40 KB a second
    await admin.create_topic(topic)
    client_id = f"producer-{topic}"
    await set_quotas(admin, client_id, producer_byte_rate=40_000)
    async with await WireClient.connect(broker.bootstrap) as producer:
        # When it has sent 250 KB, then it is told at once to wait for three seconds
        request = produce_request(topic, batch(250_000), version=version)
        response = await ask_as(producer, client_id, request)
        told_s = response.throttle_time.total_seconds()
        assert response.responses[0].partition_responses[0].error_code is ErrorCode.none
        assert 0.5 < told_s <= 3.3

        # And its connection is muted for that time, even for another client's request
        waiting = asyncio.ensure_future(took_s(ask_as(producer, "else", versions_request())))

        # While others go on
        await ask_as(admin, "else", versions_request())
        assert not waiting.done()
        assert await waiting > told_s / 2


async def test_without_acks_there_is_nothing_to_tell_but_the_wait(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    await admin.create_topic(topic)
    await set_quotas(admin, topic, producer_byte_rate=50_000)
    async with await WireClient.connect(broker.bootstrap) as producer:
        request = produce_request(topic, batch(240_000), acks=0)
        began_s = time.monotonic()
        await producer.send(encode_frame(request, 1, topic.encode()))
        await ask_as(producer, "else", versions_request())
        assert time.monotonic() - began_s > 1.5


async def test_a_fetch_over_the_quota_is_empty(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    # Given a consumer that may read 20 KB in three seconds, and 19 KB batches
    await admin.create_topic(topic)
    for _ in range(3):
        await admin.produce(topic, batch(19_000))
    await set_quotas(admin, topic, consumer_byte_rate=6_700)
    async with (
        await WireClient.connect(broker.bootstrap) as one,
        await WireClient.connect(broker.bootstrap) as other,
    ):
        # When two connections of it read one batch after the other
        first = await ask_as(one, topic, fetch_request([(topic, 0, 0)]))
        second = await ask_as(one, topic, fetch_request([(topic, 0, 1)]))
        third = await ask_as(other, topic, fetch_request([(topic, 0, 2)]))
        fourth = await ask_as(other, topic, fetch_request([(topic, 0, 2)]))

    # Then the second batch is owed for
    assert first.throttle_time == milliseconds(0)
    assert 19_000 < len(first.responses[0].partitions[0].records) < 20_000
    assert 0.1 < second.throttle_time.total_seconds() <= 3
    assert 19_000 < len(second.responses[0].partitions[0].records) < 20_000

    # And until that is paid there is nothing but a throttle time
    assert 0.1 < third.throttle_time.total_seconds() <= 3
    assert not third.responses
    assert 19_000 < len(fourth.responses[0].partitions[0].records) < 20_000


async def test_the_largest_long_exempts_a_client(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    # Given a client with what kafka-configs makes of Long.MAX_VALUE: on the wire it is a double
    await admin.create_topic(topic)
    largest = {"producer_byte_rate": 2.0**63, "consumer_byte_rate": 2.0**63}
    await set_quotas(admin, topic, **largest)
    described = await describe(admin, ("client-id", EXACT, topic))
    assert shown(described) == {(("client-id", topic),): largest}

    # Then it writes and reads, and waits for nothing
    async with await WireClient.connect(broker.bootstrap) as client:
        produced = await ask_as(client, topic, produce_request(topic, batch(250_000)))
        fetched = await ask_as(client, topic, fetch_request([(topic, 0, 0)]))
    assert produced.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert len(fetched.responses[0].partitions[0].records) > 250_000
    assert produced.throttle_time == fetched.throttle_time == milliseconds(0)


async def test_a_session_goes_on_after_an_answer_that_was_over_the_quota(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    await admin.create_topic(topic)
    for _ in range(3):
        await admin.produce(topic, batch(19_000))
    await set_quotas(admin, topic, consumer_byte_rate=6_700)
    async with (
        await WireClient.connect(broker.bootstrap) as one,
        await WireClient.connect(broker.bootstrap) as other,
    ):
        # Given a session, and another connection of its client that has used up the quota
        begin = fetch_request([(topic, 0, 2)], session_epoch=0)
        session_id = (await ask_as(one, topic, begin)).session_id
        await ask_as(other, topic, fetch_request([(topic, 0, 0)]))

        # When it asks for more, then there is nothing, and a moment later there is
        owed = fetch_request([], session_id=session_id, session_epoch=1)
        paid = fetch_request([], session_id=session_id, session_epoch=2)
        answers = [await ask_as(one, topic, request) for request in (owed, paid)]
        assert [len(answer.responses) for answer in answers] == [0, 1]
        assert {answer.session_id for answer in answers} == {session_id}

        # And none begins with an answer that has nothing in it
        assert not (await ask_as(other, topic, begin)).session_id


async def test_every_api_counts_towards_the_share_of_time(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    await admin.create_topic(topic)
    await set_quotas(admin, topic, request_percentage=0.000_01)
    requests = [versions_request(), fetch_request([(topic, 0, 0)], max_wait_ms=0)]
    requests.append(produce_request(topic, batch(10)))
    for request in requests:
        async with await WireClient.connect(broker.bootstrap) as client:
            response = await ask_as(client, topic, request)
            assert 0.5 < response.throttle_time.total_seconds() <= 1


async def test_mutations_over_the_quota_are_refused(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    # Given a client that may create one partition a second, and has created ten at once
    await set_quotas(admin, topic, controller_mutation_rate=1)

    async def create(name: str, partitions: int, version: int) -> Any:
        module = request_entities(CREATE_TOPICS, version)
        new = build(
            module,
            "CreatableTopic",
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        request = module.CreateTopicsRequest(
            topics=(new,), timeout=milliseconds(5000), validate_only=False
        )
        async with await WireClient.connect(broker.bootstrap) as client:
            return await ask_as(client, topic, request)

    first = await create(topic, 10, 7)
    assert first.topics[0].error_code is ErrorCode.none
    assert first.throttle_time == milliseconds(0)

    # Then a client that knows the code is refused, one that does not is told to wait
    second = await create(f"{topic}-2", 1, 7)
    assert second.topics[0].error_code is ErrorCode.throttling_quota_exceeded
    assert 4 < second.throttle_time.total_seconds() <= 9
    third = await create(f"{topic}-3", 1, 5)
    assert third.topics[0].error_code is ErrorCode.none
    assert 4 < third.throttle_time.total_seconds() <= 10

    # And so is one that only asks about a topic, which is created then
    module = request_entities(METADATA, 12)
    asked = build(module, "MetadataRequestTopic", name=f"{topic}-4", topic_id=None)
    request = module.MetadataRequest(
        topics=(asked,), allow_auto_topic_creation=True, include_topic_authorized_operations=False
    )
    async with await WireClient.connect(broker.bootstrap) as client:
        fourth = await ask_as(client, topic, request)
    assert fourth.topics[0].error_code is ErrorCode.none
    assert 4 < fourth.throttle_time.total_seconds() <= 11


async def test_an_address_that_connects_too_often_is_served_no_more(
    broker: BrokerProcess, admin: WireClient
) -> None:
    # Given two connections a second for one address
    host, _, port = broker.bootstrap.rpartition(":")
    quota = {"connection_creation_rate": 2.0}
    assert await alter(admin, ([("ip", "127.0.0.2")], quota)) == [(ErrorCode.none, None)]

    async def served() -> bool:
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0))
        async with WireClient(reader, writer) as client:
            try:
                await client.ask(versions_request())
            except ConnectionEnded:
                return False
            return True

    # When many come at once, then not all of them are served; later ones are again
    outcomes = await asyncio.gather(*(served() for _ in range(16)))
    assert set(outcomes) == {False, True}
    assert await served()
