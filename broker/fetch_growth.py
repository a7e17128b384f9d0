"""What a fetch wants, and whether it has enough of it (see broker/fetching.py)."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from protocol.batch import read_header
from protocol.fetch import PartitionWanted
from protocol.fetch_response import PartitionAnswer
from storage.partition_log import PartitionLog


@dataclass(slots=True)
class Wanted:
    """One partition of a fetch: what is asked for, and the answer in the making.

    Attributes:
        stable_offset, aborted_count: a snapshot, taken before the records; for READ_COMMITTED only.
    """

    partition: PartitionWanted
    log: PartitionLog
    answer: PartitionAnswer
    stable_offset: int = -1
    aborted_count: int = 0


class Growth:
    """Resolves `enough` when the awaited partitions have grown by `min_bytes`."""

    def __init__(self, min_bytes: int, *, read_committed: bool) -> None:
        self.read_committed = read_committed
        self._missing = min_bytes
        self.enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def grown(self, size: int) -> None:
        """Count bytes that came; 0 says that there is something else to look at."""
        self._missing -= size
        if (self._missing <= 0 or size == 0) and not self.enough.done():
            self.enough.set_result(None)


def counted_bytes(wanted: Iterable[Wanted], *, read_committed: bool) -> int:
    """Return the bytes that count towards min_bytes.

    Kafka's answers end within a batch, so a partition that has more than its limit reaches it.
    Batches are whole here and leave some of it, but more will not fit, however long one waits.
    """
    counted = 0
    for one in wanted:
        answer, end_offset = one.answer, one.partition.offset
        if answer.size:
            last = read_header(answer.records[-1])
            end_offset = last.base_offset + last.last_offset_delta + 1
        readable = one.stable_offset if read_committed else answer.high_watermark
        is_cut = end_offset < readable
        counted += max(answer.size, one.partition.max_bytes) if is_cut else answer.size
    return counted
