"""Record batches of one partition in memory, back to back in offset order, ready to be sent."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from protocol.batch import batch_extents, set_base_offset
from storage.errors import CorruptObject


@dataclass(frozen=True, slots=True)
class Run:
    """Some batches of a partition that follow each other without a gap.

    Attributes:
        base_offsets: of each batch, ascending.
        batches: the bytes of each, with their base offsets set.
        end_offset: one past the last record.
        size: bytes of all batches.
    """

    base_offsets: Sequence[int]
    batches: Sequence[memoryview]
    end_offset: int
    size: int

    def read(
        self, offset: int, max_bytes: int, end_offset: int
    ) -> tuple[list[memoryview], int, int]:
        """Return whole batches from the one holding `offset` on, their bytes, and the next offset.

        The first batch is returned even if it alone exceeds `max_bytes` (KIP-74). A batch that
        begins at `end_offset` is not wanted any more.
        """
        first = max(bisect_right(self.base_offsets, offset) - 1, 0)
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


def parse_run(data: bytearray, *, start_offset: int, end_offset: int) -> Run:
    """Give stored batches their offsets, in place, and check them against the index row.

    Args:
        data: as stored: base offsets are not set.
        start_offset: of the first record.
        end_offset: of the last record (inclusive, as in the index).

    Raises:
        CorruptBatch: not whole batches, or a checksum does not match.
        CorruptObject: whole batches, but not as many records as the index says.
    """
    view = memoryview(data)
    base_offsets, batches, offset = [], [], start_offset
    for start, size, records in batch_extents(view):
        set_base_offset(data, offset, start)
        base_offsets.append(offset)
        batches.append(view[start : start + size])
        offset += records
    if offset != end_offset + 1:
        raise CorruptObject(f"records up to {offset - 1}, the index says {end_offset}")
    return Run(base_offsets, batches, offset, len(data))
