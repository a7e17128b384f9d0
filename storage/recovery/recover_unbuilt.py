"""Which of the writers' batches are in built segments already.

The end of what is built is in memory (storage/recovery/recover_tail.py). A writer that had not
heard of others' commits expects batches further back than they are: so what it says of offsets
before that is looked up there. What it did not know the offset of is looked up by its time.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from protocol.errors import ProtocolError
from storage.errors import BadObject
from storage.objects.port import ObjectStore
from storage.recovery.recover_open import blocks_of, get_again
from storage.recovery.recover_records import record_checksums
from storage.recovery.recover_runs import NOT_BY_CHANCE, mark_doubtful, runs_of
from storage.recovery.recover_scratch import FoundBatch, FoundSegment
from storage.recovery.recover_tail import BuiltTail
from storage.segment import read_block
from storage.segment_index import Block

UNKNOWN: Final = -1
BLOCKS_OF_A_TIME: Final = 4
"""Most often the first one has it: times ascend in a log, more or less."""


class BuiltLog:
    """The built segments of a partition.

    Args:
        chosen: those that tile it, in offset order.
        tail: the end of them.
    """

    def __init__(
        self, objects: ObjectStore, chosen: Sequence[FoundSegment], tail: BuiltTail
    ) -> None:
        self.tail = tail
        self._objects = objects
        self._chosen = chosen

    async def has(self, batch: FoundBatch, expected_offset: int) -> bool:
        """Return whether a writer's batch is built.

        Args:
            batch: of an object of a writer.
            expected_offset: that the writer expected for it, or was told; negative if it did not
                know.

        Raises:
            BadObject: that of the writer cannot be read any more.
            ObjectStoreUnavailable: no answer.
        """
        if batch.is_told:
            return expected_offset < self.tail.end_offset
        last_offset = expected_offset + batch.record_count - 1
        if expected_offset >= 0 and last_offset >= self.tail.start_offset:
            return self.tail.has(batch, expected_offset)
        if await self._has(self.tail, batch):
            return True
        if expected_offset >= 0:
            return await self._had_there(batch, expected_offset, last_offset)
        return await self._had_in(self._blocks_from(batch.max_timestamp_ms), batch)

    async def has_about(self, batch: FoundBatch, expected_offset: int) -> bool:
        """Return whether a writer's batch is built, be it behind where it was expected.

        Another one of the same bytes is taken for it: rather is it missing than there twice.

        Args:
            batch: of an object of a writer.
            expected_offset: that the writer expected for it.

        Raises:
            BadObject: that of the writer cannot be read any more.
            ObjectStoreUnavailable: no answer.
        """
        if await self.has(batch, UNKNOWN):
            return True
        if expected_offset >= self.tail.start_offset:
            return False
        return await self._had_in(
            self._blocks(expected_offset, expected_offset + NOT_BY_CHANCE), batch
        )

    async def _has(self, part: BuiltTail, batch: FoundBatch) -> bool:
        """Return whether a part of the log has it; look at its records if nothing else can tell."""
        if part.has(batch, UNKNOWN):
            return True
        if not part.may_have_changed(batch):
            return False
        data = await get_again(self._objects, batch.path, batch.byte_start, batch.byte_length)
        return part.has_records_of(batch, record_checksums(data))

    async def _had_there(self, batch: FoundBatch, first_offset: int, last_offset: int) -> bool:
        """Look it up where it was expected; what is not there to be read is believed."""
        try:
            there = await self._read(self._blocks(first_offset, last_offset))
        except (BadObject, ProtocolError) as error:
            self.tail.unreadable.append(f"where a batch was looked for: {error}")
            return True
        return there is None or there.has(batch, first_offset)

    async def _had_in(
        self, wanted: AsyncGenerator[tuple[FoundSegment, Block]], batch: FoundBatch
    ) -> bool:
        """Look it up in some blocks; what is not there to be read is not believed."""
        try:
            there = await self._read(wanted)
        except (BadObject, ProtocolError) as error:
            self.tail.unreadable.append(f"where a batch was looked for: {error}")
            return False
        return there is not None and await self._has(there, batch)

    async def _read(self, wanted: AsyncGenerator[tuple[FoundSegment, Block]]) -> BuiltTail | None:
        """Return what some blocks have; None if there are none.

        Raises:
            BadObject, ObjectStoreUnavailable, ProtocolError: one cannot be read.
        """
        there: BuiltTail | None = None
        async with aclosing(wanted) as blocks:
            async for segment, block in blocks:
                data = await get_again(self._objects, segment.path, block.start, block.length)
                there = there or BuiltTail(block.first_offset)
                for one in read_block(data, block).batches:
                    there.take(one)
                there.end_offset = block.last_offset + 1
        return there

    async def _blocks_from(self, timestamp_ms: int) -> AsyncGenerator[tuple[FoundSegment, Block]]:
        """Yield the first blocks before the tail that have records of a time, or later ones."""
        left = BLOCKS_OF_A_TIME
        for segment in self._chosen:
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            for block in await blocks_of(self._objects, segment):
                if not left or block.first_offset >= self.tail.start_offset:
                    return
                if block.max_timestamp_ms >= timestamp_ms:
                    left -= 1
                    yield segment, block

    async def _blocks(
        self, first_offset: int, last_offset: int
    ) -> AsyncGenerator[tuple[FoundSegment, Block]]:
        """Yield the blocks of these offsets, and the next: it may have come a little later."""
        at = bisect_left(self._chosen, first_offset, key=lambda segment: segment.end_offset)
        if at == len(self._chosen) or self._chosen[at].start_offset > last_offset:
            return
        for segment in self._chosen[at:]:
            for block in await blocks_of(self._objects, segment):
                if block.last_offset >= first_offset:
                    yield segment, block
                    if block.first_offset > last_offset:
                        return


async def unbuilt(
    batches: Sequence[FoundBatch], built: BuiltLog | None, taken: Iterable[int] = ()
) -> list[FoundBatch]:
    """Return those that come behind what is built.

    What a writer committed before one that is built, is built as well, also if compaction has
    removed it, and so is all of older leader epochs; unless that one is a repetition, whose writer
    expects it further on, or did not know. Of other writers nothing follows from it.

    Args:
        batches: in the order of their commits.
        built: None if nothing is.
        taken: offsets that something else is told to have, which may not be there any more.

    Raises:
        BadObject, ObjectStoreUnavailable: no answer.
    """
    if built is None:
        return list(batches)
    copies = Counter((batch.crc, batch.byte_length) for batch in batches)
    kept: list[tuple[FoundBatch, int]] = []
    built_writers: set[str] = set()
    newest_built = -1  # epoch
    runs = runs_of(batches)
    mark_doubtful(runs, None)
    for run in reversed(runs):
        expected = run.expected_end
        is_known = run.expected_offset >= 0 and not run.is_doubtful
        if run.leader_epoch < newest_built:
            built_writers.add(run.writer)
        for batch in reversed(run.batches):
            expected -= batch.record_count
            if run.writer in built_writers:
                if is_known and expected >= built.tail.end_offset:
                    kept.append((batch, expected))
            elif not await built.has(batch, expected if is_known else UNKNOWN):
                kept.append((batch, expected if is_known else UNKNOWN))
            elif is_known or copies[batch.crc, batch.byte_length] == 1:
                built_writers.add(run.writer)
                newest_built = max(newest_built, run.leader_epoch)
    return _without_expected_too_far(kept[::-1], built.tail, copies, sorted(taken))


def _without_expected_too_far(
    kept: Iterable[tuple[FoundBatch, int]],
    tail: BuiltTail,
    copies: Mapping[tuple[int, int], int],
    taken: Sequence[int],
) -> list[FoundBatch]:
    """Return batches without those that are built, though their writers expected them behind that.

    So it is where something before a batch was refused: it is expected behind a gap. Where none is,
    or what it expected there was not refused, it is another one of the same bytes, whose first
    object is swept already.

    Args:
        kept: with the offsets that were expected; negative where nobody knows.
        tail: the end of what is built.
        copies: how many batches of the same bytes there are.
        taken: offsets that something else is told to have, ascending.
    """
    end_offset = tail.end_offset
    left: list[FoundBatch] = []
    for batch, expected in kept:
        same = copies[batch.crc, batch.byte_length]
        is_behind_gap = expected > end_offset and (
            bisect_left(taken, end_offset) == bisect_left(taken, expected)
        )
        if is_behind_gap and not batch.is_told and tail.has_copies(batch, same):
            continue
        end_offset = max(end_offset, expected) + batch.record_count
        left.append(batch)
    return left
