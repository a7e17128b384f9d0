"""A large request is decoded part by part: no part is long, and all of it is bounded."""

import io
from collections.abc import Iterator
from typing import Any, Final

import pytest
from kio.index import load_request_schema
from kio.serial import entity_writer

from protocol.entity_parts import AT_ONCE, Decoding, decode_parts
from protocol.errors import MalformedRequest, RequestTooLarge
from protocol.guard import decode_request
from protocol.walk import MAX_ELEMENTS
from tests.support.large_requests import alteration, deletion
from tests.support.wire import milliseconds, request_entities

DELETE_TOPICS: Final = 20


def encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def run(decoding: Decoding) -> Iterator[Any]:
    """Yield None for each break, and then the request."""
    yield (yield from decoding)[0]


@pytest.mark.parametrize(
    "request_", [alteration(4_000), deletion("g", 40_000)], ids=lambda one: one.__class__.__name__
)
def test_more_than_can_be_decoded_at_once_is_decoded_with_breaks(request_: Any) -> None:
    # Given a request that is too large to be decoded at once
    body = encode(request_)
    with pytest.raises(RequestTooLarge):
        decode_request(type(request_), body, 0)

    # When it is decoded by parts
    *breaks, decoded = run(decode_parts(type(request_), body, 0, largest_bytes=2**26))

    # Then it is what was sent, and there was a break at least every so many elements
    assert decoded == request_
    assert len(breaks) >= 40_000 // AT_ONCE


def test_what_all_parts_take_is_bounded() -> None:
    # Given a request of which every part is small, and its limits
    request_ = alteration(4_000)
    body = encode(request_)

    # When all of it is more than they are, then it is refused
    with pytest.raises(RequestTooLarge, match="take too much memory"):
        list(run(decode_parts(type(request_), body, 0)))
    deleted = deletion("g", 100_000)
    with pytest.raises(RequestTooLarge, match="take too much memory"):
        list(run(decode_parts(type(deleted), encode(deleted), 0, largest_bytes=2**23)))


def test_elements_without_arrays_are_bounded_and_have_breaks_too() -> None:
    # Given topics to delete, which take more memory than their bytes explain, but are not too many
    module = request_entities(DELETE_TOPICS, 6)
    topics = tuple(
        module.DeleteTopicState(name=f"t{number}", topic_id=None) for number in range(40_000)
    )
    request_ = module.DeleteTopicsRequest(topics=topics, timeout=milliseconds(1_000))
    body = encode(request_)

    # When they are decoded within the limits of what is decoded at once, then they are refused
    with pytest.raises(RequestTooLarge, match="take too much memory"):
        list(run(decode_parts(type(request_), body, 0)))

    # And with more room they are decoded, with breaks
    *breaks, decoded = run(decode_parts(type(request_), body, 0, largest_bytes=2**26))
    assert decoded == request_
    assert len(breaks) >= 40_000 // AT_ONCE


@pytest.mark.parametrize(
    ("version", "count", "name"), [(0, b"\0\3\r\x40", b"\0\2gg"), (5, b"\xc1\x9a\x0c", b"\3gg")]
)
def test_a_list_of_names_is_decoded_with_breaks(version: int, count: bytes, name: bytes) -> None:
    groups, end = load_request_schema(15, version), b"\0\0"
    *breaks, decoded = run(
        decode_parts(groups, count + name * 200_000 + end, 0, largest_bytes=2**26)
    )
    assert decoded.groups == ("gg",) * 200_000
    assert len(breaks) >= 200_000 // AT_ONCE
    with pytest.raises(MalformedRequest, match="groups: not UTF-8"):
        list(
            run(
                decode_parts(
                    groups,
                    count + name * 199_999 + name[:-2] + b"\xff\xff" + end,
                    0,
                    largest_bytes=2**26,
                )
            )
        )


def test_no_list_of_numbers_is_longer_than_what_is_decoded_at_once() -> None:
    group = b"\0\1g" + (1).to_bytes(4) + b"\0\1t"
    over = group + (MAX_ELEMENTS + 1).to_bytes(4) + bytes(4 * (MAX_ELEMENTS + 1))
    with pytest.raises(RequestTooLarge):
        list(run(decode_parts(load_request_schema(9, 1), over, 0, largest_bytes=2**26)))


def test_an_array_longer_than_the_bytes_left_is_refused_whatever_is_allowed() -> None:
    body = encode(alteration(4_000))
    with pytest.raises(MalformedRequest, match="elements do not fit"):
        list(
            run(
                decode_parts(
                    load_request_schema(44, 1), b"\xff\xff\x7f" + body[2:], 0, largest_bytes=2**40
                )
            )
        )
