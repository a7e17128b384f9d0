"""aiokafka and a cluster that asks who is there. It does not authenticate again (KIP-368)."""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Coroutine, Iterator
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError, KafkaError, for_code
from aiokafka.protocol.metadata import MetadataRequest

from tests.clients.logins import MECHANISMS, SASL_PROTOCOLS, Login
from tests.clients.refused_logins import (
    AUTHENTICATION,
    STRANGER,
    TLS,
    refused_logins,
)
from tests.clients.secured import Secured, acl, traffic
from tests.clients.secured_brokers import REAUTH_MS

DONE: Final = "done"
CALL_S: Final = 90.0
SCRAM: Final = ("SASL_SSL", "SCRAM-SHA-256")
RECORDS: Final = ("a", "b", "c")
TOPIC_REFUSED: Final = "TopicAuthorizationFailedError"
GROUP_REFUSED: Final = "GroupAuthorizationFailedError"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """It logs what it is refused as errors, which here is what is wanted."""
    logger = logging.getLogger("aiokafka")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


async def _send(login: Login, topic: str, *values: str, **settings: Any) -> None:
    producer = AIOKafkaProducer(**login.aiokafka(), **settings)
    try:  # not `async with`: what fails to start has to be stopped as well
        async with asyncio.timeout(CALL_S):
            await producer.start()
            for value in values:
                await producer.send_and_wait(topic, value.encode())
    finally:
        await producer.stop()


def _consumer(login: Login, topic: str, group: str) -> Any:
    return AIOKafkaConsumer(
        topic,
        **login.aiokafka(),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,  # its last commit never ends if its connection has just ended
    )


async def _read(login: Login, topic: str, group: str, count: int) -> list[str]:
    consumer = _consumer(login, topic, group)
    values: list[str] = []
    try:
        async with asyncio.timeout(CALL_S):
            await consumer.start()
            while len(values) < count:
                record = await consumer.getone()
                await consumer.commit()
                values.append(record.value.decode())
    finally:
        await consumer.stop()
    return values


async def _send_and_read(login: Login, topic: str) -> None:
    await _send(login, topic, *RECORDS)
    read = await _read(login, topic, f"group-of-{login.user}", len(RECORDS))
    assert tuple(read) == RECORDS


async def _came_to(calls: dict[str, Coroutine[Any, Any, object]]) -> dict[str, str]:
    """Make all calls at the same time; return DONE or the error's name for each."""

    async def outcome(call: Awaitable[object]) -> str:
        try:
            await call
        except (KafkaError, OSError) as refused:
            return type(refused).__name__
        return DONE

    outcomes = await asyncio.gather(*(outcome(call) for call in calls.values()))
    return dict(zip(calls, outcomes, strict=True))


async def test_every_mechanism_lets_in_who_may_do_exactly_that(secured: Secured) -> None:
    calls: dict[str, Coroutine[Any, Any, object]] = {}
    for protocol, mechanism in (("SSL", ""), *itertools.product(SASL_PROTOCOLS, MECHANISMS)):
        user, topic = secured.new_user(), secured.new_topic()
        secured.allow(*traffic(user, topic, f"group-of-{user}"))
        login = secured.login(user, protocol, mechanism)
        calls[f"{protocol} {mechanism}"] = _send_and_read(login, topic)
    assert await _came_to(calls) == dict.fromkeys(calls, DONE)


async def _attempt(login: Login) -> None:
    """Connect and ask one thing, without the client that would try again and say less.

    It takes a refused token for an accepted one, and learns better when it asks.
    """
    arguments = login.aiokafka()
    host, _, port = arguments.pop("bootstrap_servers").partition(":")
    connection = AIOKafkaConnection(host, int(port), **arguments)
    try:
        async with asyncio.timeout(CALL_S):
            await connection.connect()
            answer = await connection.send(MetadataRequest([]))
            if not answer.brokers:  # what Apache Kafka tells a stranger before it hangs up
                raise KafkaConnectionError
    finally:
        connection.close()


