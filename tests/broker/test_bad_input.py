"""What bad input returns, over the wire: one test a row of Kafka's table, as far as these APIs go.

A bad partition answers for itself; a hostile frame costs its sender the connection; nobody else
notices, and nothing is appended.
"""

import struct
import time
from dataclasses import replace
from typing import Any
from uuid import UUID

import crc32c
import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32

from protocol.batch import CONTROL_BIT, CRC_START, TRANSACTIONAL_BIT
from protocol.compression import Codec
from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.request_memory import until_held
from tests.support.wire import (
    WireClient,
    encode_frame,
    fetch_request,
    list_offset_request,
    milliseconds,
    produce_request,
    request_entities,
)

NOW_MS = int(time.time() * 1000)  # when tests were collected: maybe an hour ago
DAY_MS = 24 * 3_600_000
RECORD = Record(offset_delta=0, key=b"k", value=b"v")


def batch(**changes: Any) -> bytes:
    return build_batch([RECORD], **({"base_timestamp_ms": NOW_MS} | changes))


def with_crc(data: bytearray) -> bytes:
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[CRC_START:])))
    return bytes(data)


def changed(start: int, layout: str, value: int, **changes: Any) -> bytes:
    """A batch with one header field overwritten, its checksum right."""
    data = bytearray(batch(**changes))
    struct.pack_into(layout, data, start, value)
    return with_crc(data)


def claiming(record_count: int, **changes: Any) -> bytes:
    """A batch of one record that says to have so many, its checksum right."""
    data = bytearray(batch(**changes))
    struct.pack_into(">i", data, 23, record_count - 1)
    struct.pack_into(">i", data, 57, record_count)
    return with_crc(data)


# --- frames


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 104_857_601), id="above socket.request.max.bytes"),
        pytest.param(b"\x16\x03\x01\x00\xa5\x01\x00", id="a TLS hello"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="an HTTP request"),
        pytest.param(struct.pack(">i", 3) + b"abc", id="no room for a header"),
        pytest.param(struct.pack(">ihhih", 10, 999, 0, 1, -1), id="unknown API key"),
        pytest.param(struct.pack(">ihhih", 10, 3, 99, 1, -1), id="unknown version"),
        pytest.param(struct.pack(">ihhih", 10, 0, 2, 1, -1), id="Produce v2"),
        pytest.param(struct.pack(">ihhih", 10, 3, 1, 1, 500), id="client_id longer than the frame"),
        pytest.param(struct.pack(">ihhih", 10, 3, 1, 1, -2), id="client_id of negative length"),
        pytest.param(
            struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0x7FFFFFFF), id="array longer than the frame"
        ),
        pytest.param(
            struct.pack(">ihhihhhii", 22, 0, 8, 1, -1, -1, 1, 1000, 0x7FFFFFFF),
            id="Produce with 2^31 topics",
        ),
        pytest.param(struct.pack(">ihhih", 10, 0, 3, 1, -1), id="Produce without a body"),
        pytest.param(struct.pack(">ihhih", 10, 1, 4, 1, -1), id="Fetch without a body"),
    ],
)
async def test_bytes_without_meaning_end_the_connection(
    broker: BrokerProcess, wire: WireClient, topic: str, data: bytes
) -> None:
    # Given another client that works
    await wire.create_topic(topic)

    # When a hostile one sends bytes that have no meaning
    async with await WireClient.connect(broker.bootstrap) as hostile:
        await hostile.send(data)
        ended = await hostile.ended()

    # Then its connection ends, and the other one's does not
    assert ended
    assert (await wire.produce(topic, batch())).error_code == ErrorCode.none


