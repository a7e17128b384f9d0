"""What the guard lets through to kio's reader, case by case; test_fuzz_requests.py has the rest."""

import io
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.fetch.v15.request import ReplicaState
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.metadata.v4.request import MetadataRequest
from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.types import BrokerId
from kio.serial import entity_writer
from kio.static.primitive import i64

from protocol.errors import MalformedRequest
from protocol.guard import check_request, decode_entity, decode_request
from protocol.walk import MAX_ELEMENTS, MAX_TEXT_BYTES, MAX_UNKNOWN_TAGS

HEARTBEAT = bytes.fromhex("026700000007026d00")  # group "g", generation 7, member "m"
FetchRequest12 = load_request_schema(1, 12)
FetchRequest15 = load_request_schema(1, 15)
FETCH = bytes.fromhex("000001f4 00000001 00100000 00 00000000 ffffffff 01 01 01")


def uvarint(value: int) -> bytes:
    head = b""
    while value >= 0x80:
        head, value = head + bytes((value & 0x7F | 0x80,)), value >> 7
    return head + bytes((value,))


def encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def test_an_array_length_beyond_the_bytes_left_never_reaches_kio() -> None:
    # Given the twelve bytes that make kio reserve 16 GiB and abort the process
    body = bytes.fromhex("00ffff00000000ffffffff7f00")[:12]

    # When they are decoded, then only this request fails, and its field is named
    with pytest.raises(MalformedRequest, match=r"ProduceRequest\.topic_data"):
        decode_request(ProduceRequest, body, 0)


@pytest.mark.parametrize(
    ("request_type", "body", "named"),
    [
        (HeartbeatRequest, "", "group_id: a varint"),
        (HeartbeatRequest, "00", "group_id: length -1"),
        (HeartbeatRequest, "0367", "group_id: 2 bytes, 1 are left"),
        (HeartbeatRequest, "ffffffffff01", "group_id: a varint"),
        (HeartbeatRequest, "02ff 00000007 026d 00 00", "group_id: not UTF-8"),
        (HeartbeatRequest, "04eda080 00000007 026d 00 00", "group_id: not UTF-8"),
        (HeartbeatRequest, "0267 000000", "generation_id: request ends early"),
        (HeartbeatRequest, "0267 00000007 026d 00", "tagged fields: a varint"),
        (HeartbeatRequest, "0267 00000007 026d 00 02 2000", "tagged fields: 2 elements"),
        (HeartbeatRequest, "0267 00000007 026d 00 01 2001", "tag 32 has 1 bytes"),
        (MetadataRequest, "fffffffe 00", "topics: array length -2"),
        (MetadataRequest, "00000001 ffff 00", "name: length -1"),
        (MetadataRequest, "00000001 fffe 00", "name: length -2"),
        (MetadataRequest, "00000000 02", "MetadataRequest: Invalid boolean"),
        (MetadataRequest, "00000000", "allow_auto_topic_creation: request ends early"),
        (ProduceRequest, "00 ffff 00000000 00 00", "topic_data: array length -1"),
        (DescribeTopicPartitionsRequest, "01 00000001 00 00", "cursor: neither null nor present"),
        (DescribeTopicPartitionsRequest, "01 00000001", "cursor: neither null nor present"),
    ],
)
def test_what_does_not_follow_the_schema_is_refused(
    request_type: type[Any], body: str, named: str
) -> None:
    with pytest.raises(MalformedRequest, match=named):
        decode_request(request_type, bytes.fromhex(body), 0)


def test_a_frame_may_be_writable_and_longer_than_the_request() -> None:
    frame = bytearray(b"ahead" + HEARTBEAT + b"\0behind")
    for view in (frame, memoryview(frame), bytes(frame)):
        request, end = decode_entity(HeartbeatRequest, view, 5)
        assert (request.group_id, request.generation_id, request.member_id) == ("g", 7, "m")
        assert frame[end:] == b"behind"
    frame += b"may grow again"


def test_an_entity_may_be_null_or_present() -> None:
    absent = decode_request(DescribeTopicPartitionsRequest, bytes.fromhex("01 00000001 ff 00"), 0)
    assert absent.cursor is None
    body = bytes.fromhex("01 00000001 01 0274 00000003 00 00")
    present = decode_request(DescribeTopicPartitionsRequest, body, 0)
    assert present.cursor is not None
    assert present.cursor.partition_index == 3


def test_unknown_tagged_fields_are_skipped_wherever_they_are() -> None:
    # Given a Fetch with unknown tagged fields before, inside and after the known ones
    replica_state = ReplicaState(replica_id=BrokerId(3), replica_epoch=i64(9))
    inside = encode(replica_state)[:-1] + b"\x01\x07\x03abc"
    known = bytes((1, len(inside))) + inside
    body = FETCH + b"\x04" + b"\x05\x01x" + known + b"\x21\x00" + b"\xff\x7f\x02yz"

    # When it is decoded
    request: Any = decode_request(FetchRequest15, body, 0)

    # Then the known ones are all there, and nothing else changed
    assert request.replica_state == replica_state
    assert request.max_wait == timedelta(milliseconds=500)
    assert check_request(FetchRequest15, body, 0) == len(body)


def test_a_tagged_field_that_says_null_is_as_good_as_none() -> None:
    request: Any = decode_request(
        FetchRequest12, b"\xff\xff\xff\xff" + FETCH + b"\x01\x00\x01\x00", 0
    )
    assert request.cluster_id is None