def test_every_wrong_login_is_refused(secured: Secured, strict: Secured) -> None:
    logins = refused_logins(secured, strict)

    async def attempts() -> dict[str, str]:
        return await _came_to({one.name: _attempt(one.login) for one in logins})

    came_to = asyncio.run(attempts())
    kinds = {one.name: one.kind for one in logins}
    expected = {name: {"KafkaConnectionError"} for name in kinds}
    for name, kind in kinds.items():
        if kind in (TLS, STRANGER):
            expected[name] |= {"SSLCertVerificationError", "SSLError", "ConnectionResetError"}
        elif name.endswith("is not enabled"):
            expected[name] = {"UnsupportedSaslMechanismError"}
        elif kind == AUTHENTICATION and not name.startswith("token"):
            expected[name] = {"SaslAuthenticationFailed"}
    surprises = {name: came_to[name] for name in kinds if came_to[name] not in expected[name]}
    assert not surprises, surprises


async def test_what_no_acl_allows_is_refused(secured: Secured) -> None:
    topic, nobody, seeing = secured.new_topic(), secured.new_user(), secured.new_user()
    secured.allow(
        *acl(seeing, "DESCRIBE", "TOPIC", topic),
        *acl(seeing, "READ", "GROUP", "seen"),
        *acl(nobody, ["READ", "WRITE"], "TOPIC", topic),
    )
    login, seen = secured.login(nobody, *SCRAM), secured.login(seeing, *SCRAM)
    came_to = await _came_to(
        {
            "send": _send(seen, topic, "x"),
            "send to what is not there": _send(seen, "missing", "x"),
            "read": _read(seen, topic, "seen", 1),
            "group": _read(login, topic, "not-mine", 1),
            "transaction": _send(login, topic, transactional_id="not-mine"),
            "create": _create(login, "not-mine"),
        }
    )
    assert came_to == {
        "send": TOPIC_REFUSED,
        "send to what is not there": TOPIC_REFUSED,
        "read": TOPIC_REFUSED,
        "group": GROUP_REFUSED,
        "transaction": "TransactionalIdAuthorizationFailed",
        "create": TOPIC_REFUSED,
    }
    assert secured.end_offset(topic) == 0


async def _create(login: Login, topic: str) -> None:
    admin = AIOKafkaAdminClient(**login.aiokafka())
    try:
        await admin.start()
        answer = await admin.create_topics([NewTopic(topic, 1, 1)])
        raise for_code(answer.topic_errors[0][1])
    finally:
        await admin.close()


async def test_what_is_revoked_ends_at_once(secured: Secured) -> None:
    user, topic = secured.new_user(), secured.new_topic()
    group = f"group-of-{user}"
    writes, reads = acl(user, "WRITE", "TOPIC", topic), acl(user, "READ", "TOPIC", topic)
    joins = acl(user, "READ", "GROUP", group)
    await asyncio.to_thread(secured.allow, *writes, *reads, *joins)
    login = secured.login(user, *SCRAM)
    producer = AIOKafkaProducer(**login.aiokafka())
    consumer = _consumer(login, topic, group)
    async with asyncio.timeout(CALL_S), producer, consumer:
        for value in (b"first", b"second"):
            await producer.send_and_wait(topic, value)
        assert (await consumer.getone()).value == b"first"

        # When each right is taken away in turn
        await asyncio.to_thread(secured.revoke, *joins)
        with pytest.raises(KafkaError, match=GROUP_REFUSED):
            await consumer.commit()
        await asyncio.to_thread(secured.revoke, *reads)
        with pytest.raises(KafkaError, match=TOPIC_REFUSED):
            await _read_on(consumer)
        await asyncio.to_thread(secured.revoke, *writes)
        with pytest.raises(KafkaError, match=TOPIC_REFUSED):
            await producer.send_and_wait(topic, b"third")


async def _read_on(consumer: Any) -> None:
    while True:
        await consumer.getone()


async def test_who_cannot_authenticate_again_connects_again(secured: Secured) -> None:
    """It is cut off when its time is over, and loses and repeats nothing by that."""
    user, topic = secured.new_user(), secured.new_topic()
    group = f"group-of-{user}"
    await asyncio.to_thread(secured.allow, *traffic(user, topic, group))
    login = secured.login(user, *SCRAM)
    producer = AIOKafkaProducer(**login.aiokafka(), enable_idempotence=True)
    consumer = _consumer(login, topic, group)
    sent, read = 0, 0
    async with asyncio.timeout(CALL_S), producer, consumer:
        ends_s = time.monotonic() + 3 * REAUTH_MS / 1000
        while time.monotonic() < ends_s:
            await producer.send_and_wait(topic, b"%d" % sent)
            sent += 1
            assert (await consumer.getone()).value == b"%d" % read
            read += 1
    assert await asyncio.to_thread(secured.end_offset, topic) == sent