async def test_an_unknown_version_of_api_versions_is_answered_in_v0(wire: WireClient) -> None:
    # When a client from the future asks; its body is not parsed
    await wire.send(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    frame = await wire.receive_frame()

    # Then it learns our range in the oldest schema: correlation id, error 35, one (key, min, max)
    assert struct.unpack(">ihihhh", frame) == (7, 35, 1, 18, 0, 4)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a\n", "é"])
async def test_a_bad_software_name_is_an_invalid_request(wire: WireClient, name: str) -> None:
    module = request_entities(18, 3)
    response = await wire.ask(
        module.ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    )
    assert response.error_code == ErrorCode.invalid_request


# --- Produce


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(None, ErrorCode.invalid_record, id="no batch"),
        pytest.param(b"", ErrorCode.invalid_record, id="an empty batch"),
        pytest.param(batch()[:40], ErrorCode.invalid_record, id="shorter than a header"),
        pytest.param(batch()[:-1], ErrorCode.invalid_record, id="cut off"),
        pytest.param(batch()[:-1] + b"!", ErrorCode.corrupt_message, id="a changed byte"),
        pytest.param(batch() + batch(), ErrorCode.invalid_record, id="two batches"),
        pytest.param(changed(16, ">b", 1), ErrorCode.invalid_record, id="magic 1"),
        pytest.param(changed(16, ">b", 3), ErrorCode.corrupt_message, id="magic 3"),
        pytest.param(changed(0, ">q", 7), ErrorCode.invalid_record, id="a base offset"),
        pytest.param(changed(8, ">i", -1), ErrorCode.corrupt_message, id="negative length"),
        pytest.param(changed(21, ">h", CONTROL_BIT), ErrorCode.invalid_record, id="control batch"),
        pytest.param(changed(57, ">i", 2), ErrorCode.invalid_record, id="wrong record count"),
        pytest.param(claiming(2), ErrorCode.invalid_record, id="more records than have room"),
        pytest.param(
            claiming(2**31 - 1, attributes=Codec.ZSTD),
            ErrorCode.invalid_record,
            id="more records than are ever decompressed",
        ),
        pytest.param(changed(57, ">i", 0), ErrorCode.invalid_record, id="no records"),
        pytest.param(changed(23, ">i", 1), ErrorCode.invalid_record, id="wrong last offset delta"),
        pytest.param(
            changed(53, ">i", -1, producer_id=5, producer_epoch=0, base_sequence=0),
            ErrorCode.invalid_record,
            id="a producer id with a negative sequence",
        ),
        pytest.param(changed(43, ">q", -2), ErrorCode.invalid_record, id="a producer id below -1"),
        pytest.param(
            changed(21, ">h", 5), ErrorCode.unsupported_compression_type, id="unknown codec"
        ),
        pytest.param(
            changed(21, ">h", TRANSACTIONAL_BIT, producer_id=5, producer_epoch=0, base_sequence=0),
            ErrorCode.transactional_id_authorization_failed,
            id="transactional in a request without transactional id",
        ),
        pytest.param(
            batch(base_timestamp_ms=NOW_MS + 2 * DAY_MS),
            ErrorCode.invalid_timestamp,
            id="two days ahead",
        ),
        pytest.param(
            build_batch([Record(offset_delta=0, value=b"x" * 1_048_588)]),
            ErrorCode.message_too_large,
            id="above max.message.bytes",
        ),
    ],
)
async def test_a_bad_batch_is_refused_and_not_appended(
    wire: WireClient, topic: str, data: bytes | None, code: ErrorCode
) -> None:
    await wire.create_topic(topic)

    answer = await wire.produce(topic, data)

    assert answer.error_code == code
    assert answer.base_offset == -1
    assert (await wire.list_offset(topic, -1)).offset == 0


async def test_one_bad_partition_does_not_spoil_the_request(wire: WireClient, topic: str) -> None:
    # Given a request with a good and a bad batch
    await wire.create_topic(topic, partitions=2)
    module = request_entities(0, 9)
    request = module.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout=milliseconds(5000),
        topic_data=(
            module.TopicProduceData(
                name=topic,
                partition_data=(
                    module.PartitionProduceData(index=0, records=batch()[:-1] + b"!"),
                    module.PartitionProduceData(index=1, records=batch()),
                    module.PartitionProduceData(index=2, records=batch()),
                    module.PartitionProduceData(index=-1, records=batch()),
                ),
            ),
        ),
    )

    # When it is sent
    response = await wire.ask(request)

    # Then each partition answers for itself
    codes = [answer.error_code for answer in response.responses[0].partition_responses]
    unknown = ErrorCode.unknown_topic_or_partition
    assert codes == [ErrorCode.corrupt_message, ErrorCode.none, unknown, unknown]


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_acks_are_all_one_or_none(wire: WireClient, topic: str, acks: int) -> None:
    await wire.create_topic(topic)
    answer = await wire.produce(topic, batch(), acks=acks)
    assert answer.error_code == ErrorCode.invalid_required_acks


