"""Rows read in bulk: in order, within their limits, and never anything that is damaged."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from protocol.batch import HEADER_BYTES, read_header
from protocol.records import Record, build_batch
from storage.config import KiB, MiB
from storage.errors import CorruptObject, ObjectMissing
from storage.segment_entry import SegmentEntry
from storage.upkeep.segment_rows import MAX_GETS, READ_AHEAD_BYTES, read_index, read_rows
from tests.storage.builder_world import World
from tests.storage.segments_made import build_segment, whole
from tests.support.fakes.objects import MemoryStore


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World.open() as opened:
        yield opened


class WatchedStore(MemoryStore):
    """Takes note of how much is asked for at the same time; each get takes a few turns."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_now = self.most_bytes = 0
        self.gets_now = self.most_gets = 0

    async def get(self, path: str, start: int, length: int) -> bytearray:
        self.bytes_now += length
        self.gets_now += 1
        self.most_bytes = max(self.most_bytes, self.bytes_now)
        self.most_gets = max(self.most_gets, self.gets_now)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            return await super().get(path, start, length)
        finally:
            self.bytes_now -= length
            self.gets_now -= 1


async def store_batch(
    objects: MemoryStore, offset: int, payload: bytes, *, records: int = 1
) -> SegmentEntry:
    """Store an object of the writer's with one batch."""
    batch = build_batch([Record(offset_delta=delta, value=payload) for delta in range(records)])
    await objects.put(f"wal/{offset}", [b"other", batch])
    return SegmentEntry(
        start_offset=offset,
        end_offset=offset + records - 1,
        path=f"wal/{offset}",
        start=5,
        length=len(batch),
        max_timestamp_ms=0,
    )


async def store_segment(objects: MemoryStore, batches: list[bytes]) -> SegmentEntry:
    built = build_segment(batches)
    await objects.put("a.seg", built.parts)
    return SegmentEntry(
        start_offset=built.index.start_offset,
        end_offset=built.index.end_offset,
        path="a.seg",
        start=built.start,
        length=built.length,
        max_timestamp_ms=built.max_timestamp_ms,
        index_length=built.index_length,
    )


def some_batches(count: int, size: int) -> list[bytes]:
    """Return batches with gaps between them."""
    return [
        build_batch([Record(offset_delta=0, value=bytes(size))], base_offset=10 * number)
        for number in range(count)
    ]


async def test_rows_of_all_kinds_come_in_order_with_their_offsets(world: World) -> None:
    # Given a built segment, rows of the writer's, and a marker
    await world.produce(b"one", b"two")
    await world.builder().build(world.partition)
    await world.produce(b"three")
    await world.produce_in_transaction("t", b"four")
    await world.end_transaction("t", committed=True)

    # When they are read
    rows = await world.rows()
    parts = await world.parts()

    # Then they are what was written
    assert [part.entry for part in parts] == rows
    assert [part.index is not None for part in parts] == [True, False, False, False]
    assert all(part.is_last for part in parts)
    batches = [batch for part in parts for batch in part.batches]
    assert [read_header(batch).base_offset for batch in batches] == [0, 2, 4, 6, 8]
    await world.check()


async def test_a_built_segment_comes_in_parts() -> None:
    # Given a segment of 10 MiB
    objects = WatchedStore()
    batches = some_batches(40, 256 * KiB)
    entry = await store_segment(objects, batches)

    # When it is read, then in parts, of which only the last ends it
    async with aclosing(read_rows(objects, [entry])) as reading:
        parts = [part async for part in reading]
    assert [part.is_last for part in parts] == [*[False] * (len(parts) - 1), True]
    assert len(parts) > 2
    assert [bytes(batch) for part in parts for batch in part.batches] == batches
    assert parts[0].index == await read_index(objects, entry)


async def test_reading_ahead_has_limits() -> None:
    # Given many small rows, and then large ones
    objects = WatchedStore()
    small = [await store_batch(objects, number, b"x") for number in range(50)]
    large = [await store_batch(objects, 100 + number, bytes(6 * MiB)) for number in range(6)]

    # When they are read, then several at a time, but not too many, nor too much
    async with aclosing(read_rows(objects, small + large)) as reading:
        assert [part.entry async for part in reading] == small + large
    assert objects.most_gets == MAX_GETS
    assert objects.most_bytes <= READ_AHEAD_BYTES

    # And one that exceeds the limit by itself comes alone
    huge = await store_batch(objects, 200, bytes(READ_AHEAD_BYTES + 1))
    async with aclosing(read_rows(objects, [*large[:1], huge, *large[1:2]])) as reading:
        assert len([part async for part in reading]) == 3
    assert objects.most_bytes == huge.length


