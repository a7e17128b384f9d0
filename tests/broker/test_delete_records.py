"""DeleteRecords over the wire: where a log begins, and what is refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.clients.java_tools import java_tools
from tests.support.broker import BrokerProcess, start_broker
from tests.support.three_brokers import leader_first, three_brokers
from tests.support.wire import WireClient, build, milliseconds, request_entities

DELETE_RECORDS: Final = 21
NONE: Final = ErrorCode.none
OUT_OF_RANGE: Final = ErrorCode.offset_out_of_range
EARLIEST: Final = -2
BEGAN_MS: Final = 1_700_000_000_000


@pytest.mark.parametrize("version", range(3))
async def test_what_is_before_the_offset_can_no_longer_be_read(
    wire: WireClient, topic: str, version: int
) -> None:
    # Given a log of two batches
    await wire.create_topic(topic)
    await produce(wire, topic, 5, 5)

    # When the first three records are deleted
    answer = await delete(wire, {topic: {0: 3}}, version=version)

    # Then the log starts there, in the middle of a batch, and what is before is out of range
    assert answer == {topic: {0: (3, NONE)}}
    assert (await wire.list_offset(topic, EARLIEST)).offset == 3
    fetched = await wire.fetch(topic, 3)
    assert (fetched.error_code, fetched.log_start_offset) == (NONE, 3)
    assert fetched.records
    assert (await wire.fetch(topic, 2)).error_code == OUT_OF_RANGE


async def test_a_search_by_time_finds_no_deleted_record(wire: WireClient, topic: str) -> None:
    # Given two batches, whose records are a millisecond apart
    await wire.create_topic(topic)
    for first_ms in (BEGAN_MS, BEGAN_MS + 5):
        records = [Record(offset_delta=at, timestamp_delta_ms=at, value=b"x") for at in range(5)]
        await wire.produce(topic, build_batch(records, base_timestamp_ms=first_ms))

    # When the log starts within the first, then what is searched for is found from there on
    await delete(wire, {topic: {0: 3}})
    found = [(await wire.list_offset(topic, BEGAN_MS + at)).offset for at in (0, 2, 4, 5, 9)]
    assert found == [3, 3, 4, 5, 9]

    # And in the second, if nothing of the first is left that is as young
    await delete(wire, {topic: {0: 5}})
    assert (await wire.list_offset(topic, BEGAN_MS)).offset == 5


async def test_the_start_moves_forward_only(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    await produce(wire, topic, 5, 5)
    for offset, start in ((0, 0), (7, 7), (3, 7), (-1, 10), (10, 10), (-1, 10)):
        assert await delete(wire, {topic: {0: offset}}) == {topic: {0: (start, NONE)}}
    assert (await wire.fetch(topic, 10)).error_code == NONE
    assert (await produce(wire, topic, 1)).log_start_offset == 10


async def test_what_cannot_be_deleted_is_refused_by_itself(wire: WireClient, topic: str) -> None:
    # Given a topic of three partitions, and one whose records are there until they are replaced
    compacted = f"{topic}-compacted"
    await wire.create_topic(topic, partitions=3)
    await wire.create_topic(compacted, cleanup_policy="compact")
    await produce(wire, topic, 5)

    # When more than they hold is to be deleted
    asked = {topic: {0: 6, 1: -2, 2: 0, 3: 0}, compacted: {0: 0}, f"{topic}-no": {0: 0}}
    answer = await delete(wire, asked)

    # Then each partition says for itself what is wrong
    unknown = ErrorCode.unknown_topic_or_partition
    assert answer == {
        topic: {0: (-1, OUT_OF_RANGE), 1: (-1, OUT_OF_RANGE), 2: (0, NONE), 3: (-1, unknown)},
        compacted: {0: (-1, ErrorCode.policy_violation)},
        f"{topic}-no": {0: (-1, unknown)},
    }
    assert (await wire.list_offset(topic, EARLIEST)).offset == 0


async def test_deleted_records_stay_deleted(topic: str, tmp_path: Path) -> None:
    # Given a broker at which records were deleted
    broker = start_broker(tmp_path)
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            await wire.create_topic(topic)
            await produce(wire, topic, 5)
            await delete(wire, {topic: {0: 2}})
    finally:
        broker.kill()  # no time to write anything down

    # When it is started again
    broker = start_broker(tmp_path)
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            # Then the log still starts there
            assert (await wire.list_offset(topic, EARLIEST)).offset == 2
            assert (await wire.fetch(topic, 1)).error_code == OUT_OF_RANGE
    finally:
        broker.stop()


async def test_only_the_leader_deletes_and_all_brokers_know(
    tmp_path_factory: pytest.TempPathFactory, topic: str
) -> None:
    with three_brokers(tmp_path_factory.mktemp("delete")) as trio:
        leader, *others = [one.bootstrap for one in await leader_first(trio, topic)]
        async with await WireClient.connect(leader) as wire:
            await produce(wire, topic, 5)
            for bootstrap in others:
                async with await WireClient.connect(bootstrap) as other:
                    refused = (-1, ErrorCode.not_leader_or_follower)
                    assert await delete(other, {topic: {0: 4}}) == {topic: {0: refused}}
            assert await delete(wire, {topic: {0: 4}}) == {topic: {0: (4, NONE)}}
        for bootstrap in others:
            async with await WireClient.connect(bootstrap) as other:
                assert (await other.list_offset(topic, EARLIEST)).offset == 4


async def test_the_stock_tool_deletes_records(
    broker: BrokerProcess, wire: WireClient, topic: str, tmp_path: Path
) -> None:
    # Given a log of five records
    await wire.create_topic(topic)
    await produce(wire, topic, 5)
    file = tmp_path / "offsets.json"
    offsets = [{"topic": topic, "partition": 0, "offset": 3}]
    file.write_text(json.dumps({"version": 1, "partitions": offsets}))

    # When kafka-delete-records deletes three
    tools = java_tools(broker.bootstrap)
    printed = tools.run("kafka-delete-records", "--offset-json-file", str(file)).stdout

    # Then it says where the log starts
    assert f"partition: {topic}-0\tlow_watermark: 3" in printed


async def produce(wire: WireClient, topic: str, *record_counts: int) -> Any:
    """Append a batch of each size to partition 0; return the last answer."""
    answer = None
    for count in record_counts:
        records = [Record(offset_delta=at, value=b"x") for at in range(count)]
        answer = await wire.produce(topic, build_batch(records))
        assert answer.error_code == NONE
    return answer


async def delete(
    wire: WireClient, offsets: Mapping[str, Mapping[int, int]], *, version: int = 2
) -> dict[str, dict[int, tuple[int, ErrorCode]]]:
    """Return low watermark and error code of each partition."""
    module = request_entities(DELETE_RECORDS, version)
    request = build(
        module,
        "DeleteRecordsRequest",
        topics=tuple(
            module.DeleteRecordsTopic(
                name=name,
                partitions=tuple(
                    module.DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in wanted.items()
                ),
            )
            for name, wanted in offsets.items()
        ),
        timeout=milliseconds(5_000),
    )
    return {
        topic.name: {
            one.partition_index: (one.low_watermark, one.error_code) for one in topic.partitions
        }
        for topic in (await wire.ask(request)).topics
    }
