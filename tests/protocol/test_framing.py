from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import MalformedRequest
from protocol.framing import LARGE_FRAME_BYTES, FrameBuffer

SIZES = st.one_of(st.integers(0, 200), st.integers(LARGE_FRAME_BYTES - 2, LARGE_FRAME_BYTES + 2000))


def feed(buffer: FrameBuffer, data: bytes) -> list[bytearray]:
    """Receive `data` as a socket would hand it over, admitting every large frame at once."""
    frames = []
    while data:
        target = buffer.get_buffer()
        count = min(len(target), len(data))
        target[:count] = data[:count]
        data = data[count:]
        frames += buffer.received(count)
        if buffer.announced:
            buffer.admit()
    return frames


@given(sizes=st.lists(SIZES, max_size=6), data=st.data())
def test_frames_do_not_depend_on_how_bytes_arrive(sizes: list[int], data: st.DataObject) -> None:
    frames = [bytes([index]) * size for index, size in enumerate(sizes, 1)]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)) | {0, len(stream)})
    buffer = FrameBuffer(bytearray(256 * 1024), max_frame_bytes=1 << 20)

    received = [frame for a, b in pairwise(cuts) for frame in feed(buffer, stream[a:b])]

    assert received == frames
    assert not buffer.partial


def test_two_connections_share_a_scratch_buffer() -> None:
    # Given two peers, each with the beginning of a frame sent
    scratch = bytearray(1024)
    one = FrameBuffer(scratch, max_frame_bytes=100)
    other = FrameBuffer(scratch, max_frame_bytes=100)
    assert feed(one, b"\0\0") == []
    assert feed(other, b"\0\0\0\2x") == []

    # When both go on
    # Then each has its own frame
    assert feed(one, b"\0\1a") == [b"a"]
    assert feed(other, b"y") == [b"xy"]


@pytest.mark.parametrize("size", [-1, 101, 0x16030100, -(2**31)])
def test_a_size_without_meaning_is_refused_from_its_four_bytes(size: int) -> None:
    buffer = FrameBuffer(bytearray(1024), max_frame_bytes=100)
    with pytest.raises(MalformedRequest, match=str(size)):
        feed(buffer, size.to_bytes(4, "big", signed=True))


def test_nothing_is_allocated_for_a_large_frame_before_it_is_admitted() -> None:
    buffer = FrameBuffer(bytearray(1024), max_frame_bytes=1 << 30)
    target = buffer.get_buffer()
    target[:6] = (1 << 29).to_bytes(4, "big") + b"ab"

    assert buffer.received(6) == []

    assert buffer.announced == 1 << 29
    assert buffer.received_bytes == 6
