"""Which cold readers go through a partition offset by offset, and what they will need soon."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final

from protocol.ids import Partition
from storage.config import MiB
from storage.reading.read_plan import Piece, piece_of_row, squares
from storage.reading.segment_indexes import SegmentIndexes
from storage.segment_entry import SegmentEntry

READ_AHEAD_BYTES: Final = 16 * MiB  # of all partitions of one fetch together
MAX_NOTES: Final = 4096
MAX_ROUTES: Final = 256  # a route has 100 rows of the index at most, and the pieces of one


@dataclass(slots=True)
class Route:
    """What the index has named behind the end of a read.

    Attributes:
        pieces: from the one with the next offset on, of one row.
        rows: behind that row.
        named_s: when the index did.
        left_bytes: of pieces and rows, about.
        ahead_bytes: how much of it was read ahead, or is being, about.
        ahead_due_bytes: when so much of that is left, more is to be read ahead.
    """

    pieces: Sequence[Piece]
    rows: Sequence[SegmentEntry]
    named_s: float
    left_bytes: int
    ahead_bytes: int
    ahead_due_bytes: int

    @property
    def end_offset(self) -> int:
        """Of the last record that is known of (inclusive); -1 if none is."""
        if self.rows:
            return self.rows[-1].end_offset
        return self.pieces[-1].last_offset if self.pieces else -1


@dataclass(slots=True)
class Note:
    """Where a read has ended.

    Attributes:
        bytes_before: of the row of the index that holds the next offset; they are behind the
            reader.
        route: how it goes on from there; None if that was too long ago.
    """

    bytes_before: int
    route: Route | None


class SequentialReaders:
    """Where reads have ended lately: who asks for that offset next goes through the partition."""

    def __init__(self) -> None:
        self._notes: OrderedDict[tuple[Partition, int], Note] = OrderedDict()
        self._routes: OrderedDict[tuple[Partition, int], Note] = OrderedDict()

    def ended(self, partition: Partition, next_offset: int, note: Note) -> None:
        """Take note of the end of a read.

        Args:
            partition: what was read.
            next_offset: what a reader that goes on will ask for.
            note: of that place.
        """
        key = (partition, next_offset)
        for notes, most in ((self._notes, MAX_NOTES), (self._routes, MAX_ROUTES)):
            notes[key] = note
            notes.move_to_end(key)
            if len(notes) > most:
                notes.popitem(last=False)[1].route = None

    def note(self, partition: Partition, offset: int) -> Note | None:
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
        pieces = indexes.look_ahead(row)
        if pieces is None:
            return
        yield from pieces


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
