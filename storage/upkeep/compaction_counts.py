"""What a compactor has done; the upkeep's metrics."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class CompactionCounts:
    """What a compactor has done.

    Attributes:
        rounds: that came to their end.
        segments: swapped in.
        rows: that they have taken the place of.
        size: of the objects, bytes.
        records_learned: whose keys rounds have looked up in the dirty parts.
        records_read, records_kept: of all rows that rounds have gone through.
        lost: rounds that ended early because somebody else had changed rows.
        unreadable: rounds that ended early because bytes are damaged or missing.
        failed: rounds that ended early because of a bug.
        unreadable_batches: kept as they are because their records cannot be read.
    """

    rounds: int = 0
    segments: int = 0
    rows: int = 0
    size: int = 0
    records_learned: int = 0
    records_read: int = 0
    records_kept: int = 0
    lost: int = 0
    unreadable: int = 0
    failed: int = 0
    unreadable_batches: int = 0
