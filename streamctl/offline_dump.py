"""One run of `streamctl segment dump`: read an object part by part, check it, print it."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from protocol.batch import HEADER_BYTES, BatchHeader, batch_extents, read_header
from protocol.decompression import decompress_stored
from protocol.errors import ProtocolError
from protocol.records import decode_records
from storage import segment, wal_index
from storage.errors import CorruptObject, StorageError
from storage.segment_index import SegmentIndex
from streamctl.errors import Failure
from streamctl.offline_dump_lines import (
    Line,
    batch_line,
    block_line,
    ending_line,
    places_line,
    record_line,
    run_line,
    segment_lines,
    wal_lines,
)
from streamctl.offline_objects import StoredBytes, open_object
from streamctl.standard_streams import read_or_not

_NO_OFFSETS = -1


def dump_object(place: str, *, records: bool, as_json: bool) -> None:
    """Print what the object holds.

    Raises:
        Failure: it cannot be read, is something else, or is damaged; what is not was printed.
    """
    asyncio.run(_print(place, records=records, as_json=as_json))


async def _print(place: str, *, records: bool, as_json: bool) -> None:
    async with open_object(place) as stored:
        damage: list[str] = []
        try:
            with read_or_not():  # the damage found until then counts
                await _print_lines(stored, damage, records=records, as_json=as_json)
        except (StorageError, ProtocolError) as error:
            damage.append(str(error))
        if damage:
            raise Failure(f"{stored.place}: {'; '.join(damage)}")


async def _print_lines(
    stored: StoredBytes, damage: list[str], *, records: bool, as_json: bool
) -> None:
    async with aclosing(_lines(stored, damage, records=records)) as lines:
        async for line in lines:
            shown = json.dumps(line.values, ensure_ascii=False) if as_json else line.text
            sys.stdout.buffer.write(shown.encode() + b"\n")


async def _lines(stored: StoredBytes, damage: list[str], *, records: bool) -> AsyncGenerator[Line]:
    """Yield what there is to print; append to `damage` what cannot be read.

    Raises:
        StorageError: nothing behind it can be read.
    """
    length = min(stored.size, segment.FOOTER_BYTES)
    end = await stored.read(stored.size - length, length) if length else bytearray()
    family = bytes(end[-len(segment.MAGIC) : -1])
    if family == segment.MAGIC[:-1]:
        parts = _segment(stored, end, damage, records=records)
    elif family == wal_index.MAGIC[:-1]:
        parts = _wal(stored, end, damage, records=records)
    else:
        raise CorruptObject(await _what_else(stored))
    async with aclosing(parts):
        async for line in parts:
            yield line


async def _what_else(stored: StoredBytes) -> str:
    length = min(stored.size, len(segment.MAGIC))
    start = await stored.read(0, length) if length else bytearray()
    if start[:-1] == segment.MAGIC[:-1]:
        return f"it begins like a segment, but its end is missing ({stored.size} bytes are there)"
    return f"neither a segment nor an object of the writer ({stored.size} bytes)"


async def _segment(
    stored: StoredBytes, end: bytearray, damage: list[str], *, records: bool
) -> AsyncGenerator[Line]:
    data = await _read_index(stored, segment.parse_index_length(end), segment.HEADER_BYTES)
    index = segment.parse_index(data)
    first, last = index.blocks[0], index.blocks[-1]
    if (first.start, last.start + last.length) != (
        segment.HEADER_BYTES,
        stored.size - len(data),
    ):
        raise CorruptObject(f"its index is of batches from byte {first.start}, not of these")
    try:
        await _check_header(stored, index)
    except CorruptObject as error:
        damage.append(str(error))
    for line in segment_lines(index, size=stored.size, index_length=len(data)):
        yield line
    for block in index.blocks:
        yield block_line(block)
        try:
            held = memoryview(await stored.read(block.start, block.length))
            segment.read_block(held, block)
            for line in _batches(held, block.start, index, _NO_OFFSETS, records=records):
                yield line
        except (CorruptObject, ProtocolError) as error:
            damage.append(_named(error, f"the block at byte {block.start}"))


async def _check_header(stored: StoredBytes, index: SegmentIndex) -> None:
    topic_id, partition = segment.parse_header(await stored.read(0, segment.HEADER_BYTES))
    if (topic_id, partition) != (index.topic_id, index.partition):
        raise CorruptObject(f"its header is of topic {topic_id}, partition {partition}")


async def _wal(
    stored: StoredBytes, end: bytearray, damage: list[str], *, records: bool
) -> AsyncGenerator[Line]:
    data = await _read_index(stored, wal_index.parse_index_length(end), 0)
    index = wal_index.parse_index(data)
    if sum(run.length for run in index.runs) + len(data) != stored.size:
        raise CorruptObject(f"its index is not of these {stored.size - len(data)} bytes")
    for line in wal_lines(index, size=stored.size, index_length=len(data)):
        yield line
    for places in index.places:
        yield places_line(places, *index.topics[places[0]])
    for ending in index.endings:
        yield ending_line(ending, *index.topics[ending.topic])
    for run in index.runs:
        topic_id, name = index.topics[run.topic]
        yield run_line(run, topic_id, name)
        try:
            held = memoryview(await stored.read(run.start, run.length))
            for line in _batches(held, run.start, None, run.expected_offset, records=records):
                yield line
            found = sum(offsets for _, _, offsets in batch_extents(held))
            if found != run.record_count:
                text = f"{found} records, its index says {run.record_count}"
                damage.append(f"the run at byte {run.start}: {text}")
        except (CorruptObject, ProtocolError) as error:
            damage.append(_named(error, f"the run at byte {run.start}"))


async def _read_index(stored: StoredBytes, length: int, before: int) -> bytearray:
    if not 0 < length <= stored.size - before:
        raise CorruptObject(f"its index cannot have {length} of its {stored.size} bytes")
    return await stored.read(stored.size - length, length)


def _batches(
    held: memoryview,
    start: int,
    index: SegmentIndex | None,
    expected_offset: int,
    *,
    records: bool,
) -> Iterator[Line]:
    """Yield the batches that begin at byte `start` of the object, with their records if asked to.

    Args:
        held: their bytes.
        start: where they lie.
        index: of the segment; None in an object of the writer: then batches have no offsets.
        expected_offset: of the first batch there; -1 if it is not known.
        records: whether they are shown.

    Raises:
        ProtocolError: a batch is damaged.
    """
    horizons = dict(index.horizons) if index is not None else {}
    for at, size, offsets in batch_extents(held):
        batch = held[at : at + size]
        header = read_header(batch)
        yield batch_line(
            batch,
            header,
            start=start + at,
            placed=index is not None,
            expected_offset=expected_offset if expected_offset >= 0 else None,
            horizon_ms=horizons.get(header.base_offset),
        )
        expected_offset += offsets if expected_offset >= 0 else 0
        if records:
            yield from _records(batch, header, placed=index is not None)


def _records(batch: memoryview, header: BatchHeader, *, placed: bool) -> Iterator[Line]:
    if not header.record_count:
        return
    payload = decompress_stored(header.codec, batch[HEADER_BYTES:])
    for record in decode_records(payload, header.record_count, from_producer=False):
        yield record_line(record, header, placed=placed)


def _named(error: Exception, where: str) -> str:
    text = str(error)
    return text if where in text else f"{where}: {text}"
