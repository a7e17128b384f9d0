"""Time spans beyond any calendar: clients write the largest 64-bit number for "for ever"."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.offset_commit.v2.request import OffsetCommitRequest

from protocol.guard import decode_request

LIMIT_MS = 10**15


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=20))
def test_every_64_bit_span_is_read_and_the_largest_are_cut(span_ms: int, rest: bytes) -> None:
    body = b"\0\1g" + b"\xff" * 4 + b"\0\0" + span_ms.to_bytes(8, signed=True) + b"\0" * 4 + rest
    request = decode_request(OffsetCommitRequest, body, 0)
    cut_ms = max(-LIMIT_MS, min(span_ms, LIMIT_MS))
    assert request.retention_time == timedelta(milliseconds=cut_ms)
    assert (request.group_id, request.topics) == ("g", ())