async def test_who_stops_early_leaves_nothing_running() -> None:
    objects = WatchedStore()
    rows = [await store_batch(objects, number, b"x") for number in range(20)]
    async with aclosing(read_rows(objects, rows)) as reading:
        assert (await anext(reading)).entry == rows[0]
    assert objects.gets_now == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_damaged_batch_is_told_after_all_before_it() -> None:
    # Given three rows, and one bit that is not what it was
    objects = MemoryStore()
    rows = [await store_batch(objects, number, bytes(100)) for number in range(3)]
    content = bytearray(objects._objects[rows[1].path])
    content[5 + HEADER_BYTES + 50] ^= 1
    objects._objects[rows[1].path] = bytes(content)

    # Then the first is read, and then it ends
    async with aclosing(read_rows(objects, rows)) as reading:
        assert (await anext(reading)).entry == rows[0]
        with pytest.raises(CorruptObject, match="wal/1"):
            await anext(reading)


@pytest.mark.parametrize("is_missing", [False, True])
async def test_a_damaged_index_is_told_after_all_before_it(is_missing: bool) -> None:
    # Given rows of the writer's, a segment whose index cannot be read, and more behind it
    objects = MemoryStore()
    rows = [await store_batch(objects, number, bytes(100)) for number in range(5)]
    batches = [build_batch([Record(offset_delta=0, value=b"x")], base_offset=5)]
    rows += [await store_segment(objects, batches), await store_batch(objects, 6, b"y")]
    if is_missing:
        await objects.delete(["a.seg"])
    else:
        objects._objects["a.seg"] = objects._objects["a.seg"][:-1] + b"?"

    # Then all before it are read to their ends, and then it ends
    async with aclosing(read_rows(objects, rows)) as reading:
        assert [(await anext(reading)).entry for _ in range(5)] == rows[:5]
        with pytest.raises(ObjectMissing if is_missing else CorruptObject, match="seg"):
            await anext(reading)


async def test_a_row_of_other_records_than_it_says_is_corrupt() -> None:
    objects = MemoryStore()
    entry = await store_batch(objects, 0, b"x", records=3)
    wrong = SegmentEntry(
        start_offset=0,
        end_offset=entry.end_offset + 1,
        path=entry.path,
        start=entry.start,
        length=entry.length,
        max_timestamp_ms=0,
    )
    with pytest.raises(CorruptObject):
        async with aclosing(read_rows(objects, [wrong])) as reading:
            await anext(reading)


async def test_a_missing_object_is_told() -> None:
    objects = MemoryStore()
    entry = await store_batch(objects, 0, b"x")
    await objects.delete([entry.path])
    with pytest.raises(ObjectMissing):
        async with aclosing(read_rows(objects, [entry])) as reading:
            await anext(reading)


async def test_no_damaged_byte_of_a_built_segment_is_ever_read() -> None:
    # Given a small segment
    objects = MemoryStore()
    batches = some_batches(3, 20)
    entry = await store_segment(objects, batches)
    content = objects._objects[entry.path]
    assert content == bytes(whole(build_segment(batches)))

    for at in range(entry.start, len(content)):
        # When any byte of batches or index is another
        objects._objects[entry.path] = (
            content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :]
        )

        # Then nothing of it is read
        with pytest.raises(CorruptObject):
            async with aclosing(read_rows(objects, [entry])) as reading:
                await anext(reading)


async def test_an_index_of_another_range_than_the_row_is_corrupt() -> None:
    objects = MemoryStore()
    entry = await store_segment(objects, some_batches(3, 20))
    for start, end in ((entry.start_offset + 1, entry.end_offset), (0, entry.end_offset - 1)):
        wrong = SegmentEntry(
            start_offset=start,
            end_offset=end,
            path=entry.path,
            start=entry.start,
            length=entry.length,
            max_timestamp_ms=0,
            index_length=entry.index_length,
        )
        with pytest.raises(CorruptObject):
            await read_index(objects, wrong)
