"""AlterReplicaLogDirs: v1-2 (KIP-113). v2 flexible.

There is one directory (see k35): to move a replica there is done, there is no other. A broker has
the replicas that Metadata names it for.

ACLs: ALTER on the cluster.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import CONDITIONS, Refusal, code_of
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic


async def handle(request: Request) -> Payload:
    """Accept what is so, and refuse all else; each partition answers for itself."""
    gradually = Gradually()
    results = []
    async for asked in gradually.each(request.decode().dirs):
        async for topic in gradually.each(asked.topics):
            codes = await _codes(request, asked.path, topic)
            partitions = await gradually.made(_partitions(request, topic, codes))
            results.append(_topic(request, topic, partitions))
    return _response(request, results)


def refuse(request: Request, refusal: Refusal) -> Payload:
    """Answer each partition with the refusal."""
    results = [
        _topic(request, topic, _partitions(request, topic, repeat(refusal.code)))
        for asked in request.decode().dirs
        for topic in asked.topics
    ]
    return _response(request, results)


def _response(request: Request, results: Iterable[object]) -> Payload:
    response: Payload = request.types.AlterReplicaLogDirsResponse(
        throttle_time=NOT_THROTTLED, results=tuple(results)
    )
    return response


def _topic(request: Request, asked: Any, partitions: Iterable[object]) -> object:
    return request.types.AlterReplicaLogDirTopicResult(
        topic_name=asked.name, partitions=tuple(partitions)
    )


def _partitions(request: Request, asked: Any, codes: Iterable[ErrorCode]) -> Iterator[object]:
    result = request.types.AlterReplicaLogDirPartitionResult
    for index, code in zip(asked.partitions, codes, strict=False):
        yield result(partition_index=index, error_code=code)


async def _codes(request: Request, path: str, asked: Any) -> Iterable[ErrorCode]:
    """Return a code for each partition, at least."""
    if path != request.services.log_dir.name:
        return repeat(ErrorCode.log_dir_not_found)
    try:
        topic = await request.services.topics.find(asked.name)
    except CONDITIONS as condition:
        return repeat(code_of(condition))
    return (_code(request, topic, index) for index in asked.partitions)


def _code(request: Request, topic: KnownTopic | None, index: int) -> ErrorCode:
    log = None if topic is None else topic.log(index)
    if topic is None or log is None:
        return ErrorCode.unknown_topic_or_partition
    brokers = request.services.cluster.brokers
    rack = request.services.cluster.rack_of(request.header.client_id)
    replicas = brokers.replicas(log.partition, topic.topic.replication_factor, rack)
    if brokers.membership.node_id not in replicas:
        return ErrorCode.replica_not_available
    return ErrorCode.none
