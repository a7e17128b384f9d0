"""Our Fetch codec against the generic one, every version, both directions."""

import io
from contextlib import nullcontext, suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from protocol.errors import MalformedRequest
from protocol.fetch import decode_fetch
from protocol.fetch_response import FIRST_HINTED, PartitionAnswer, TopicAnswer, encode_fetch
from protocol.leader_hints import CurrentLeader
from protocol.metadata_response import BrokerAnswer
from tests.protocol.leader_hints import LEADERS, NODES, read_leader, read_nodes
from tests.support.wire import milliseconds

VERSIONS = range(4, 19)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
WANTED = st.lists(st.tuples(INT32, INT32, INT64, INT32), max_size=4)
FORGOTTEN = st.lists(
    st.tuples(st.text(max_size=12), st.uuids(), st.lists(INT32, max_size=4)), max_size=3
)
TOPICS = st.lists(st.tuples(st.text(max_size=12), st.uuids(), WANTED), max_size=3)
Wanted = list[tuple[str, UUID, list[tuple[int, int, int, int]]]]
Forgotten = list[tuple[str, UUID, list[int]]]


def encode_request(
    version: int, limits: tuple[int, int], topics: Wanted, forgotten: Forgotten | None = None
) -> bytearray:
    module: Any = load_payload_module(1, version, EntityType.request)

    def make(name: str, **values: object) -> Any:
        entity = getattr(module, name)
        return entity(**{key: v for key, v in values.items() if key in entity.__dataclass_fields__})

    request = make(
        "FetchRequest",
        replica_id=-1,
        max_wait=milliseconds(500),
        min_bytes=limits[0],
        max_bytes=limits[1],
        isolation_level=1,
        session_id=5,
        session_epoch=6,
        topics=tuple(
            make(
                "FetchTopic",
                topic=name,
                topic_id=topic_id,
                partitions=tuple(
                    make(
                        "FetchPartition",
                        partition=index,
                        current_leader_epoch=epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=3,
                        log_start_offset=9,
                        partition_max_bytes=max_bytes,
                        high_watermark=12,
                    )
                    for index, epoch, offset, max_bytes in partitions
                ),
            )
            for name, topic_id, partitions in topics
        ),
        forgotten_topics_data=tuple(
            make("ForgottenTopic", topic=name, topic_id=topic_id, partitions=tuple(indexes))
            for name, topic_id, indexes in (forgotten if version >= 7 and forgotten else ())
        ),
        rack_id="a",
    )
    out = io.BytesIO()
    entity_writer(module.FetchRequest)(out, request)
    return bytearray(out.getvalue())


@pytest.mark.parametrize("version", VERSIONS)
@given(limits=st.tuples(INT32, INT32), topics=TOPICS, forgotten=FORGOTTEN)
def test_a_request_reads_as_the_generic_codec_wrote_it(
    version: int, limits: tuple[int, int], topics: Wanted, forgotten: Forgotten
) -> None:
    request = decode_fetch(encode_request(version, limits, topics, forgotten), 0, version)

    assert (request.max_wait_ms, request.isolation_level) == (500, 1)
    assert (request.min_bytes, request.max_bytes) == limits
    assert (request.session_id, request.session_epoch) == ((5, 6) if version >= 7 else (0, -1))
    assert request.rack == ("a" if version >= 11 else "")
    left = [(topic.topic_id or topic.name, [*topic.partitions]) for topic in request.forgotten]
    assert left == [
        (topic_id if version >= 13 else name, indexes)
        for name, topic_id, indexes in (forgotten if version >= 7 else [])
    ]
    decoded = [
        (topic.topic_id or topic.name, [(p.index, p.offset, p.max_bytes) for p in topic.partitions])
        for topic in request.topics
    ]
    assert decoded == [
        (topic_id if version >= 13 else name, [(i, o, m) for i, _, o, m in partitions])
        for name, topic_id, partitions in topics
    ]
    if version >= 9:
        epochs = [p.leader_epoch for topic in request.topics for p in topic.partitions]
        assert epochs == [epoch for *_, ps in topics for _, epoch, _, _ in ps]


def test_a_name_is_no_longer_than_kafka_lets_it_be() -> None:
    for length, refused in ((0x7FFF, False), (0x8000, True)):
        frame = encode_request(12, (1, 1000), [("x" * length, UUID(int=1), [])])
        with pytest.raises(MalformedRequest) if refused else nullcontext():
            assert decode_fetch(frame, 0, 12).topics[0].name == "x" * length


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data(), topics=TOPICS)
def test_damaged_bytes_are_malformed_or_another_request(
    version: int, data: st.DataObject, topics: Wanted
) -> None:
    frame = encode_request(version, (1, 1000), topics)
    cut = data.draw(st.integers(0, len(frame)))
    frame[cut:] = data.draw(st.binary(max_size=50))
    with suppress(MalformedRequest):
        decode_fetch(frame, 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@given(
    topics=st.lists(
        st.tuples(
            st.text(max_size=12),
            st.uuids(),
            st.lists(st.lists(st.binary(min_size=1, max_size=50), max_size=3), max_size=3),
        ),
        max_size=3,
    ),
    aborted=st.none() | st.lists(st.tuples(INT64, INT64), max_size=200),
    leader=LEADERS,
    nodes=NODES,
)
def test_a_response_is_read_by_the_generic_codec(
    version: int,
    topics: list[tuple[str, UUID, list[list[bytes]]]],
    aborted: list[tuple[int, int]] | None,
    leader: CurrentLeader | None,
    nodes: list[BrokerAnswer],
) -> None:
    # Given answers whose records are several buffers each
    answers = [
        TopicAnswer(
            name,
            topic_id if version >= 13 else None,
            [
                PartitionAnswer(
                    index=index,
                    error_code=3,
                    high_watermark=100,
                    last_stable_offset=99,
                    log_start_offset=7,
                    aborted=aborted,
                    records=[memoryview(part) for part in parts],
                    size=sum(map(len, parts)),
                    leader=leader,
                )
                for index, parts in enumerate(partitions)
            ],
        )
        for name, topic_id, partitions in topics
    ]

    # When the frame is put together
    frame = b"".join(encode_fetch(77, version, answers, session_id=8, nodes=nodes))

    # Then the generic codec reads the same, to the last byte
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == 77
    module: Any = load_payload_module(1, version, EntityType.response)
    body = 9 if version >= 12 else 8
    response, size = entity_reader(module.FetchResponse)(frame, body)
    assert body + size == len(frame)
    if version >= 7:
        assert (response.error_code, response.session_id) == (0, 8)
    for answer, read in zip(answers, response.responses, strict=True):
        assert (read.topic_id if version >= 13 else read.topic) == (answer.topic_id or answer.name)
        for wanted, partition in zip(answer.partitions, read.partitions, strict=True):
            assert partition.partition_index == wanted.index
            assert partition.error_code == 3
            assert (partition.high_watermark, partition.last_stable_offset) == (100, 99)
            read_aborted = partition.aborted_transactions
            assert aborted == (
                None
                if read_aborted is None
                else [(one.producer_id, one.first_offset) for one in read_aborted]
            )
            assert (partition.records or b"") == b"".join(wanted.records)
            if version >= 5:
                assert partition.log_start_offset == 7
            if version >= FIRST_HINTED:
                assert read_leader(partition) == leader
    if version >= FIRST_HINTED:
        assert read_nodes(response) == nodes
