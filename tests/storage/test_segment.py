"""The .seg format: what was built is read again, and no damage goes unnoticed."""

import json
import struct
from dataclasses import replace
from itertools import pairwise

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch import read_header
from protocol.records import Record, build_batch
from storage.aborted_transaction import AbortedTransaction
from storage.errors import CorruptObject
from storage.segment import (
    FOOTER_BYTES,
    HEADER_BYTES,
    parse_header,
    parse_index,
    parse_index_length,
    read_block,
)
from storage.segment_encoder import SegmentEncoder
from storage.segment_index import BLOCK_BYTES
from tests.storage.segments_made import (
    PARTITION,
    POLICY,
    TOPIC_ID,
    batches_with_gaps,
    build_segment,
    last_offset_of,
    whole,
)

I64 = st.integers(-(2**63), 2**63 - 1)
ABORTED = st.lists(
    st.builds(AbortedTransaction, producer_id=I64, first_offset=I64, last_offset=I64), max_size=4
).map(tuple)
HORIZONS = st.lists(st.tuples(I64, I64), max_size=4).map(tuple)
SMALL = build_segment(
    [build_batch([Record(offset_delta=0, value=b"v")], base_offset=at) for at in (5, 9)],
    aborted=(AbortedTransaction(producer_id=1, first_offset=5, last_offset=7),),
    horizons=((9, 1_700_000_000_000),),
)


@given(
    batches=batches_with_gaps(),
    before=st.integers(0, 3),
    behind=st.integers(0, 3),
    aborted=ABORTED,
    horizons=HORIZONS,
)
def test_what_was_built_is_read_again(
    batches: list[bytes],
    before: int,
    behind: int,
    aborted: tuple[AbortedTransaction, ...],
    horizons: tuple[tuple[int, int], ...],
) -> None:
    # Given a segment with gaps anywhere, also at its ends
    built = build_segment(batches, before=before, behind=behind, aborted=aborted, horizons=horizons)
    data = whole(built)

    # When nothing but the object is at hand
    topic_id, partition = parse_header(data[:HEADER_BYTES])
    index_length = parse_index_length(data[-FOOTER_BYTES:])
    index = parse_index(data[-index_length:])
    found = [
        bytes(batch)
        for block in index.blocks
        for batch in read_block(data[block.start : block.start + block.length], block).batches
    ]

    # Then all of it is there, and the row of the metadata says the same
    assert (topic_id, partition) == (TOPIC_ID, PARTITION)
    assert index == built.index
    assert (index.topic_id, index.partition) == (TOPIC_ID, PARTITION)
    assert (index.topic_name, index.partition_count) == (POLICY.name, POLICY.partition_count)
    assert (index.configs, index.aborted, index.horizons) == (POLICY.configs, aborted, horizons)
    if batches:
        assert found == batches
    assert (built.size, built.index_length) == (len(data), index_length)
    assert built.start + built.length + built.index_length == built.size
    assert built.max_timestamp_ms == index.max_timestamp_ms
    assert index.max_timestamp_ms == max(read_header(batch).max_timestamp_ms for batch in found)


@given(batches=batches_with_gaps(max_batches=4), flip=st.integers(1, 255), data=st.data())
def test_no_changed_byte_goes_unnoticed(
    batches: list[bytes], flip: int, data: st.DataObject
) -> None:
    built = build_segment(batches)
    content = whole(built)
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= flip
    if at < HEADER_BYTES:
        with pytest.raises(CorruptObject):
            parse_header(content[:HEADER_BYTES])
    elif at >= built.start + built.length:
        with pytest.raises(CorruptObject):
            parse_index(content[-built.index_length :])
    else:
        (block,) = [one for one in built.index.blocks if 0 <= at - one.start < one.length]
        with pytest.raises(CorruptObject, match=f"the block at byte {block.start}"):
            read_block(content[block.start : block.start + block.length], block)


def test_nothing_shorter_or_longer_passes() -> None:
    content = whole(SMALL)
    index = content[-SMALL.index_length :]
    for cut in range(1, len(index) + 1):
        with pytest.raises(CorruptObject):
            parse_index(index[cut:])
        with pytest.raises(CorruptObject):
            parse_index(index[:-cut])
    with pytest.raises(CorruptObject):
        parse_index(content)
    for length in range(HEADER_BYTES):
        with pytest.raises(CorruptObject):
            parse_header(content[:length])
    (block,) = SMALL.index.blocks
    batches = content[block.start : block.start + block.length]
    for cut in range(1, len(batches) + 1):
        with pytest.raises(CorruptObject):
            read_block(batches[:-cut], block)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_segment(data: bytes) -> None:
    with pytest.raises(CorruptObject):
        parse_header(data)
    with pytest.raises(CorruptObject):
        parse_index(data)


@given(tables=st.binary(max_size=120))
def test_tables_that_make_no_sense_are_refused_whatever_their_checksum(tables: bytes) -> None:
    footer = whole(SMALL)[-FOOTER_BYTES:-12]
    footer[60:64] = struct.pack(">I", len(tables) + FOOTER_BYTES)
    checksum = struct.pack(">I", crc32c.crc32c(tables + footer))
    with pytest.raises(CorruptObject):
        parse_index(tables + footer + checksum + b"SHSEG\r\n\x01")


