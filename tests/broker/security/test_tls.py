"""TLS listeners: who is served there, and as whom."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from protocol.records import Record, build_batch
from tests.support.tls import TlsBroker, running_tls_broker
from tests.support.wire import (
    WireClient,
    encode_frame,
    fetch_request,
    milliseconds,
    produce_request,
    request_entities,
)

MIB: Final = 1024 * 1024
BATCH: Final = build_batch([Record(offset_delta=0, value=bytes(range(256)) * 3600)])
"""Nearly as large as a batch may be."""

BATCHES: Final = 20
MANY: Final = 40
RULES: Final = "RULE:^CN=(.*?),OU=Users,.*$/$1/L,DEFAULT"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    """Return a broker where alice may do everything, others nothing."""
    settings = {
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": RULES,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:CN=Zoë\\, the first,O=Example",
    }
    home = tmp_path_factory.mktemp("tls")
    secrets = {"KEY_PASSWORD": "keep out"}
    with running_tls_broker(home, "SSL", settings=settings, secrets=secrets) as running:
        yield running


def greet_slowly(tls: TlsBroker, context: ssl.SSLContext) -> str | None:
    """Shake hands with a hello that comes byte by byte; return the version agreed on."""
    host, _, port = tls.addresses["SSL"].rpartition(":")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=host)
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                client.do_handshake()
                return client.version()
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    raw.sendall(bytes([byte]))
                incoming.write(raw.recv(65_536))


@pytest.fixture
def alice(tls: TlsBroker) -> ssl.SSLContext:
    return tls.context(tls.certificate("CN=Alice,OU=Users,O=Example"))


async def create(wire: WireClient, name: str) -> ErrorCode:
    """Return what the client hears that creates a topic."""
    module = request_entities(19, 7)
    topic = module.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    request = module.CreateTopicsRequest(
        topics=(topic,), timeout=milliseconds(10_000), validate_only=False
    )
    (result,) = (await wire.ask(request)).topics
    return ErrorCode(result.error_code)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_of_tls_carry_small_and_large_frames(
    tls: TlsBroker, alice: ssl.SSLContext, topic: str, version: ssl.TLSVersion
) -> None:
    # Given a client of one version of TLS
    alice.minimum_version = alice.maximum_version = version
    async with await WireClient.connect(tls.addresses["SSL"], tls=alice) as wire:
        await wire.create_topic(topic)

        # When it sends large requests, and asks for a larger answer
        for _ in range(BATCHES):
            assert (await wire.produce(topic, BATCH)).error_code == 0
        asked = fetch_request(
            [(topic, 0, 0)], max_bytes=50 * MIB, partition_max_bytes=50 * MIB, max_wait_ms=0
        )
        records = (await wire.ask(asked)).responses[0].partitions[0].records

        # Then all of it comes back as it was
        assert len(records) == BATCHES * len(BATCH)
        for at in range(BATCHES):  # what the broker sets of a batch is before byte 21
            start = at * len(BATCH)
            assert records[start + 21 : start + len(BATCH)] == BATCH[21:]


async def test_a_hello_may_come_in_pieces(tls: TlsBroker, alice: ssl.SSLContext) -> None:
    assert await asyncio.to_thread(greet_slowly, tls, alice) == "TLSv1.3"


async def test_requests_sent_together_are_answered_in_their_order(
    tls: TlsBroker, alice: ssl.SSLContext
) -> None:
    request = request_entities(18, 2).ApiVersionsRequest()
    async with await WireClient.connect(tls.addresses["SSL"], tls=alice) as wire:
        await wire.send(b"".join(encode_frame(request, at) for at in range(300)))
        assert [(await wire.receive(request))[0] for _ in range(300)] == list(range(300))


async def test_who_does_not_read_is_not_given_more_and_loses_nothing(
    tls: TlsBroker, alice: ssl.SSLContext, topic: str
) -> None:
    # Given a topic of megabytes, and a client that has asked for all of it ten times
    asked = fetch_request(
        [(topic, 0, 0)], max_bytes=50 * MIB, partition_max_bytes=50 * MIB, max_wait_ms=0
    )
    async with (
        await WireClient.connect(tls.addresses["SSL"], tls=alice) as other,
        await WireClient.connect(tls.addresses["SSL"], tls=alice) as wire,
    ):
        await other.create_topic(topic)
        for _ in range(5):
            await other.produce(topic, BATCH)
        await wire.send(b"".join(encode_frame(asked, at) for at in range(10)))

        # When it reads nothing while another one is served
        assert (await other.fetch(topic, 0, max_bytes=2 * MIB)).records

        # Then it gets every answer when it does
        for at in range(10):
            correlation_id, answer = await wire.receive(asked)
            assert correlation_id == at
            assert len(answer.responses[0].partitions[0].records) == 5 * len(BATCH)


async def test_the_subject_of_a_certificate_becomes_the_user(
    tls: TlsBroker, alice: ssl.SSLContext, topic: str
) -> None:
    denied = ErrorCode.topic_authorization_failed
    for number, (context, expected) in enumerate(
        (
            (alice, ErrorCode.none),  # a rule makes it alice
            (tls.context(tls.certificate("CN=bob,OU=Users,O=Example")), denied),
            (tls.context(tls.certificate("CN=alice,OU=Robots,O=Example")), denied),
            (tls.context(tls.certificate("CN=Zoë\\, the first,O=Example")), ErrorCode.none),
            (tls.context(), denied),  # ANONYMOUS
        )
    ):
        async with await WireClient.connect(tls.addresses["SSL"], tls=context) as wire:
            assert await create(wire, f"{topic}-{number}") == expected, number


def ask_once(
    tls: TlsBroker, context: ssl.SSLContext, session: ssl.SSLSession | None, request: bytes
) -> tuple[ssl.SSLSession | None, bool, bytes]:
    """Return the session of TLS, whether it is the old one, and what the broker answers."""
    host, _, port = tls.addresses["SSL"].rpartition(":")
    with (
        socket.create_connection((host, int(port))) as raw,
        context.wrap_socket(raw, server_hostname=host, session=session) as secured,
    ):
        secured.sendall(request)
        answer = secured.recv(65_536)
        return secured.session, bool(secured.session_reused), answer


async def test_a_session_that_is_resumed_belongs_to_the_same_user(
    tls: TlsBroker, alice: ssl.SSLContext, topic: str
) -> None:
    # Given a session of alice's
    async with await WireClient.connect(tls.addresses["SSL"], tls=alice) as wire:
        await wire.create_topic(topic)
    module = request_entities(3, 1)
    request = encode_frame(module.MetadataRequest(topics=()), 1)
    asked = module.MetadataRequest(topics=(module.MetadataRequestTopic(name=topic),))
    session, resumed, _ = await asyncio.to_thread(ask_once, tls, alice, None, request)
    assert not resumed

    # When she resumes it, and asks what only she may know
    frame = encode_frame(asked, 2)
    _, resumed, answer = await asyncio.to_thread(ask_once, tls, alice, session, frame)

    # Then she is told
    assert resumed
    kind: Any = load_response_schema(3, 1)
    response, _ = entity_reader(kind)(answer, 8)
    assert response.topics[0].error_code == ErrorCode.none


async def test_nothing_is_lost_of_a_producer_that_waits_for_no_answer(
    tls: TlsBroker, alice: ssl.SSLContext
) -> None:
    # Given a compacted topic: that records have keys is looked at in a thread
    address = tls.addresses["SSL"]
    async with await WireClient.connect(address, tls=alice) as wire:
        await wire.create_topic("compacted", cleanup_policy="compact")

        # When a producer sends more than is read ahead with acks=0, and closes at once
        batch = build_batch([Record(offset_delta=0, key=b"k", value=bytes(4000))])
        request = produce_request("compacted", batch, acks=0)
        frames = [encode_frame(request, number) for number in range(MANY)]
        await asyncio.to_thread(send_and_close, address, alice, b"".join(frames))

        # Then all of it is there
        async with asyncio.timeout(20):
            while (await wire.list_offset("compacted", -1)).offset < MANY:
                await asyncio.sleep(0.05)


def send_and_close(address: str, context: ssl.SSLContext, data: bytes) -> None:
    host, port = address.rsplit(":", 1)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # else it would not read tickets, and so reset
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain, server_hostname=host) as producer,
    ):
        producer.sendall(data)
