"""What a cold read asks of the object store: pieces of objects, and which of them one GET fetches.

A piece is read and cached as a whole: a block of a built segment (storage/segment.py), or what one
row of the index has in an object of the writer. Everything here is arithmetic.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final

from protocol.errors import CorruptBatch
from storage.config import KiB, MiB
from storage.errors import CorruptObject
from storage.runs import Run, parse_run
from storage.segment import read_block
from storage.segment_entry import SegmentEntry
from storage.segment_index import Block, SegmentIndex

GET_BYTES: Final = 4 * MiB
"""A grid over each object: one GET fetches pieces that begin in the same square of it.

So however a reader's fetches fall, 64 MiB that are read from one end to the other are 16 GETs.
"""

HOLE_BYTES: Final = 16 * KiB
"""A GET fetches so much between two pieces, too: another GET would take longer. What is between is
memory as well, so it is not more."""

PIECE_OVERHEAD_BYTES: Final = 2_500
"""The objects around a piece that is a GET by itself, so that tiny rows count as well."""

Key = tuple[str, int]
"""Path of an object and a byte of it."""


@dataclass(slots=True)  # not frozen: that takes five times as long to make, and there are many
class Piece:
    """Some whole batches of one partition, next to each other in one object, or in the index.

    It is never changed.

    Attributes:
        start, length: bytes of the object.
        first_offset, last_offset: what it answers for; pieces of a partition tile its log.
        block: None if the piece is the whole row.
        key: what tells it from all others: objects are immutable and their paths unique.
        square: where it lies in the grid of GET_BYTES.
    """

    entry: SegmentEntry
    start: int
    length: int
    first_offset: int
    last_offset: int
    block: Block | None = None
    key: Key = field(init=False)
    square: Key = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.entry.path, self.start
        self.square = self.entry.path, self.start // GET_BYTES

    def parse(self, data: memoryview) -> Run:
        """Return its batches, with their offsets.

        Args:
            data: its bytes; may be changed.

        Raises:
            CorruptObject: they are not what the index promises.
        """
        try:
            if self.block is not None:
                return read_block(data, self.block)
            first, last = self.first_offset, self.last_offset
            return parse_run(data, start_offset=first, end_offset=last)
        except (CorruptBatch, CorruptObject) as error:
            raise CorruptObject(f"{self.entry.path} from byte {self.start}: {error}") from error


def piece_of_row(entry: SegmentEntry) -> Piece:
    """Return the piece that is a whole row, of an object of the writer or of the index itself."""
    return Piece(entry, entry.start, entry.length, entry.start_offset, entry.end_offset)


def pieces_of_segment(entry: SegmentEntry, index: SegmentIndex, offset: int) -> list[Piece]:
    """Return the blocks of a built segment that are not all before `offset`, in offset order."""
    first = bisect_left(index.blocks, offset, key=lambda block: block.last_offset)
    return [
        Piece(entry, block.start, block.length, block.first_offset, block.last_offset, block)
        for block in index.blocks[first:]
    ]


def from_offset(pieces: Sequence[Piece], offset: int) -> Sequence[Piece]:
    """Return those that are not all before `offset`, of pieces in offset order."""
    if not pieces or pieces[0].last_offset >= offset:
        return pieces
    return pieces[bisect_left(pieces, offset, key=attrgetter("last_offset")) :]


def take_bytes(pieces: Iterable[Piece], max_bytes: int) -> list[Piece]:
    """Return the first pieces, until their lengths add up to `max_bytes`; at least one."""
    taken: list[Piece] = []
    size = 0
    for piece in pieces:
        taken.append(piece)
        size += piece.length
        if size >= max_bytes:
            break
    return taken


def squares(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Group pieces in offset order by the squares of the grid that they begin in."""
    for _, group in groupby(pieces, key=lambda piece: piece.square):
        yield list(group)


def coalesce(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Return the GETs that fetch these pieces: each those of one square with little between them.

    Args:
        pieces: of any partitions, each once, in any order.
    """
    gets: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: piece.key):
        last = gets[-1][-1] if gets else None
        hole = piece.start - (last.start + last.length) if last is not None else 0
        if last is not None and last.square == piece.square and 0 <= hole <= HOLE_BYTES:
            gets[-1].append(piece)
        else:
            gets.append([piece])
    return gets


def memory_of(pieces: Sequence[Piece]) -> int:
    """Return how many bytes of memory one GET takes that fetches these, in the order of bytes."""
    first, last = pieces[0], pieces[-1]
    return last.start + last.length - first.start + len(pieces) * PIECE_OVERHEAD_BYTES


def most_memory_of(pieces: Iterable[Piece]) -> int:
    """Return how many bytes of memory pieces take at most, whatever GETs they are part of."""
    return sum([piece.length + PIECE_OVERHEAD_BYTES + HOLE_BYTES for piece in pieces])
