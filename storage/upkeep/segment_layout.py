"""Rows of the index laid out as one built segment, with another codec if the topic asks for one."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from protocol.errors import ProtocolError
from protocol.ids import Partition
from storage.aborted_ranges import merge_aborted
from storage.aborted_transaction import AbortedTransaction
from storage.config import KiB, MiB
from storage.errors import BadObject
from storage.objects.port import Buffer, ObjectStore
from storage.segment_encoder import BuiltSegment, SegmentEncoder
from storage.segment_entry import SegmentEntry
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.recompression import recompress
from storage.upkeep.segment_rows import RowPart, read_rows

MAX_BATCHES: Final = 100_000
"""Each costs 200 bytes of memory until the segment is uploaded, however small it is."""

GROWTH_BYTES: Final = 8 * MiB
"""A segment gets so much larger than its target at most because its batches grow."""

_BUSY_BYTES: Final = 256 * KiB


class RowsChanged(Exception):
    """Rows that were read are not in the log any more, or were read wrong: another try tells."""


class UnreadableRow(Exception):
    """A row whose bytes are damaged, missing or not given out; the message says how."""

    def __init__(self, entry: SegmentEntry, reason: str) -> None:
        super().__init__(reason)
        self.entry = entry


class SegmentLayout:
    """One segment that is being laid out.

    Args:
        target_bytes: no further row is begun once the segment has so many.

    Attributes:
        rows: those that it has all batches of.
        not_recompressed: batches kept as they are because their payload cannot be undone.
    """

    def __init__(
        self, objects: ObjectStore, partition: Partition, policy: TopicPolicy, *, target_bytes: int
    ) -> None:
        self.rows: list[SegmentEntry] = []
        self.not_recompressed = 0
        self._objects = objects
        self._partition = partition
        self._policy = policy
        self._target_bytes = target_bytes
        self._batches = 0
        self._horizons: list[tuple[int, int]] = []
        self._aborted: list[AbortedTransaction] = []  # of the segments that it is built from
        self._encoder: SegmentEncoder

    async def fill(self, rows: Sequence[SegmentEntry]) -> bool:
        """Take rows in their order until the segment is full.

        Returns:
            False if it is full of what is built already: there is nothing to be gained by it.

        Raises:
            UnreadableRow: the one behind those that it has all batches of.
            ObjectStoreUnavailable: the store gave no answer in time; retrying is safe.
        """
        self._encoder = SegmentEncoder(
            topic_id=self._partition.topic_id,
            partition=self._partition.index,
            topic=self._policy,
            start_offset=rows[0].start_offset,
        )
        async with aclosing(read_rows(self._objects, rows)) as parts:
            try:
                async for part in parts:
                    await self._take(part)
                    if part.is_last and self._is_full():
                        break
            except BadObject as error:
                raise UnreadableRow(rows[len(self.rows)], str(error)) from error
        return not self.rows[-1].index_length

    def finish(self, aborted: Sequence[AbortedTransaction]) -> BuiltSegment:
        """Return the object with all of `rows`.

        Args:
            aborted: transactions with records in it, as the metadata tells.
        """
        return self._encoder.finish(
            end_offset=self.rows[-1].end_offset,
            aborted=merge_aborted([self._aborted, aborted]),
            horizons=self._horizons,
        )

    def _is_full(self) -> bool:
        return self._encoder.size >= self._target_bytes or self._batches >= MAX_BATCHES

    async def _take(self, part: RowPart) -> None:
        busy_bytes = 0
        for batch in part.batches:
            if self._policy.codec is None:
                self._encoder.add(batch)
                continue
            self._encoder.add(self._recompressed(batch))
            busy_bytes += len(batch)
            if busy_bytes >= _BUSY_BYTES:  # others of this process wait, and leases run out
                busy_bytes = 0
                await asyncio.sleep(0)
        self._batches += len(part.batches)
        if part.is_last:
            self.rows.append(part.entry)
            if part.index is not None:
                self._horizons += part.index.horizons
                self._aborted += part.index.aborted
        await asyncio.sleep(0)

    def _recompressed(self, batch: memoryview) -> Buffer:
        assert self._policy.codec is not None  # _take
        try:
            result = recompress(batch, self._policy.codec, self._policy.compression_level)
        except ProtocolError:
            self.not_recompressed += 1
            return batch
        grown = self._encoder.size + len(result) > self._target_bytes + GROWTH_BYTES
        return batch if grown and len(result) > len(batch) else result
