"""The read path for what is no longer in the tail: index rows -> ranged GETs -> batches (D8).

A fetch asks Postgres once which rows hold what it wants. A row of a built segment leads to the
segment's index, and that to blocks of about 1 MiB (storage/reading/read_plan.py); one of the
writer's is read as a whole. All pieces that the fetch needs, of all its partitions, are got
together, with what readers who go from one offset to the next will need soon
(storage/reading/read_ahead.py). Nothing here is waited for by producers or by tail reads: GETs have
places of their own, and so have bytes in use.

    reader.py            one fetch: gives way (cold_pace.py), plans, holds; reader_turns.py bounds
                         what it gets, byte_budget.py what all fetches have in use, and
                         cold_patience.py how long it waits for any of it
    read_planner.py      from offsets to pieces: metadata, segment_indexes.py, along read_ahead.py
    read_plan.py         pieces of objects, and which of them one GET fetches; arithmetic
    block_hold.py        what one reader needs, kept in block_cache.py until it has it
    block_cache.py       what was read lately; a block_get.py for each GET
    cold_gets.py         places for these GETs and for those of segment_indexes.py -> objects.get;
                         cold_places.py: nobody waits for one behind a store that is away
    objects_s3.py        s3_tries.py (as many at a time as flow_limit.py says), hedged_gets.py
    objects_directory.py threads, object_read.py, into memory of read_buffers.py

Rows are swapped while they are read: wal ranges become segments, segments are compacted. The bytes
of what was replaced stay for a while; a read that comes too late even for that plans once more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final

from protocol.batch import read_header
from storage.errors import (
    MAY_HAVE_MOVED,
    MetadataUnavailable,
    OffsetOutOfRange,
    StorageError,
)
from storage.metadata.port import MetadataStore
from storage.metrics import StorageMetrics
from storage.reading.block_cache import BlockCache
from storage.reading.block_hold import Hold
from storage.reading.byte_budget import ByteBudget
from storage.reading.cold_patience import PATIENCE_S, now_s
from storage.reading.read_ahead import Note, Route, SequentialReaders, soon_needed, within_reach
from storage.reading.read_plan import Piece, memory_of
from storage.reading.read_planner import ColdRead, Plan, Planner
from storage.reading.reader_turns import ANSWER_BYTES, served_now, turn
from storage.runs import Run


@dataclass(frozen=True, slots=True)
class Records:
    """Whole batches back to back, and their bytes; empty at the end of the log."""

    batches: Sequence[memoryview]
    size: int


@dataclass(slots=True)
class _Found:
    """What was read of one partition so far.

    Attributes:
        offset: where to go on.
        last: the piece that the last batch is of, the number-th of its plan.
    """

    offset: int
    last: Piece | None = None
    number: int = 0
    batches: list[memoryview] = field(default_factory=list)
    size: int = 0


class Reader:
    """Plans reads by the index in Postgres and serves them through the block cache."""

    def __init__(
        self, metadata: MetadataStore, blocks: BlockCache, metrics: StorageMetrics
    ) -> None:
        self._planner = Planner(metadata, blocks.indexes, blocks.clock)
        self._blocks = blocks
        self._metrics = metrics
        self._readers = SequentialReaders()
        self._in_use = ByteBudget(blocks.max_bytes // 2)

    async def read(self, reads: Sequence[ColdRead]) -> list[Records | StorageError]:
        """Serve reads with one query of the index; a failed one does not fail the others.

        An offset before the high watermark that is not there is OffsetOutOfRange: the log begins
        later by now. Some get nothing this time, if there is enough for the others to do
        (storage/reading/reader_turns.py).

        Raises:
            MetadataUnavailable: the index gave no answer.
        """
        results: list[Records | StorageError] = [_NOTHING] * len(reads)
        numbers = turn(len(reads))
        found = await self._read([reads[number] for number in numbers], now_s() + PATIENCE_S)
        for number, result in zip(numbers, found, strict=True):
            results[number] = result
        return results

    async def _read(
        self, reads: Sequence[ColdRead], until_s: float
    ) -> list[Records | StorageError]:
        reads = [
            replace(read, max_bytes=ANSWER_BYTES) if read.max_bytes > ANSWER_BYTES else read
            for read in reads
        ]
        notes = [self._readers.note(read.log.partition, read.offset) for read in reads]
        plans = await self._planner.plan(reads, notes, until_s)
        served = served_now(reads, plans, self._blocks, most_bytes=self._in_use.limit_bytes)
        needed = [piece for number in served for piece in plans[number].needed]
        if any(piece.entry.inline is None for piece in needed):
            await self._blocks.pace.give_way()
        results: list[Records | StorageError] = [_NOTHING] * len(reads)
        soon = [
            soon_needed(plans[number].following, plans[number].rows, self._blocks.indexes)
            for number in served
            if notes[number] is not None and plans[number].needed
        ]
        is_here = bool(needed) and all(map(self._blocks.is_here, needed))
        found = self._from_memory(reads, plans, served) if is_here else None
        if found is not None:  # it is not waited for, so nothing has to be held meanwhile
            ahead_bytes = None
            if _is_ahead_due(plans, served):
                _, ahead_bytes = self._blocks.load((), within_reach(soon))
                ahead_bytes //= max(len(soon), 1)
            for number, one in zip(served, found, strict=True):
                records = self._records(reads[number], plans[number], one, ahead_bytes)
                results[number] = records or _NOTHING
            return results
        size = sum(map(memory_of, chain(*self._blocks.gets(needed))))
        try:  # half of the time is for the GETs: who had none left would begin them for nobody
            await self._in_use.take(size, until_s=until_s - PATIENCE_S / 2)
        except TimeoutError:  # others have all memory, so only what is here can be had
            needed, soon, size = [*filter(self._blocks.is_here, needed)], [], 0
        with Hold(self._blocks, until_s, partial(self._in_use.give_back, size)) as hold:
            hold.add(needed, within_reach(soon))
            ahead_bytes = hold.ahead_bytes // max(len(soon), 1)
            for number in served:
                read, plan = reads[number], plans[number]
                results[number] = await self._serve(read, plan, hold, ahead_bytes)
        return results

    def _from_memory(
        self, reads: Sequence[ColdRead], plans: Sequence[Plan], served: Sequence[int]
    ) -> list[_Found] | None:
        """Return what the plans lead to, without an await; None if one leads nowhere."""
        found: list[_Found] = []
        for number in served:
            read, plan = reads[number], plans[number]
            if plan.start_offset is None or plan.start_offset > read.offset:
                return None
            one = _Found(read.offset)
            self._take(read, plan, one, self._blocks.loaded)
            if one.last is None:
                return None
            found.append(one)
        return found

    async def _serve(
        self, read: ColdRead, plan: Plan, hold: Hold, ahead_bytes: int
    ) -> Records | StorageError:
        """Return what the plan leads to, or the next one: behind a gap, or if this was too old."""
        found = _Found(read.offset)
        is_fresh = False
        while True:
            offset = found.offset
            # Of each plan: if the log begins later by now, what follows is not what was asked for.
            is_found = plan.start_offset is not None and plan.start_offset <= offset
            if not is_found and offset < read.log.high_watermark:
                return OffsetOutOfRange(f"offset {offset} is not in the log any more")
            await hold.ready(plan.needed)
            failure = self._take(read, plan, found, hold.run)
            records = self._records(read, plan, found, ahead_bytes)
            if records is not None:
                return records
            if failure is not None:
                is_last = is_fresh or now_s() >= hold.until_s
                if is_last or not isinstance(failure, MAY_HAVE_MOVED):
                    return failure
            is_at_end = found.offset == offset or found.offset >= read.end_offset
            if failure is None and is_at_end and plan.route is None:
                return _NOTHING  # the end of the log, or of what is wanted
            is_fresh = failure is not None  # it shall not fail in the same way
            try:
                later = replace(read, offset=found.offset)
                (plan,) = await self._planner.plan([later], [None], hold.until_s)
            except MetadataUnavailable as error:
                return error
            hold.add(plan.needed)

    def _take(
        self, read: ColdRead, plan: Plan, found: _Found, run_of: Callable[[Piece], Run | None]
    ) -> StorageError | None:
        """Take batches from the pieces that are needed, then from those that happen to be here.

        What is needed, `run_of` returns, or it raises why not.

        Returns:
            why it ended, if something cannot be read.
        """
        for number, piece in enumerate(chain(plan.needed, plan.following)):
            is_hole = piece.first_offset > found.offset and found.batches
            if is_hole or piece.first_offset >= read.end_offset:
                return None  # never skip silently: what follows a hole is asked for by itself
            room = read.max_bytes - found.size
            try:
                run = run_of(piece) if number < len(plan.needed) else self._blocks.loaded(piece)
            except StorageError as error:
                return error
            if run is None or (found.batches and len(run.batches[0]) > room):
                return None
            taken, size, found.offset = run.read(found.offset, room, read.end_offset)
            if taken:
                found.batches += taken
                found.size += size
                found.last, found.number = piece, number
            if found.offset < run.end_offset or found.size >= read.max_bytes:
                return None
        return plan.failure

    def _records(
        self, read: ColdRead, plan: Plan, found: _Found, ahead_bytes: int | None = None
    ) -> Records | None:
        """Return what was found, if anything was, and note where it ends.

        Behind it, `ahead_bytes` are read ahead now; None if that was done before.
        """
        piece = found.last
        if piece is None:
            return None
        self._metrics.reads_from_store.inc()
        header = read_header(found.batches[-1])
        next_offset = header.base_offset + header.last_offset_delta + 1
        before = 0
        if piece.block is not None and next_offset <= piece.entry.end_offset:
            before = piece.start + piece.length - piece.entry.start
        pieces = [*plan.needed, *plan.following][found.number :]
        due = ahead_bytes // 2 if ahead_bytes is not None else 0
        if ahead_bytes is None and plan.route is not None:
            ahead_bytes, due = plan.route.ahead_bytes - found.size, plan.route.ahead_due_bytes
        route = Route(
            pieces=pieces,
            rows=plan.rows,
            named_s=plan.named_s,
            left_bytes=plan.left_bytes - found.size,
            ahead_bytes=ahead_bytes or 0,
            ahead_due_bytes=due,
        )
        self._readers.ended(read.log.partition, next_offset, Note(before, route))
        return Records(found.batches, found.size)


_NOTHING: Final = Records((), 0)


def _is_ahead_due(plans: Sequence[Plan], served: Sequence[int]) -> bool:
    """Return whether any of them goes through a partition and soon needs what nobody fetches."""
    routes = [plans[number].route for number in served]
    return any(route is None or route.ahead_bytes <= route.ahead_due_bytes for route in routes)
