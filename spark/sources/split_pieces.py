"""The bytes of a split, in offset order: GETs run ahead within READ_AHEAD_BYTES and MAX_GETS.

A piece is a block of a built segment or a whole row of the writer's (storage/reading/read_plan.py);
pieces that lie side by side in a built segment are got together, about GET_BYTES at a time. Blocks
that the split does not want are not got.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from spark.sources.cut import Range
from storage.config import MiB
from storage.errors import CorruptObject, StorageError
from storage.objects.port import ObjectStore, Owned
from storage.reading.read_plan import Piece, piece_of_row, pieces_of_segment, squares
from storage.segment_entry import SegmentEntry
from storage.upkeep.segment_rows import read_index

READ_AHEAD_BYTES: Final = 16 * MiB  # asked for and not yet handed out; one GET alone may exceed it
MAX_GETS: Final = 32


@dataclass(frozen=True, slots=True)
class Failed:
    """Pieces from an offset on cannot be read: of this row, which is the last thing yielded.

    Attributes:
        last_offset: of what cannot be.
    """

    row: SegmentEntry
    offset: int
    last_offset: int
    error: StorageError


@dataclass(frozen=True, slots=True)
class Got:
    """Pieces side by side in one object, and their bytes, back to back."""

    pieces: Sequence[Piece]
    data: Owned


_Fetch = tuple[Sequence[Piece], "asyncio.Task[Owned]"]


async def read_pieces(
    objects: ObjectStore,
    rows: Sequence[SegmentEntry],
    offsets: Range,
    min_timestamp_ms: int | None,
) -> AsyncGenerator[Got | Failed]:
    """Yield what rows have of a range of offsets, from a time on.

    What cannot be read ends it: all before that is yielded first. Who does not read to the end
    closes it (contextlib.aclosing).
    """
    ahead: deque[_Fetch] = deque()
    size = 0
    try:
        async with aclosing(_plan(objects, rows, offsets, min_timestamp_ms)) as plans:
            async for plan in plans:
                length = 0 if isinstance(plan, Failed) else _length(plan)
                full = size + length > READ_AHEAD_BYTES or len(ahead) == MAX_GETS
                while ahead and (full or isinstance(plan, Failed)):
                    got = await _finish(ahead[0])
                    size -= _length(ahead.popleft()[0])
                    yield got
                    if isinstance(got, Failed):
                        return
                    full = size + length > READ_AHEAD_BYTES or len(ahead) == MAX_GETS
                if isinstance(plan, Failed):
                    yield plan
                    return
                ahead.append((plan, asyncio.create_task(_get(objects, plan))))
                size += length
        while ahead:
            got = await _finish(ahead[0])
            ahead.popleft()
            yield got
            if isinstance(got, Failed):
                return
    finally:
        for _, task in ahead:
            task.cancel()
        # Their failures are nobody's any more; gather takes note of them.
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


def cut(got: Got, wanted: Range) -> Generator[memoryview, None, Failed | None]:
    """Yield the batches of pieces up to the first that is damaged; return that."""
    view = memoryview(got.data)
    at = 0
    for piece in got.pieces:
        data = view[at : at + piece.length]
        at += piece.length
        try:
            run = piece.parse(data)
        except CorruptObject as error:
            return Failed(piece.entry, piece.first_offset, piece.last_offset, error)
        batches, _, _ = run.read(wanted.start, run.size, wanted.end)
        yield from batches
    return None


async def _plan(
    objects: ObjectStore,
    rows: Sequence[SegmentEntry],
    offsets: Range,
    min_timestamp_ms: int | None,
) -> AsyncGenerator[Sequence[Piece] | Failed]:
    for row in rows:
        if not row.index_length:
            yield [piece_of_row(row)]
            continue
        try:
            index = await read_index(objects, row)
        except StorageError as error:
            yield Failed(row, row.start_offset, row.end_offset, error)
            return
        blocks = [
            piece
            for piece in pieces_of_segment(row, index, offsets.start)
            if piece.first_offset < offsets.end and _is_late_enough(piece, min_timestamp_ms)
        ]
        for group in _neighbours(blocks):
            yield group


def _is_late_enough(piece: Piece, min_timestamp_ms: int | None) -> bool:
    if min_timestamp_ms is None or piece.block is None:
        return True
    return piece.block.max_timestamp_ms >= min_timestamp_ms


def _neighbours(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Group pieces of a segment that one GET fetches."""
    for square in squares(pieces):
        group: list[Piece] = []
        for piece in square:
            if group and group[-1].start + group[-1].length != piece.start:
                yield group
                group = []
            group.append(piece)
        yield group


def _length(pieces: Sequence[Piece]) -> int:
    return sum(piece.length for piece in pieces)


async def _get(objects: ObjectStore, pieces: Sequence[Piece]) -> Owned:
    entry = pieces[0].entry
    if entry.inline is not None:
        return bytearray(entry.inline)
    return await objects.get(entry.path, pieces[0].start, _length(pieces))


async def _finish(fetch: _Fetch) -> Got | Failed:
    pieces, task = fetch
    try:
        return Got(pieces, await task)
    except StorageError as error:
        row = pieces[0].entry
        return Failed(row, pieces[0].first_offset, row.end_offset, error)
