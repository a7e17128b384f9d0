"""DescribeLogDirs and AlterReplicaLogDirs over the wire: one directory, the object store."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.broker.admin.questions import create
from tests.broker.admin.wire import Api, Wire
from tests.support.broker import BrokerProcess
from tests.support.wire import WireClient

ALTER_REPLICA_LOG_DIRS = 34
DESCRIBE_LOG_DIRS = 35
UNKNOWN = -1
KEPT_S = 30.0
GLANCE_S = 0.05
LAST = 5

Asked = Iterable[tuple[str, Sequence[int]]]


def describe(wire: Wire, asked: Asked | None, *, version: int = LAST) -> Any:
    """Return the one directory that there is."""
    api = Api(DESCRIBE_LOG_DIRS, version)
    topics = None
    if asked is not None:
        topics = tuple(
            api.part("DescribableLogDirTopic", topic=name, partitions=tuple(indexes))
            for name, indexes in asked
        )
    answer = wire.ask(api.request(topics=topics))
    assert version < 3 or answer.error_code is ErrorCode.none
    (log_dir,) = answer.results
    assert log_dir.error_code is ErrorCode.none
    return log_dir


def sizes(log_dir: Any) -> dict[str, dict[int, int]]:
    assert all(
        (each.offset_lag, each.is_future_key) == (0, False)
        for topic in log_dir.topics
        for each in topic.partitions
    )
    return {
        topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
        for topic in log_dir.topics
    }


@pytest.mark.parametrize("version", range(1, LAST + 1))
async def test_a_partition_is_as_large_as_what_was_produced(
    wire: Wire, admin_broker: BrokerProcess, name: str, version: int
) -> None:
    # Given a topic of two replicas, with two batches in one of its partitions
    create(wire, name, partitions=3, replicas=2)
    batch = build_batch([Record(offset_delta=0, value=b"x" * 1000)])
    async with await WireClient.connect(admin_broker.bootstrap) as client:
        for _ in range(2):
            assert (await client.produce(name, batch, partition=1)).error_code == 0

    expected = {0: 0, 1: 2 * len(batch), 2: 0}

    # When two partitions are asked for, and some that are not there
    log_dir = describe(wire, [(name, (1, 9, 1)), ("no-such-topic", (0,)), (name, (0,))])

    # Then each that is there is told of once, with its bytes
    assert sizes(log_dir) == {name: {0: 0, 1: 2 * len(batch)}}

    # And all of them, in every version, if nothing is named; if that was slow, then after a while
    async with asyncio.timeout(KEPT_S):
        while sizes(log_dir := describe(wire, None, version=version))[name] != expected:
            await asyncio.sleep(GLANCE_S)
    if version >= 4:
        assert (log_dir.total_bytes, log_dir.usable_bytes) == (UNKNOWN, UNKNOWN)


def test_the_directory_is_named_as_its_store(wire: Wire, admin_broker: BrokerProcess) -> None:
    log_dir = describe(wire, [])
    assert log_dir.topics == ()
    assert log_dir.log_dir == f"file://{admin_broker.log.parent / 'objects'}"
    assert log_dir.is_cordoned is False


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_is_in_the_one_directory_and_nowhere_else(
    wire: Wire, name: str, version: int
) -> None:
    # Given a topic, and the directory that it is in
    create(wire, name, partitions=1)
    there = describe(wire, []).log_dir
    api = Api(ALTER_REPLICA_LOG_DIRS, version)

    def move(path: str) -> dict[tuple[str, int], ErrorCode]:
        topics = tuple(
            api.part("AlterReplicaLogDirTopic", name=topic, partitions=indexes)
            for topic, indexes in ((name, (0, 1)), ("no-such-topic", (0,)))
        )
        moved = api.part("AlterReplicaLogDir", path=path, topics=topics)
        return {
            (topic.topic_name, each.partition_index): each.error_code
            for topic in wire.ask(api.request(dirs=(moved,))).results
            for each in topic.partitions
        }

    # When it is to move there, then it is there already
    unknown = ErrorCode.unknown_topic_or_partition
    places = ((name, 0), (name, 1), ("no-such-topic", 0))
    assert move(there) == dict(zip(places, (ErrorCode.none, unknown, unknown), strict=True))

    # When it is to move elsewhere, then there is no such place
    assert move("/data") == dict.fromkeys(places, ErrorCode.log_dir_not_found)
