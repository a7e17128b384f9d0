"""Record batches of one partition in memory, back to back in offset order, ready to be sent."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from protocol.batch import batch_extents, placed_extents, set_base_offset
from storage.errors import CorruptObject


@dataclass(frozen=True, slots=True)
class Run:
    """Some batches of a partition in offset order; in a built segment there may be gaps.

    Attributes:
        base_offsets: of each batch, ascending.
        last_offsets: of each batch: before the next one's base offset.
        batches: the bytes of each, with their base offsets set.
        end_offset: one past the last offset that the run answers for.
        size: bytes of all batches.
    """

    base_offsets: Sequence[int]
    last_offsets: Sequence[int]
    batches: Sequence[memoryview]
    end_offset: int
    size: int

    def read(
        self, offset: int, max_bytes: int, end_offset: int
    ) -> tuple[list[memoryview], int, int]:
        """Return whole batches from the one holding `offset` on, their bytes, and the next offset.

        In a gap it begins with the next batch; behind the last one there is none, and the next
        offset is the end of the run. The first batch is returned even if it alone exceeds
        `max_bytes` (KIP-74). A batch that begins at `end_offset` is not wanted any more.
        """
        first = bisect_left(self.last_offsets, offset)
        last = len(self.batches)
        if end_offset < self.end_offset:
            last = bisect_left(self.base_offsets, end_offset, first)
        taken: list[memoryview] = []
        size = 0
        for batch in self.batches[first:last]:
            if taken and size + len(batch) > max_bytes:
                break
            taken.append(batch)
            size += len(batch)
        following = first + len(taken)
        complete = following == len(self.batches)
        return taken, size, self.end_offset if complete else self.base_offsets[following]


def parse_run(data: bytearray | memoryview, *, start_offset: int, end_offset: int) -> Run:
    """Give batches of the writer their offsets, in place, and check them against the index row.

    Args:
        data: as stored: base offsets are not set.
        start_offset: of the first record.
        end_offset: of the last record (inclusive, as in the index).

    Raises:
        CorruptBatch: not whole batches, or a checksum does not match.
        CorruptObject: whole batches, but not as many records as the index says.
    """
    view = memoryview(data)
    base_offsets, last_offsets, batches, offset = [], [], [], start_offset
    for start, size, records in batch_extents(view):
        set_base_offset(data, offset, start)
        base_offsets.append(offset)
        batches.append(view[start : start + size])
        offset += records
        last_offsets.append(offset - 1)
    if offset != end_offset + 1:
        raise CorruptObject(f"records up to {offset - 1}, the index says {end_offset}")
    return Run(base_offsets, last_offsets, batches, offset, len(data))


def parse_placed(view: memoryview, *, start_offset: int, end_offset: int) -> Run:
    """Return batches that have their offsets; nothing is changed.

    Args:
        view: whole batches whose bytes were checked already.
        start_offset: no batch begins before it.
        end_offset: no batch ends behind it (inclusive).

    Raises:
        CorruptBatch: not whole batches.
        CorruptObject: whole batches, but their offsets do not ascend from one end to the other.
    """
    base_offsets, last_offsets, batches, last = [], [], [], start_offset - 1
    for start, size, base_offset, last_offset in placed_extents(view):
        if not last < base_offset <= last_offset:
            raise CorruptObject(f"a batch of offsets {base_offset} to {last_offset} after {last}")
        base_offsets.append(base_offset)
        last_offsets.append(last_offset)
        batches.append(view[start : start + size])
        last = last_offset
    if last > end_offset:
        raise CorruptObject(f"records up to {last}, the index says {end_offset}")
    return Run(base_offsets, last_offsets, batches, end_offset + 1, len(view))
