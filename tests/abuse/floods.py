"""Garbage, connections that come and go, and requests that cost more than they look."""

import asyncio
import itertools
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from tests.abuse.attacker import Pace, Source, Target, ask, connected
from tests.fuzz.frames import some_frame
from tests.fuzz.values import pick
from tests.support.wire import build, encode_frame, milliseconds, request_entities

GARBAGE_HOST: Final = 40
CONNECT_HOST: Final = 50
REQUEST_HOST: Final = 60
LOGIN_HOST: Final = 70

_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
_GARBAGE: Final = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    _HELLO,
    b"\xff" * 1000,
    bytes(1000),
    struct.pack(">i", 2**31 - 1) + bytes(100),
    struct.pack(">i", -1),
)


async def garbage(target: Target, end_s: float, *, per_s: float, seed: int) -> None:
    """Send what is no request, or a damaged one, each time on a connection of its own."""
    source, pace, random = Source(GARBAGE_HOST, 2), Pace(per_s), Random(seed)
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < end_s:
            await pace.wait()
            if random.random() < 0.5:
                data = pick(random, _GARBAGE) if random.random() < 0.7 else random.randbytes(5000)
            else:
                data = some_frame(random, clean_share=0.0).data
            group.create_task(_send(target, source, data))


async def _send(target: Target, source: Source, data: bytes) -> None:
    async with connected(target, source) as connection:
        if connection is not None:
            connection[1].write(data)
            target.done["garbage"] += 1
            try:
                async with asyncio.timeout(2):
                    await connection[0].read(100)
            except TimeoutError:
                return


async def connections(target: Target, end_s: float, *, per_s: float) -> None:
    """Connect and go at once."""
    source, pace = Source(CONNECT_HOST, 2), Pace(per_s)
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < end_s:
            await pace.wait()
            group.create_task(_come_and_go(target, source))


async def _come_and_go(target: Target, source: Source) -> None:
    async with connected(target, source):
        target.done["came and went"] += 1


async def logins(target: Target, end_s: float, *, per_s: float) -> None:
    """Log in with passwords that are wrong, and by mechanisms in turn."""
    if target.sasl is None:
        return
    source, pace = Source(LOGIN_HOST), Pace(per_s)
    mechanisms = itertools.cycle(("PLAIN", "SCRAM-SHA-256"))
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < end_s:
            await pace.wait()
            group.create_task(_log_in(target, source, next(mechanisms)))


async def _log_in(target: Target, source: Source, mechanism: str) -> None:
    handshake = request_entities(17, 1).SaslHandshakeRequest(mechanism=mechanism)
    message = b"\0admin\0guessed" if mechanism == "PLAIN" else b"n,,n=admin,r=guessed"
    login = request_entities(36, 2).SaslAuthenticateRequest(auth_bytes=message)
    async with connected(target, source, to=target.sasl) as connection:
        if connection is not None:
            await ask(connection, encode_frame(handshake, 1))
            await ask(connection, encode_frame(login, 2))
            target.done[f"login: {mechanism}"] += 1


async def requests(target: Target, end_s: float, *, per_s: float, kinds: str = "") -> None:
    """Ask each of the costly requests in turn, on a few connections, as fast as the pace allows."""
    source, pace = Source(REQUEST_HOST), Pace(per_s)
    chosen = [one for one in costly_requests(target) if kinds in one[0]]
    if not chosen:
        return
    turns = itertools.cycle(chosen)

    async def one() -> None:
        while time.monotonic() < end_s:
            async with connected(target, source) as connection:
                while connection is not None and time.monotonic() < end_s:
                    await pace.wait()
                    name, make = next(turns)
                    await ask(connection, encode_frame(make(), 1), timeout_s=10)
                    target.done[f"request: {name}"] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(one())


def costly_requests(target: Target) -> list[tuple[str, Callable[[], Any]]]:
    """Return requests by name; each call makes another one."""
    numbers = itertools.count()
    return [
        ("Metadata of all topics", _metadata),
        ("DescribeConfigs of all", lambda: _describe_configs(target)),
        ("ListOffsets of many", lambda: _list_offsets(target)),
        ("JoinGroup of new members", lambda: _join(numbers)),
        ("InitProducerId", _init_producer_id),
        ("a regular expression", lambda: _subscribe(numbers)),
        ("CreateTopics, refused", lambda: _create_topics(numbers)),
        ("garbage for a group", lambda: _join(numbers, metadata=b"\xff" * 100_000)),
    ]


def _metadata() -> Any:
    return request_entities(3, 9).MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


def _describe_configs(target: Target) -> Any:
    module = request_entities(32, 4)
    names: Iterator[tuple[int, str]] = iter(
        [(4, "0"), *((2, one) for one in target.topics.values())]
    )
    return module.DescribeConfigsRequest(
        resources=tuple(
            module.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for kind, name in names
        ),
        include_synonyms=True,
        include_documentation=True,
    )


def _list_offsets(target: Target) -> Any:
    module = request_entities(2, 7)
    partitions = tuple(
        module.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1)
        for index in range(1000)
    )
    return module.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(module.ListOffsetsTopic(name=target.topics["many"], partitions=partitions),),
    )


def _join(numbers: Iterator[int], metadata: bytes = b"\0\0\0\0\0\0\0\0\0\0") -> Any:
    """Return a JoinGroup of a client that knows no member ids (KIP-394): each is a new member."""
    module = request_entities(11, 2)
    return module.JoinGroupRequest(
        group_id=f"flood-{next(numbers) % 5}",
        session_timeout=milliseconds(6000),
        rebalance_timeout=milliseconds(100),
        member_id="",
        protocol_type="consumer",
        protocols=(module.JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


def _init_producer_id() -> Any:
    return request_entities(22, 4).InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout=milliseconds(60_000),
        producer_id=-1,
        producer_epoch=-1,
    )


def _subscribe(numbers: Iterator[int]) -> Any:
    module = request_entities(68, 1)
    return build(
        module,
        "ConsumerGroupHeartbeatRequest",
        group_id=f"regex-{next(numbers) % 5}",
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=milliseconds(60_000),
        subscribed_topic_names=(),
        subscribed_topic_regex="(" + "a{1,30}" * 30 + ")+" + str(next(numbers)) + ".*",
        server_assignor=None,
        topic_partitions=(),
    )


def _create_topics(numbers: Iterator[int]) -> Any:
    module = request_entities(19, 7)
    return module.CreateTopicsRequest(
        topics=tuple(
            module.CreatableTopic(
                name=f"refused-{next(numbers)}",
                num_partitions=1,
                replication_factor=1,
                assignments=(),
                configs=(module.CreatableTopicConfig(name="retention.ms", value="x" * 1000),),
            )
            for _ in range(100)
        ),
        timeout=milliseconds(1000),
        validate_only=False,
    )
