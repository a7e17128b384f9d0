"""Small batches that are very large, or very much work, for who looks into them."""

import asyncio
import gzip
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import lz4.frame
import zstandard
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from protocol.compression import Codec
from protocol.records import Record, encode_records
from tests.abuse.attacker import Connected, Pace, Source, Target, ask, connected
from tests.fuzz.batches import bomb, with_payload
from tests.support.wire import encode_frame, milliseconds, produce_request, request_entities

FIRST_HOST: Final = 30
MOST_BYTES: Final = 1_000_000
MANY_RECORDS: Final = 400_000

_ZEROS: Final = bytes(16 * 2**20)


@dataclass(frozen=True, slots=True)
class Bomb:
    """One batch, or the metadata of one member."""

    name: str
    data: bytes


def make_bombs() -> list[Bomb]:
    """Return one of each kind for each codec; it takes some seconds."""
    many = encode_records(Record(offset_delta=at, key=b"") for at in range(MANY_RECORDS))
    plain = encode_records(Record(offset_delta=at, key=b"") for at in range(MANY_RECORDS // 5))
    made = [Bomb("many records, none", bomb(Codec.NONE, plain, MANY_RECORDS // 5))]
    one = encode_records([Record(offset_delta=0, key=b"k", value=_ZEROS)])
    for codec, stream in _streams():
        name = codec.name.lower()
        made.append(Bomb(f"gigabytes, {name}", with_payload(bomb(codec, b"", 1), stream)))
        made.append(Bomb(f"one large record, {name}", bomb(codec, one, 1)))
        made.append(Bomb(f"many records, {name}", bomb(codec, many, MANY_RECORDS)))
    return [each for each in made if len(each.data) <= MOST_BYTES]


def _streams() -> Iterator[tuple[Codec, bytes]]:
    """Yield streams of up to a megabyte that end in as many zeros as the codec can pack."""
    for codec, frame in (
        (Codec.GZIP, gzip.compress(_ZEROS, 9)),
        (Codec.LZ4, lz4.frame.compress(_ZEROS)),
        (Codec.ZSTD, zstandard.ZstdCompressor(19).compress(_ZEROS)),
    ):
        yield codec, frame * min(MOST_BYTES // len(frame) - 1, 1000)
    yield Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\xfe\x01\x00" * 100_000  # announces 4 GiB


async def attack(target: Target, end_s: float, *, per_s: float, bombs: list[Bomb]) -> None:
    """Send them to every topic whose records are looked into, and one connection does not wait."""
    source, pace = Source(FIRST_HOST), Pace(per_s)
    topics = [target.topics[name] for name in sorted(target.topics)]
    turn = 0
    async with asyncio.TaskGroup() as group:
        under_way = asyncio.Semaphore(20)
        while time.monotonic() < end_s:
            await pace.wait()
            each, topic = bombs[turn % len(bombs)], topics[turn % len(topics)]
            turn += 1
            await under_way.acquire()
            frame = encode_frame(produce_request(topic, each.data, timeout_ms=5000), 1)
            group.create_task(_send(target, source, frame, each.name, under_way))
            if not turn % 10:
                await under_way.acquire()
                group.create_task(_members(target, source, under_way))


async def _send(
    target: Target, source: Source, frame: bytes, name: str, under_way: asyncio.Semaphore
) -> None:
    try:
        async with connected(target, source) as connection:
            if connection is not None:
                await ask(connection, frame)
                target.done[f"bomb: {name}"] += 1
    finally:
        under_way.release()


async def _members(target: Target, source: Source, under_way: asyncio.Semaphore) -> None:
    """Send metadata of a megabyte with as many empty topic names as fit, and of metrics."""
    try:
        async with connected(target, source) as connection:
            if connection is not None:
                await ask(connection, encode_frame(_join(), 1))
                await _push(connection)
                target.done["bomb: member, metrics"] += 1
    finally:
        under_way.release()


def _join() -> object:
    module = request_entities(11, 5)
    names = struct.pack(">hi", 0, 400_000) + b"\0\0" * 400_000
    return module.JoinGroupRequest(
        group_id=f"bomb-{time.monotonic_ns() % 50}",
        session_timeout=milliseconds(6000),
        rebalance_timeout=milliseconds(6000),
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=(module.JoinGroupRequestProtocol(name="range", metadata=names),),
    )


async def _push(connection: Connected) -> None:
    message = MetricsData()
    points = (
        message.resource_metrics.add().scope_metrics.add().metrics.add(name="m").sum.data_points
    )
    for _ in range(10_000):
        points.add(as_double=1.0)
    data = zstandard.ZstdCompressor().compress(message.SerializeToString())
    subscribe = request_entities(71, 0).GetTelemetrySubscriptionsRequest(client_instance_id=None)
    await ask(connection, encode_frame(subscribe, 2))
    push = request_entities(72, 0).PushTelemetryRequest(
        client_instance_id=None,
        subscription_id=0,
        terminating=False,
        compression_type=int(Codec.ZSTD),
        metrics=data,
    )
    await ask(connection, encode_frame(push, 3))
