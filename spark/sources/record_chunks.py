"""Records of batches, so many together as their columns are made at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from protocol.batch import MINIMAL_RECORD_BYTES
from protocol.errors import InvalidRecords
from spark.sources.record_starts import find_starts
from spark.sources.varints import Bytes, Numbers, Places

MAX_ROWS: Final = 32_768
"""Of one batch of columns: small enough for the arrays of a step to stay in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The records of one batch, decompressed.

    Attributes:
        count: of records.
        base_offset, last_offset: of the batch.
        append_time_ms: of all records, if the broker's clock set it (KIP-32); None: each has its
            own, a difference from base_timestamp_ms.
    """

    data: bytes | memoryview
    count: int
    base_offset: int
    last_offset: int
    base_timestamp_ms: int
    append_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Up to MAX_ROWS records of neighbouring payloads.

    Attributes:
        starts, ends: of each record in the buffer.
        payloads: that they are of, and how many are of each.
    """

    starts: Places
    ends: Places
    payloads: Sequence[Payload]
    counts: Numbers

    def spread(self, numbers: Sequence[int]) -> Numbers:
        """Return what is said of each payload for each record."""
        if len(numbers) == 1:
            return np.full(len(self.starts), numbers[0], np.int64)
        return np.repeat(np.array(numbers, np.int64), self.counts)


def chunked(data: bytes, view: Bytes, payloads: Sequence[Payload]) -> Iterator[Chunk]:
    """Yield the records of all payloads, which lie back to back in `data`."""
    for payload in payloads:
        if not 0 <= payload.count * MINIMAL_RECORD_BYTES <= len(payload.data):
            raise InvalidRecords(f"{len(payload.data)} bytes cannot hold {payload.count} records")
    ends = np.cumsum([0, *(len(payload.data) for payload in payloads)])
    firsts = np.cumsum([0, *(payload.count for payload in payloads)])  # records before each
    total = int(firsts[-1])
    starts = find_starts(data, view, int(ends[-1]), total)
    if (starts[firsts] != ends).any():
        raise InvalidRecords("records do not end where their batch does")
    for first in range(0, total, MAX_ROWS):
        last = min(first + MAX_ROWS, total)
        of = int(firsts.searchsorted(first, "right")) - 1
        after = int(firsts.searchsorted(last))
        yield Chunk(
            starts[first:last],
            starts[first + 1 : last + 1],
            payloads[of:after],
            np.diff(firsts[of : after + 1].clip(first, last)),
        )
