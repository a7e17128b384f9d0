"""One row of the index: which bytes of which object hold which offsets (D6)."""

from dataclasses import dataclass

from protocol.batch import read_header
from storage.gap_segment import is_gap


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEntry:
    """Where one partition's run of record batches lies inside one object.

    In an object of the writer (`wal/…`) batches do not carry their base offsets: the first one's is
    start_offset, and each following batch goes on where the one before ended. In a built segment
    (`….seg`, storage/segment.py) they do; between them there may be gaps, and it has an index.

    Attributes:
        start_offset: of the first record of the run.
        end_offset: of the last record of the run (inclusive, as in the path of a .seg object).
        path: of the object; of a run that lies in the index itself, a name that no other run has.
        start: byte of the object where the run begins; 0 if it lies in the index.
        length: bytes; a whole number of v2 record batches (KIP-98).
        max_timestamp_ms: the largest of the run.
        index_length: bytes of the index that follows a built segment's batches, up to the end of
            the object; 0: of an object of the writer.
        inline: the run itself, if it lies in the index: the marker that ends a transaction.
    """

    start_offset: int
    end_offset: int
    path: str
    start: int
    length: int
    max_timestamp_ms: int
    index_length: int = 0
    inline: bytes | None = None

    @property
    def is_gap(self) -> bool:
        """Whether it stands for what a recovery did not find.

        Between built segments that is one of its own; behind them, until the builder has been
        there, a batch without records in the index.
        """
        if self.inline is not None:
            return read_header(self.inline).record_count == 0
        return is_gap(self.path)
