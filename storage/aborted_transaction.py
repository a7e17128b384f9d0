"""Transactions of a partition that were aborted, as the log and its segments know them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """What a reader of committed records skips (KIP-98).

    Attributes:
        first_offset: of its first record in the partition.
        last_offset: of its marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedPage:
    """Aborted transactions of a range of offsets, in the order of their last offsets.

    Attributes:
        log_start_offset: of the same moment: what ended before it may have been forgotten.
    """

    log_start_offset: int
    transactions: list[AbortedTransaction]