async def test_an_error_without_acks_ends_the_connection(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    await wire.produce(topic, batch()[:-1] + b"!", acks=0)
    assert await wire.ended()


async def test_acks_0_is_never_answered(wire: WireClient, topic: str) -> None:
    # Given a topic
    await wire.create_topic(topic)

    # When a batch without acks is followed by one with acks
    await wire.produce(topic, batch(), acks=0)
    answer = await wire.produce(topic, batch())

    # Then only the second is answered, and both are in the log
    assert answer.base_offset == 1


async def test_unknown_topics_answer_by_name_and_by_id(wire: WireClient) -> None:
    by_name = await wire.produce("no-such-topic", batch())
    request = produce_request(UUID(int=77), batch(), version=13)
    by_id = (await wire.ask(request)).responses[0].partition_responses[0]
    assert by_name.error_code == ErrorCode.unknown_topic_or_partition
    assert by_id.error_code == ErrorCode.unknown_topic_id


async def test_zstd_needs_produce_v7(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    zstd = batch(attributes=Codec.ZSTD)
    old = await wire.produce(topic, zstd, version=6)
    new = await wire.produce(topic, zstd, version=7)
    assert old.error_code == ErrorCode.unsupported_compression_type
    assert new.error_code == ErrorCode.none


async def test_a_compacted_topic_needs_keys(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic, cleanup_policy="compact")
    keyless = build_batch([RECORD, Record(offset_delta=1, value=b"v")], base_timestamp_ms=NOW_MS)
    assert (await wire.produce(topic, keyless)).error_code == ErrorCode.invalid_record
    assert (await wire.produce(topic, batch())).error_code == ErrorCode.none


async def test_a_compacted_topic_needs_records_at_the_offsets_of_their_batch(
    wire: WireClient, topic: str
) -> None:
    await wire.create_topic(topic, cleanup_policy="compact")
    far = Record(offset_delta=1_000, key=b"k", value=b"v")
    beyond = build_batch([far], base_timestamp_ms=NOW_MS, last_offset_delta=0)
    assert (await wire.produce(topic, beyond)).error_code == ErrorCode.invalid_record


async def test_max_message_bytes_is_the_topics_own(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic, max_message_bytes="100")
    large = build_batch([Record(offset_delta=0, value=b"x" * 100)], base_timestamp_ms=NOW_MS)
    assert (await wire.produce(topic, large)).error_code == ErrorCode.message_too_large
    assert (await wire.produce(topic, batch())).error_code == ErrorCode.none


# --- idempotent producers (KIP-98)


def numbered(sequence: int, *, epoch: int = 0, producer_id: int = 4711, count: int = 1) -> bytes:
    records = [Record(offset_delta=at, value=b"v") for at in range(count)]
    return build_batch(
        records,
        base_timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


async def test_a_duplicate_is_answered_with_its_first_offset(wire: WireClient, topic: str) -> None:
    # Given five batches of a producer after a stranger's
    await wire.create_topic(topic)
    await wire.produce(topic, batch())
    sent = [numbered(sequence * 2, count=2) for sequence in range(5)]
    first = [(await wire.produce(topic, one)).base_offset for one in sent]
    assert first == [1, 3, 5, 7, 9]

    # When each is sent again
    again = [await wire.produce(topic, one) for one in sent]

    # Then each has its first offset, without an error, and nothing was appended
    assert [answer.error_code for answer in again] == [ErrorCode.none] * 5
    assert [answer.base_offset for answer in again] == first
    assert (await wire.list_offset(topic, -1)).offset == 11


async def test_gaps_and_old_duplicates_are_out_of_order(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    for sequence in range(7):
        await wire.produce(topic, numbered(sequence))
    out_of_order = ErrorCode.out_of_order_sequence_number
    assert (await wire.produce(topic, numbered(8))).error_code == out_of_order
    assert (await wire.produce(topic, numbered(1))).error_code == out_of_order
    assert (await wire.produce(topic, numbered(5, epoch=1))).error_code == out_of_order
    assert (await wire.produce(topic, numbered(0, epoch=1))).error_code == ErrorCode.none
    fenced = await wire.produce(topic, numbered(7, epoch=0))
    assert fenced.error_code == ErrorCode.invalid_producer_epoch
    assert (await wire.list_offset(topic, -1)).offset == 8


# --- Fetch and ListOffsets


async def test_fetch_refuses_per_partition(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    await wire.produce(topic, batch())
    unknown = ErrorCode.unknown_topic_or_partition
    out_of_range = ErrorCode.offset_out_of_range
    assert (await wire.fetch("no-such-topic", 0)).error_code == unknown
    assert (await wire.fetch(topic, 0, partition=1)).error_code == unknown
    assert (await wire.fetch(topic, -1)).error_code == out_of_range
    assert (await wire.fetch(topic, 2)).error_code == out_of_range
    newer = await wire.fetch(topic, 0, leader_epoch=5)
    assert newer.error_code == ErrorCode.unknown_leader_epoch
    assert (await wire.fetch(topic, 1)).error_code == ErrorCode.none
    request = fetch_request([(UUID(int=77), 0, 0)], version=13)
    by_id = (await wire.ask(request)).responses[0].partitions[0]
    assert by_id.error_code == ErrorCode.unknown_topic_id


async def test_a_fetch_session_that_was_never_made_is_unknown(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    anew = fetch_request([(topic, 0, 0)], version=12, session_id=9)
    later = replace(anew, session_epoch=i32(1))
    assert (await wire.ask(later)).error_code == ErrorCode.fetch_session_id_not_found
    assert (await wire.ask(anew)).responses[0].partitions[0].error_code == ErrorCode.none


async def test_list_offsets_refuses_per_partition(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    unknown = await wire.list_offset("no-such-topic", -1)
    assert unknown.error_code == ErrorCode.unknown_topic_or_partition
    assert (await wire.list_offset(topic, -99)).error_code == ErrorCode.unsupported_version
    old = await wire.list_offset(topic, -3, version=6)
    assert old.error_code == ErrorCode.unsupported_version


async def test_a_partition_whose_offsets_are_asked_for_twice_is_not_looked_at(
    wire: WireClient, topic: str
) -> None:
    # Given a topic of two partitions
    await wire.create_topic(topic, partitions=2)
    once = list_offset_request(topic, NOW_MS)
    (asked,) = once.topics
    (first,) = asked.partitions

    # When one of them is named twice in a topic, or by a topic that is named twice
    second = replace(first, partition_index=i32(1))
    within = replace(once, topics=(replace(asked, partitions=(first, second, first)),))
    across = replace(once, topics=(replace(asked, partitions=(first, second)), asked))

    # Then that one is refused, once, and the other one is not
    for request in (within, across):
        answers = [one for each in (await wire.ask(request)).topics for one in each.partitions]
        assert [(one.partition_index, one.error_code) for one in answers] == [
            (0, ErrorCode.invalid_request),
            (1, ErrorCode.none),
        ]


# --- pipelining


async def test_answers_keep_the_order_of_requests(wire: WireClient, topic: str) -> None:
    # Given produces, which wait for their commit, among requests that do not wait
    await wire.create_topic(topic)
    versions = request_entities(18, 0).ApiVersionsRequest()
    requests = [produce_request(topic, batch()) if number % 3 else versions for number in range(60)]

    # When all are sent at once
    frames = [encode_frame(request, number) for number, request in enumerate(requests)]
    await wire.send(b"".join(frames))

    # Then the answers come in the order of the requests, and the offsets in the order of the log
    answers = [await wire.receive(request) for request in requests]
    assert [correlation_id for correlation_id, _ in answers] == list(range(60))
    produced = [answer for _, answer in answers if hasattr(answer, "responses")]
    offsets = [one.responses[0].partition_responses[0].base_offset for one in produced]
    assert offsets == list(range(40))


@pytest.mark.parametrize("size", [10, 60_000, 100_000, 250_000, 1_000_000])
async def test_the_memory_of_a_request_is_given_back(
    broker: BrokerProcess, wire: WireClient, topic: str, size: int
) -> None:
    # Given requests of every kind of frame, answered or cut off in the middle
    await wire.create_topic(topic)
    large = build_batch([Record(offset_delta=0, value=b"x" * size)], base_timestamp_ms=NOW_MS)
    for _ in range(3):
        assert (await wire.produce(topic, large)).error_code == ErrorCode.none
    async with await WireClient.connect(broker.bootstrap) as gone:
        await gone.send(encode_frame(produce_request(topic, large), 1)[: size // 2 + 5])

    # When all is answered or gone
    # Then none of their memory is held
    await until_held(broker, 0)
