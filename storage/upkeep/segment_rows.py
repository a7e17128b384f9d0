"""Reading many rows of the index in bulk, in order: what builder and compaction work on.

Every byte is checked: the checksum of each batch of the writer's objects and of each marker, the
checksum of each block of a built segment, and that what is there covers the offsets of its row, no
more and no less. GETs run ahead of the reader within READ_AHEAD_BYTES and MAX_GETS; a built segment
comes in parts of about PART_BYTES, so how large it is makes no difference to memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from protocol.errors import CorruptBatch
from storage.config import MiB
from storage.errors import BadObject, CorruptObject
from storage.objects.port import ObjectStore, Owned
from storage.runs import parse_run
from storage.segment import parse_index, read_block
from storage.segment_entry import SegmentEntry
from storage.segment_index import Block, SegmentIndex

READ_AHEAD_BYTES: Final = 16 * MiB  # asked for and not yet handed out; one part alone may exceed it
MAX_GETS: Final = 32  # rows are small most often: it is the bytes that bound memory
PART_BYTES: Final = 4 * MiB  # of a built segment, read with one GET


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPart:
    """Some batches of a row, back to back; only a built segment has more than one part.

    Attributes:
        entry: the row.
        index: of a built segment; None otherwise.
        batches: with absolute base offsets, ascending; their bytes are the caller's to change.
        is_last: the row ends here.
    """

    entry: SegmentEntry
    index: SegmentIndex | None
    batches: Sequence[memoryview]
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """One range to read; `blocks` are those of a built segment that lie in it."""

    entry: SegmentEntry
    index: SegmentIndex | None
    blocks: Sequence[Block]
    start: int
    length: int


_Fetch = tuple[_Plan, "asyncio.Task[Owned] | None"]


async def read_index(objects: ObjectStore, entry: SegmentEntry) -> SegmentIndex:
    """Return the index of a built segment, which has to agree with its row.

    Raises:
        BadObject, ObjectStoreUnavailable: it cannot be read.
    """
    assert entry.index_length, "a row of the writer's has no index"
    end = entry.start + entry.length
    index = parse_index(await objects.get(entry.path, end, entry.index_length))
    first, last = index.blocks[0], index.blocks[-1]  # what is between was checked already
    found = (first.start, last.start + last.length, index.start_offset, index.end_offset)
    if found != (entry.start, end, entry.start_offset, entry.end_offset):
        raise CorruptObject(f"{entry.path}: its index is of other bytes, or offsets")
    return index


async def read_rows(objects: ObjectStore, rows: Sequence[SegmentEntry]) -> AsyncGenerator[RowPart]:
    """Yield the batches of `rows`, in their order.

    Who does not read to the end has to close it (contextlib.aclosing).

    Raises:
        BadObject: bytes are not what the index promises: those of the row behind
            the last one that was yielded to its end. All before it is right.
        ObjectStoreUnavailable: the store gave no answer in time; retrying is safe.
    """
    ahead: deque[_Fetch] = deque()
    size = 0
    failure: BadObject | None = None
    try:
        async with aclosing(_plan(objects, rows)) as plans:
            async for plan in plans:
                if not isinstance(plan, _Plan):
                    failure = plan  # of a row behind all that is asked for already
                    break
                while ahead and (size + plan.length > READ_AHEAD_BYTES or len(ahead) == MAX_GETS):
                    part = await _finish(ahead[0])
                    size -= ahead.popleft()[0].length
                    yield part
                ahead.append((plan, _start(objects, plan)))
                size += plan.length
        while ahead:
            part = await _finish(ahead[0])
            ahead.popleft()
            yield part
        if failure is not None:
            raise failure
    finally:
        await _cancel([task for _, task in ahead if task is not None])


async def _plan(
    objects: ObjectStore, rows: Sequence[SegmentEntry]
) -> AsyncGenerator[_Plan | BadObject]:
    """Yield what to read of `rows`; last of all, why there is no more, if an index is damaged."""
    for entry in rows:
        if not entry.index_length:
            yield _Plan(entry=entry, index=None, blocks=(), start=entry.start, length=entry.length)
            continue
        try:
            index = await read_index(objects, entry)
        except BadObject as error:
            yield error
            return
        for blocks in _group(index.blocks):
            length = sum(block.length for block in blocks)
            yield _Plan(
                entry=entry, index=index, blocks=blocks, start=blocks[0].start, length=length
            )


def _group(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield neighbours that are read together."""
    group: list[Block] = []
    size = 0
    for block in blocks:
        if group and size + block.length > PART_BYTES:
            yield group
            group, size = [], 0
        group.append(block)
        size += block.length
    if group:
        yield group


def _start(objects: ObjectStore, plan: _Plan) -> "asyncio.Task[Owned] | None":
    if plan.entry.inline is not None:
        return None
    return asyncio.create_task(objects.get(plan.entry.path, plan.start, plan.length))


async def _finish(fetch: _Fetch) -> RowPart:
    plan, task = fetch
    entry = plan.entry
    if task is None:
        assert entry.inline is not None  # _start
        data: Owned = bytearray(entry.inline)
    else:
        data = await task
    try:
        batches = _parse(plan, data)
    except CorruptBatch as error:
        raise CorruptObject(f"{entry.path} from byte {plan.start}: {error}") from error
    is_last = plan.index is None or plan.blocks[-1] is plan.index.blocks[-1]
    return RowPart(entry=entry, index=plan.index, batches=batches, is_last=is_last)


def _parse(plan: _Plan, data: Owned) -> Sequence[memoryview]:
    entry = plan.entry
    if plan.index is None:
        run = parse_run(data, start_offset=entry.start_offset, end_offset=entry.end_offset)
        return run.batches
    view = memoryview(data)
    batches: list[memoryview] = []
    for block in plan.blocks:
        at = block.start - plan.start
        batches += read_block(view[at : at + block.length], block).batches
    return batches


async def _cancel(tasks: Sequence["asyncio.Task[Owned]"]) -> None:
    for task in tasks:
        task.cancel()
    # Their failures are nobody's any more; gather takes note of them, so none is reported as lost.
    await asyncio.gather(*tasks, return_exceptions=True)
