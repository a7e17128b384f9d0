"""Where a partition's log begins and ends."""

from typing import NamedTuple


class PartitionOffsets(NamedTuple):
    """A partition at one moment; a tuple, for clients ask for those of a thousand at a time.

    Attributes:
        log_start_offset: first offset that can be read.
        high_watermark: one past the last committed record (exclusive, as on the wire).
        last_stable_offset: before it, every transaction has ended (exclusive, too).
        aborted_count: how many aborted transactions were ever written down for the partition: who
            knows as many knows them all.
    """

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    aborted_count: int
