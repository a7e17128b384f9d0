"""Connections that cost their owner nothing, and are held for as long as the broker lets them."""

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Final

from tests.abuse.attacker import Connected, Source, Target, connected
from tests.support.wire import encode_frame, fetch_request, request_entities

FIRST_HOST: Final = 10
HOSTS: Final = 8
ANNOUNCED_BYTES: Final = 100 * 2**20
BACK_S: Final = 1.0
"""A closed connection is opened again after that."""

_DRIP_S: Final = 1.0
_SPREAD_S: Final = 10.0
_METADATA_REQUESTS: Final = 40
_FETCH_REQUESTS: Final = 10
_HELLO: Final = bytes.fromhex("160301020001fc0303") + bytes(200)

Hold = Callable[[Target, Connected], Awaitable[None]]


async def attack(target: Target, end_s: float, *, count: int, kinds: str = "") -> None:
    """Hold so many connections, a like number of each kind whose name has that text."""
    source = Source(FIRST_HOST, HOSTS)
    chosen = [one for one in kinds_for(target) if kinds in one[0]]
    if not chosen:
        return
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            kind, hold, address = chosen[number % len(chosen)]
            delay_s = _SPREAD_S * number / count
            group.create_task(_again(target, source, end_s, kind, hold, address, delay_s))


def kinds_for(target: Target) -> list[tuple[str, Hold, tuple[str, int]]]:
    """Return the kinds that there are listeners for: name, what it does, where."""
    plain = target.address
    kinds: list[tuple[str, Hold, tuple[str, int]]] = [
        ("silent", _silent, plain),
        ("one byte a second", _drip, plain),
        ("half a header", _half_header, plain),
        ("half a frame of 100 MiB", _half_frame, plain),
        ("deaf to Metadata", _deaf_to_metadata, plain),
        ("deaf to Fetch", _deaf_to_fetch, plain),
    ]
    if target.tls is not None:
        kinds += [
            ("half a handshake", _half_handshake, target.tls),
            ("no hello", _silent, target.tls),
        ]
    if target.sasl is not None:
        kinds.append(("half a login", _half_login, target.sasl))
    return kinds


async def _again(
    target: Target,
    source: Source,
    end_s: float,
    kind: str,
    hold: Hold,
    address: tuple[str, int],
    delay_s: float,
) -> None:
    await asyncio.sleep(delay_s)
    while (left_s := end_s - time.monotonic()) > 0:
        try:
            async with asyncio.timeout(left_s), connected(target, source, to=address) as connection:
                if connection is not None:
                    target.done[f"slow: {kind}"] += 1
                    await hold(target, connection)
        except TimeoutError:
            return
        await asyncio.sleep(BACK_S)


async def _until_ended(connection: Connected) -> None:
    """Wait for the broker to end it; whatever comes is thrown away."""
    while await connection[0].read(2**16):
        pass


async def _silent(_: Target, connection: Connected) -> None:
    await _until_ended(connection)


async def _drip(_: Target, connection: Connected) -> None:
    frame = encode_frame(request_entities(18, 0).ApiVersionsRequest(), 1, client_id=b"x" * 200)
    for byte in frame:
        connection[1].write(bytes((byte,)))
        await connection[1].drain()
        await asyncio.sleep(_DRIP_S)
    await _until_ended(connection)


async def _half_header(_: Target, connection: Connected) -> None:
    connection[1].write(b"\0\0")
    await _until_ended(connection)


async def _half_frame(_: Target, connection: Connected) -> None:
    """Announce as much as is allowed, send a little of it."""
    connection[1].write(struct.pack(">ihhi", ANNOUNCED_BYTES, 0, 9, 1) + bytes(1000))
    await _until_ended(connection)


async def _half_handshake(_: Target, connection: Connected) -> None:
    connection[1].write(_HELLO[:100])
    await _until_ended(connection)


async def _half_login(_: Target, connection: Connected) -> None:
    handshake = request_entities(17, 1).SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
    connection[1].write(encode_frame(handshake, 1))
    await _until_ended(connection)


async def _deaf_to_metadata(target: Target, connection: Connected) -> None:
    request = request_entities(3, 9).MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    await _deaf(target, connection, encode_frame(request, 1), _METADATA_REQUESTS)


async def _deaf_to_fetch(target: Target, connection: Connected) -> None:
    wanted = fetch_request([(target.topics["large"], 0, 0)], max_bytes=2**26, min_bytes=1)
    await _deaf(target, connection, encode_frame(wanted, 1), _FETCH_REQUESTS)


async def _deaf(target: Target, connection: Connected, frame: bytes, count: int) -> None:
    """Ask again and again, and read nothing until the broker ends it.

    The stream takes a few kilobytes by itself, then the kernel's buffers fill, then the broker's.
    """
    for _ in range(count):
        connection[1].write(frame)
        target.done["requests, not read"] += 1
    await connection[1].drain()
    while not connection[1].transport.is_closing():
        await asyncio.sleep(BACK_S)
        connection[1].write(frame)
