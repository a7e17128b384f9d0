"""Our Produce codec against the generic one, every version, both directions."""

import io
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from protocol.errors import MalformedRequest
from protocol.leader_hints import CurrentLeader
from protocol.metadata_response import BrokerAnswer
from protocol.produce import TopicData, decode_produce
from protocol.produce_response import FIRST_HINTED, PartitionResult, encode_produce
from tests.protocol.leader_hints import LEADERS, NODES, read_leader, read_nodes, whole
from tests.support.wire import milliseconds

VERSIONS = range(3, 14)
NAMES = st.text(max_size=20)
RECORDS = st.none() | st.binary(max_size=200)
PARTITIONS = st.lists(st.tuples(st.integers(0, 2**31 - 1), RECORDS), max_size=4)
TOPICS = st.lists(st.tuples(NAMES, st.uuids(), PARTITIONS), max_size=4)


def encode_request(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: list[tuple[str, UUID, list[tuple[int, bytes | None]]]],
) -> bytearray:
    module: Any = load_payload_module(0, version, EntityType.request)
    request = module.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=milliseconds(timeout_ms),
        topic_data=tuple(
            module.TopicProduceData(
                **({"topic_id": topic_id} if version >= 13 else {"name": name}),
                partition_data=tuple(
                    module.PartitionProduceData(index=index, records=records)
                    for index, records in partitions
                ),
            )
            for name, topic_id, partitions in topics
        ),
    )
    out = io.BytesIO()
    entity_writer(module.ProduceRequest)(out, request)
    return bytearray(out.getvalue())


@pytest.mark.parametrize("version", VERSIONS)
@given(
    transactional_id=st.none() | NAMES,
    acks=st.integers(-(2**15), 2**15 - 1),
    timeout_ms=st.integers(0, 2**20),
    topics=TOPICS,
    before=st.binary(max_size=20),
)
def test_a_request_reads_as_the_generic_codec_wrote_it(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: list[tuple[str, UUID, list[tuple[int, bytes | None]]]],
    before: bytes,
) -> None:
    frame = bytearray(before) + encode_request(version, transactional_id, acks, timeout_ms, topics)

    request = decode_produce(frame, len(before), version)

    assert (request.transactional_id, request.acks) == (transactional_id, acks)
    assert request.timeout_ms == timeout_ms
    decoded = [
        (
            topic.topic_id if version >= 13 else topic.name,
            [(index, None if data is None else bytes(data)) for index, data in topic.partitions],
        )
        for topic in request.topics
    ]
    assert decoded == [
        (topic_id if version >= 13 else name, partitions) for name, topic_id, partitions in topics
    ]


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data(), topics=TOPICS)
def test_damaged_bytes_are_malformed_or_another_request(
    version: int,
    data: st.DataObject,
    topics: list[tuple[str, UUID, list[tuple[int, bytes | None]]]],
) -> None:
    frame = encode_request(version, None, 1, 1000, topics)
    cut = data.draw(st.integers(0, len(frame)))
    frame[cut:] = data.draw(st.binary(max_size=50))
    with suppress(MalformedRequest):
        decode_produce(frame, 0, version)


@pytest.mark.parametrize("version", [9, 12, 13])
def test_a_text_is_no_longer_than_kafka_lets_it_be(version: int) -> None:
    longest = "x" * 0x7FFF
    frame = encode_request(version, longest, 1, 1000, [("t", UUID(int=1), [(0, b"")])])
    assert decode_produce(frame, 0, version).transactional_id == longest
    in_the_id = encode_request(version, longest + "x", 1, 1000, [])
    in_a_name = encode_request(version, None, 1, 1000, [(longest + "x", UUID(int=1), [])])
    for frame in (in_the_id, in_a_name)[: 1 if version >= 13 else 2]:
        with pytest.raises(MalformedRequest):
            decode_produce(frame, 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@given(
    topics=TOPICS,
    message=st.none() | NAMES,
    start=st.integers(-1, 2**40),
    at_fault=st.lists(st.integers(0, 2**31 - 1), max_size=200),
    leader=LEADERS,
    nodes=NODES,
)
def test_a_response_is_read_by_the_generic_codec(
    version: int,
    topics: list[tuple[str, UUID, list[tuple[int, bytes | None]]]],
    message: str | None,
    start: int,
    at_fault: list[int],
    leader: CurrentLeader | None,
    nodes: list[BrokerAnswer],
) -> None:
    # Given a response with every field set
    answers = [
        (
            TopicData(name, topic_id if version >= 13 else None, []),
            [
                PartitionResult(
                    index, 87, 1234, 1_700_000_000_000, start, message, at_fault, leader
                )
                for index, _ in partitions
            ],
        )
        for name, topic_id, partitions in topics
    ]

    # When it is encoded
    frame = whole(encode_produce(77, version, answers, nodes))

    # Then size and correlation id lead, and the generic codec reads the same to the last byte
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == 77
    module: Any = load_payload_module(0, version, EntityType.response)
    body = 9 if version >= 9 else 8
    response, size = entity_reader(module.ProduceResponse)(frame, body)
    assert body + size == len(frame)
    for (topic, results), read in zip(answers, response.responses, strict=True):
        assert (read.topic_id if version >= 13 else read.name) == (topic.topic_id or topic.name)
        for result, partition in zip(results, read.partition_responses, strict=True):
            assert (partition.index, partition.error_code) == (result.index, 87)
            assert partition.base_offset == 1234
            assert partition.log_append_time.timestamp() == 1_700_000_000
            if version >= 5:
                assert partition.log_start_offset == start
            if version >= 8:
                assert partition.error_message == message
                assert [one.batch_index for one in partition.record_errors] == at_fault
                for one in partition.record_errors:
                    assert one.batch_index_error_message == (message or "")
            if version >= FIRST_HINTED:
                assert read_leader(partition) == leader
    if version >= FIRST_HINTED:
        assert read_nodes(response) == nodes
