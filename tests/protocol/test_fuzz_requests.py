"""Every request of every version, well-formed and mutilated, through the guard and kio's reader.

FUZZ_EXAMPLES=20000 makes a long run of it; the default keeps all of it well under a minute.
"""

import io
import os
import random
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import UnionType
from typing import Any, cast, get_args, get_origin

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.primitive import Records, i64Timedelta
from kio.static.protocol import Entity, RequestPayload

from protocol.entity_parts import decode_parts
from protocol.errors import MalformedRequest
from protocol.guard import check_request, decode_request

API_KEYS = (
    *(0, 1, 2, 3, *range(8, 20), 20, *range(22, 30), 32, 33, 36, 37, 42, 44, 47),
    *(60, 61, 65, 66, 68, 69, 75),
)
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "20"))
fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@cache
def request_types(api_key: int) -> list[type[RequestPayload]]:
    versions = sorted(schema_name_map[api_key_map[api_key]])
    return [load_request_schema(api_key, version) for version in versions]


def values(wanted: Any) -> st.SearchStrategy[Any]:
    """Values of one field's type, entities and tagged fields included."""
    if is_dataclass(wanted):
        return entities(cast("type[Entity]", wanted))
    if get_origin(wanted) is UnionType:
        return st.one_of([values(part) for part in get_args(wanted)])
    if get_origin(wanted) is tuple:
        return st.lists(values(get_args(wanted)[0]), max_size=3).map(tuple)
    if wanted is i64Timedelta:  # kio's writer rounds longer ones, its reader has 2**63 us at most
        return st.integers(-(2**40), 2**40).map(lambda ms: timedelta(milliseconds=ms))
    return st.binary(max_size=64) if wanted is Records else st.from_type(wanted)


@cache
def entities(entity_type: type[Entity]) -> st.SearchStrategy[Any]:
    return st.builds(entity_type, **{each.name: values(each.type) for each in fields(entity_type)})


def encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def has_tagged_fields(entity: Any) -> bool:
    tagged = [each for each in fields(entity) if "tag" in each.metadata]
    return any(getattr(entity, each.name) != each.default for each in tagged)


def by_parts(request_type: type[RequestPayload], body: bytes, offset: int = 0) -> Any:
    """Decode a request with as many breaks as there can be."""
    decoding = decode_parts(request_type, bytearray(body), offset, largest_bytes=0, at_once=0)
    while True:
        try:
            next(decoding)
        except StopIteration as end:
            return end.value[0]


LIES = [
    *(struct.pack(">i", n) for n in (-1, -2, 2**31 - 1, -(2**31), 1_000_001, 0x7FFF)),
    *(struct.pack(">h", n) for n in (-1, -2, 2**15 - 1, -(2**15))),
    *(b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\x01", b"\x80\x80"),
    *(b"\0", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xc3", b"\xff", b"\xed\xa0\x80"),
]


@st.composite
def mutilated(draw: st.DrawFn, request_type: type[RequestPayload]) -> bytes:
    """A request cut, overwritten with lying lengths, spliced, or followed by garbage."""
    body = bytearray(encode(draw(entities(request_type))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        lie = draw(st.sampled_from(LIES) | st.binary(max_size=8))
        match draw(st.sampled_from(["overwrite", "insert", "cut"])):
            case "overwrite":
                body[at : at + len(lie)] = lie
            case "insert":
                body[at:at] = lie
            case _:
                del body[at : at + draw(st.integers(0, 64))]
    return bytes(body)


def decoded_or_refused(request_type: type[RequestPayload], body: bytes) -> Any:
    try:
        end = check_request(request_type, body, 0)
    except MalformedRequest:
        with pytest.raises(MalformedRequest):
            decode_request(request_type, body, 0)
        return None
    assert 0 <= end <= len(body)
    try:
        return decode_request(request_type, body, 0)
    except MalformedRequest as refused:
        assert isinstance(refused.__cause__, ValueError)  # noqa: PT017  # a value, not structure
        return None


@pytest.mark.parametrize("api_key", API_KEYS, ids=api_key_map.__getitem__)
@given(data=st.data())
@fuzz
def test_what_a_client_encodes_is_what_is_decoded(api_key: int, data: st.DataObject) -> None:
    request_type = data.draw(st.sampled_from(request_types(api_key)))
    request = data.draw(entities(request_type))
    ahead, behind = data.draw(st.binary(max_size=9)), data.draw(st.binary(max_size=9))
    body = encode(request)

    frame = ahead + body + behind
    assert check_request(request_type, frame, len(ahead)) == len(ahead) + len(body)
    assert decode_request(request_type, bytearray(frame), len(ahead)) == request
    assert by_parts(request_type, frame, len(ahead)) == request


@given(data=st.data())
@settings(fuzz, max_examples=10 * EXAMPLES)
def test_an_unknown_tagged_field_changes_nothing(data: st.DataObject) -> None:
    newest = [request_types(api_key)[-1] for api_key in API_KEYS]
    request_type = data.draw(st.sampled_from([each for each in newest if each.__flexible__]))
    request = data.draw(entities(request_type))
    unknown = data.draw(st.binary(max_size=100))
    assume(not has_tagged_fields(request))
    body = encode(request)[:-1] + b"\x01\xff\xff\x03" + bytes((len(unknown),)) + unknown

    assert check_request(request_type, body, 0) == len(body)
    assert decode_request(request_type, body, 0) == request
    assert by_parts(request_type, body) == request


@pytest.mark.parametrize("api_key", API_KEYS, ids=api_key_map.__getitem__)
@given(data=st.data())
@fuzz
def test_a_mutilated_request_is_decoded_or_refused(api_key: int, data: st.DataObject) -> None:
    request_type = data.draw(st.sampled_from(request_types(api_key)))
    body = data.draw(mutilated(request_type) | st.binary(max_size=200))

    request = decoded_or_refused(request_type, body)

    if request is None:
        with pytest.raises(MalformedRequest):
            by_parts(request_type, body)
    else:  # then it means something that can be said properly
        assert decode_request(request_type, encode(request), 0) == request
        assert by_parts(request_type, body) == request


@pytest.mark.parametrize("api_key", API_KEYS, ids=api_key_map.__getitem__)
def test_no_garbage_costs_eight_times_its_size(api_key: int) -> None:
    noise = random.Random(api_key)
    makers: list[Callable[[], bytes]] = [
        lambda: noise.randbytes(20_000),
        lambda: bytes(20_000),
        lambda: noise.choice(LIES) * 4_000,
        lambda: bytes(noise.choices((0, 0, 0, 1, 2, 3, 0x7F, 0x80, 0xFF), k=20_000)),
    ]
    for request_type in request_types(api_key):
        decoded_or_refused(request_type, b"")  # compiles once what would be counted below
        for make in makers:
            body = make()
            tracemalloc.start()
            try:
                decoded_or_refused(request_type, body)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak <= 8 * len(body)
