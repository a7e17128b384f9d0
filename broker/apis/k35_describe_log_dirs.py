"""DescribeLogDirs: v1-5. v3 top-level error, v4 volume sizes (KIP-827), v5 cordoned (KIP-1066).

One directory, the object store. A partition is told of by its leader only, so that sums over the
brokers are right: its bytes are there once, whatever its replication factor is. As in Kafka a size
is that of the batches, without indexes. A store has no size of its own: -1 is unknown.

A broker that gets no sizes from Postgres, and has none from before, says so of the directory, not
of the request: UIs drop whole lists of topics when the request fails.

ACLs: DESCRIBE on the cluster.
"""

from collections.abc import Awaitable, Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.log_dirs import Sizes
from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic
from protocol.ids import Partition
from storage.errors import MetadataUnavailable

_UNKNOWN_BYTES: Final = -1

Wanted = dict[str, list[Partition]]
"""Partitions by their topics' names."""


async def handle(request: Request) -> Awaitable[Payload]:
    """Describe this broker's share of the store."""
    return _respond(request, request.decode())


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Describe nothing; from v3 on the answer tells why."""
    return _response(request, refusal.code)


async def _respond(request: Request, body: Any) -> Payload:
    code = ErrorCode.none
    wanted: Wanted = {}
    sizes: Sizes = {}
    try:
        wanted, sizes = await _measure(request, body)
    except MetadataUnavailable:
        code = ErrorCode.kafka_storage_error
    gradually = Gradually()
    topics = [
        await _topic(request, name, partitions, sizes, gradually)
        for name, partitions in wanted.items()
    ]
    described = request.types.DescribeLogDirsResult(
        error_code=code,
        log_dir=request.services.log_dir.name,
        topics=tuple(topics),
        total_bytes=_UNKNOWN_BYTES,
        usable_bytes=_UNKNOWN_BYTES,
        is_cordoned=False,
    )
    return _response(request, ErrorCode.none, described)


def _response(request: Request, code: ErrorCode, *results: object) -> Payload:
    response: Payload = request.types.DescribeLogDirsResponse(
        throttle_time=NOT_THROTTLED, error_code=code, results=results
    )
    return response


async def _measure(request: Request, body: Any) -> tuple[Wanted, Sizes]:
    services = request.services
    if body.topics is None:
        wanted = _led(request, services.topics.all())
        sizes = await services.log_dir.all_sizes(
            services.cluster.generation, lambda: _partitions(wanted)
        )
        return wanted, sizes
    wanted = await _asked(request, body)
    return wanted, await services.log_dir.sizes(_partitions(wanted))


async def _asked(request: Request, body: Any) -> Wanted:
    """Return what is asked for and led here; what does not exist is left out."""
    indexes: dict[str, set[int]] = {}
    for asked in body.topics:
        indexes.setdefault(asked.topic, set()).update(asked.partitions)
    topics = request.services.topics
    found = [topic for name in indexes if (topic := await topics.find(name)) is not None]
    return {
        name: asked
        for name, led in _led(request, found).items()
        if (asked := [partition for partition in led if partition.index in indexes[name]])
    }


def _led(request: Request, topics: Iterable[KnownTopic]) -> Wanted:
    cluster = request.services.cluster
    return {
        known.topic.name: led
        for known in topics
        if (led := [log.partition for log in known.logs if cluster.leads(log.partition)])
    }


def _partitions(wanted: Wanted) -> list[Partition]:
    return [partition for partitions in wanted.values() for partition in partitions]


async def _topic(
    request: Request, name: str, partitions: list[Partition], sizes: Sizes, gradually: Gradually
) -> object:
    types = request.types
    described = (
        types.DescribeLogDirsPartition(
            partition_index=partition.index,
            partition_size=sizes.get(partition, 0),
            offset_lag=0,
            is_future_key=False,
        )
        for partition in partitions
    )
    return types.DescribeLogDirsTopic(name=name, partitions=await gradually.made(described))