def test_a_newer_version_is_named() -> None:
    content = whole(SMALL)
    content[7] = content[-1] = 2
    with pytest.raises(CorruptObject, match="version 2"):
        parse_header(content[:HEADER_BYTES])
    with pytest.raises(CorruptObject, match="version 2"):
        parse_index(content[-SMALL.index_length :])


def test_the_bytes_are_those_that_the_docstring_specifies() -> None:
    content = bytes(whole(SMALL))
    header, footer = content[:32], content[-76:]
    assert header[:8] == footer[68:] == b"SHSEG\r\n\x01"
    assert header[8:24] == footer[:16] == TOPIC_ID.bytes
    assert header[24:28] == footer[16:20] == struct.pack(">I", PARTITION)
    assert header[28:] == struct.pack(">I", crc32c.crc32c(header[:28]))
    start, end, timestamp, batches, index, length, checksum = struct.unpack(
        ">qqqQQII", footer[20:68]
    )
    assert (start, end, timestamp, batches) == (5, 9, 0, 32)
    assert (index, length) == (SMALL.start + SMALL.length, len(content) - index)
    assert checksum == crc32c.crc32c(content[index:-12])
    block = struct.pack(">QIqqqI", 32, index - 32, 5, 9, 0, crc32c.crc32c(content[32:index]))
    aborted, horizons = struct.pack(">qqq", 1, 5, 7), struct.pack(">qq", 9, 1_700_000_000_000)
    topic = {"name": "user-events", "partition_count": 6, "configs": dict(POLICY.configs)}
    text = json.dumps(topic, sort_keys=True).encode()
    one = struct.pack(">I", 1)
    tables = one + block + one + aborted + one + horizons + struct.pack(">I", len(text)) + text
    assert content[index:-76] == tables


def test_blocks_tile_the_segment_and_no_batch_spans_two() -> None:
    # Given three megabytes in batches of very different sizes, with gaps
    sizes = [100, BLOCK_BYTES // 2, BLOCK_BYTES // 2, BLOCK_BYTES + 1, 7, BLOCK_BYTES - 300, 50]
    batches = [
        build_batch([Record(offset_delta=0, value=bytes(size))], base_offset=100 + 10 * at)
        for at, size in enumerate(sizes)
    ]

    # When a segment of them is built
    built = build_segment(batches, before=40, behind=30)
    blocks = built.index.blocks

    # Then blocks are as large as they may be, but for a batch that is larger
    assert len(blocks) == 4
    for block in blocks:
        held = [one for one in batches if block.first_offset <= last_offset_of(one)]
        held = [one for one in held if last_offset_of(one) <= block.last_offset]
        assert sum(map(len, held)) == block.length
        assert block.length <= BLOCK_BYTES or len(held) == 1

    # And they tile its bytes and its offsets; a gap belongs to the batch behind it
    assert (blocks[0].first_offset, blocks[-1].last_offset) == (60, 190)
    assert all(one.last_offset + 1 == after.first_offset for one, after in pairwise(blocks))
    assert all(one.start + one.length == after.start for one, after in pairwise(blocks))
    data = whole(built)
    run = read_block(data[blocks[1].start : blocks[2].start], blocks[1])
    taken, _, _ = run.read(blocks[1].first_offset, 1, 2**63 - 1)
    assert [read_header(batch).base_offset for batch in taken] == [120]


def test_a_segment_without_records_has_an_empty_batch() -> None:
    built = build_segment([], behind=41)
    (block,) = built.index.blocks
    run = read_block(whole(built)[block.start : block.start + block.length], block)
    header = read_header(run.batches[0])
    assert (header.record_count, header.base_offset, header.last_offset_delta) == (0, 0, 41)
    assert (built.max_timestamp_ms, run.end_offset) == (-1, 42)


def test_a_segment_without_records_may_cover_more_than_one_batch_can() -> None:
    built = build_segment([], behind=2**33)
    (block,) = built.index.blocks
    run = read_block(whole(built)[block.start : block.start + block.length], block)
    assert (block.last_offset, run.end_offset) == (2**33, 2**33 + 1)
    assert run.read(2**32, 1, 2**63 - 1) == ([], 0, 2**33 + 1)


def test_batches_are_taken_in_order_and_whole() -> None:
    encoder = SegmentEncoder(topic_id=TOPIC_ID, partition=0, topic=POLICY, start_offset=5)
    early, batch = (build_batch([Record(offset_delta=0)], base_offset=at) for at in (4, 5))
    with pytest.raises(AssertionError):
        encoder.add(early)
    with pytest.raises(AssertionError):
        encoder.add(batch + b"\0")
    encoder.add(memoryview(batch))
    with pytest.raises(AssertionError):
        encoder.add(batch)
    with pytest.raises(AssertionError):
        encoder.finish(end_offset=4)
    assert encoder.size == len(batch)


@given(batches=batches_with_gaps().filter(bool))
def test_batches_outside_of_what_the_index_says_are_refused(batches: list[bytes]) -> None:
    built = build_segment(batches)
    (block,) = built.index.blocks
    data = whole(built)[block.start : block.start + block.length]
    for narrower in (
        replace(block, first_offset=block.first_offset + 1),
        replace(block, last_offset=block.last_offset - 1),
    ):
        with pytest.raises(CorruptObject):
            read_block(data, narrower)
