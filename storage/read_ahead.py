"""Which cold readers go through a partition offset by offset, and what they will need soon."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import Final

from protocol.ids import Partition
from storage.config import MiB
from storage.read_plan import Piece, piece_of_row, pieces_of_segment, squares
from storage.segment_entry import SegmentEntry
from storage.segment_indexes import SegmentIndexes

READ_AHEAD_BYTES: Final = 16 * MiB  # of all partitions of one fetch together
MAX_NOTES: Final = 4096


class SequentialReaders:
    """Where reads have ended lately: who asks for that offset next goes through the partition."""

    def __init__(self) -> None:
        self._notes: OrderedDict[tuple[Partition, int], int] = OrderedDict()

    def ended(self, partition: Partition, next_offset: int, bytes_before: int) -> None:
        """Take note of the end of a read.

        Args:
            partition: what was read.
            next_offset: what a reader that goes on will ask for.
            bytes_before: of the row of the index that holds it; they are behind the reader.
        """
        key = (partition, next_offset)
        self._notes[key] = bytes_before
        self._notes.move_to_end(key)
        if len(self._notes) > MAX_NOTES:
            self._notes.popitem(last=False)

    def bytes_before(self, partition: Partition, offset: int) -> int | None:
        """Return what `ended` was told of this offset; None if no read has ended there."""
        return self._notes.get((partition, offset))


def soon_needed(
    following: Sequence[Piece], rows: Sequence[SegmentEntry], indexes: SegmentIndexes
) -> Iterator[list[Piece]]:
    """Yield groups of pieces that one GET fetches, in the order in which a reader will need them.

    Args:
        following: pieces behind those that it needs now.
        rows: of the index, behind those.
        indexes: a segment whose index is not here is the end; the index is fetched for the next
            time.
    """
    yield from squares(_pieces(following, rows, indexes))


def _pieces(
    following: Sequence[Piece], rows: Sequence[SegmentEntry], indexes: SegmentIndexes
) -> Iterator[Piece]:
    yield from following
    for row in rows:
        if not row.index_length:
            yield piece_of_row(row)
            continue
        index = indexes.look_ahead(row)
        if index is None:
            return
        yield from pieces_of_segment(row, index, row.start_offset)


def within_reach(readers: Sequence[Iterator[list[Piece]]]) -> Iterator[list[Piece]]:
    """Take from each reader in turn what it needs soon, READ_AHEAD_BYTES of all together.

    Each gets its first group, so that a reader never asks for less than a whole GET.
    """
    share = READ_AHEAD_BYTES // max(len(readers), 1)
    reached = [_up_to(share, groups) for groups in readers]
    for turn in zip_longest(*reached):
        yield from (group for group in turn if group is not None)


def _up_to(max_bytes: int, groups: Iterator[list[Piece]]) -> Iterator[list[Piece]]:
    yield from islice(groups, 1)
    size = 0
    for group in groups:
        size += sum(piece.length for piece in group)
        if size > max_bytes:
            return
        yield group