@pytest.mark.parametrize("tags", ["02 00020261 00020261", "01 0005 0261", "01 0001 0261"])
def test_a_known_tagged_field_comes_once_and_in_its_size(tags: str) -> None:
    body = b"\xff\xff\xff\xff" + FETCH + bytes.fromhex(tags) + bytes(9)
    with pytest.raises(MalformedRequest, match="cluster_id: comes twice, or has not"):
        decode_request(FetchRequest12, body, 0)


def test_the_client_id_of_a_flexible_header_has_the_old_form() -> None:
    frame = bytes.fromhex("0012 0004 00000007 0002 6d65 01 2001aa") + b"body"
    header, end = decode_entity(RequestHeader, frame, 0)
    assert (header.client_id, frame[end:]) == ("me", b"body")


def test_a_request_has_so_many_elements_at_most() -> None:
    group_ids = load_request_schema(15, 5)  # DescribeGroups: the densest arrays there are
    most = uvarint(MAX_ELEMENTS + 1) + b"\x01" * MAX_ELEMENTS + b"\0\0"
    assert check_request(group_ids, most, 0) == len(most)
    over = uvarint(MAX_ELEMENTS + 2) + b"\x01" * (MAX_ELEMENTS + 1) + b"\0\0"
    with pytest.raises(MalformedRequest, match=rf"groups: {MAX_ELEMENTS + 1} elements"):
        check_request(group_ids, over, 0)


def test_text_has_32767_bytes_at_most() -> None:
    most = uvarint(MAX_TEXT_BYTES + 1) + b"g" * MAX_TEXT_BYTES + HEARTBEAT[2:] + b"\0"
    assert check_request(HeartbeatRequest, most, 0) == len(most)
    over = uvarint(MAX_TEXT_BYTES + 2) + b"g" * (MAX_TEXT_BYTES + 1) + HEARTBEAT[2:] + b"\0"
    with pytest.raises(MalformedRequest, match="32768 bytes of text"):
        check_request(HeartbeatRequest, over, 0)


def test_unknown_tagged_fields_are_limited_and_cheap() -> None:
    tagged = HEARTBEAT + uvarint(MAX_UNKNOWN_TAGS) + b"\x20\x00" * MAX_UNKNOWN_TAGS
    decode_request(HeartbeatRequest, HEARTBEAT + b"\0", 0)
    tracemalloc.start()
    try:
        decode_request(HeartbeatRequest, tagged, 0)
        assert tracemalloc.get_traced_memory()[1] < len(tagged)
    finally:
        tracemalloc.stop()
    over = HEARTBEAT + uvarint(MAX_UNKNOWN_TAGS + 1) + b"\x20\x00" * (MAX_UNKNOWN_TAGS + 1)
    with pytest.raises(MalformedRequest, match="too many unknown"):
        check_request(HeartbeatRequest, over, 0)


@pytest.mark.parametrize("count", [500, 2_000, 4_000])
def test_unknown_tagged_fields_of_many_elements_cost_no_more_than_a_request_may(count: int) -> None:
    # Given elements that each have an unknown tagged field: the body is cut around each of them
    renewer = bytes.fromhex("022a020a01904e0f35994b53907f324dc4d3aee4eaaa2a")
    body = b"\0\0" + uvarint(count + 1) + renewer * count + bytes(8) + b"\0"
    decode_request(CreateDelegationTokenRequest, b"\0\0\1" + bytes(8) + b"\0", 0)
    tracemalloc.start()
    try:
        # When they are decoded, or refused
        if count == 500:
            decoded = decode_request(CreateDelegationTokenRequest, bytearray(body), 0)
            assert len(decoded.renewers) == count
        else:
            with pytest.raises(MalformedRequest, match="too much memory"):
                decode_request(CreateDelegationTokenRequest, bytearray(body), 0)

        # Then it costs eight times its size and a megabyte at most
        assert tracemalloc.get_traced_memory()[1] <= 8 * len(body) + 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [10_000, 20_000, 30_000, 100_000])
def test_the_densest_request_costs_eight_times_its_size(count: int) -> None:
    # Given empty topic names: two bytes each, a tuple's pointer and an object each when decoded
    body = count.to_bytes(4, "big") + b"\0\0" * count + b"\0"
    decode_request(MetadataRequest, b"\0\0\0\0\0", 0)
    tracemalloc.start()
    try:
        # When they are decoded, or refused
        if count <= 20_000:
            request = decode_request(MetadataRequest, body, 0)
            assert request.topics is not None
            assert len(request.topics) == count
        else:
            with pytest.raises(MalformedRequest, match="memory"):
                decode_request(MetadataRequest, body, 0)
        # Then memory stays in proportion
        assert tracemalloc.get_traced_memory()[1] < 8 * len(body) + 2**20
    finally:
        tracemalloc.stop()


def test_a_large_request_with_usual_names_is_decoded() -> None:
    # Given as many topics as a request may have elements, with names as people give them
    names = [b"team-%05d.orders.v1" % number for number in range(99_000)]
    body = len(names).to_bytes(4, "big")
    body += b"".join(len(name).to_bytes(2, "big") + name for name in names) + b"\0"

    request = decode_request(MetadataRequest, body, 0)

    assert request.topics is not None
    assert len(request.topics) == 99_000
