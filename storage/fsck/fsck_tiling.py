"""Whether the rows of a partition tile its log; pure."""

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import NamedTuple

from protocol.ids import Partition
from storage.fsck.fsck_findings import Findings, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """What the index says of a partition.

    Attributes:
        topic: its name.
        built_offset: rows before it are built segments, or were stepped over.
    """

    topic: str
    partition: Partition
    log_start_offset: int
    high_watermark: int
    built_offset: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition.index}"


class RowExtent(NamedTuple):
    """What a row covers (inclusive), and whether it is a built segment."""

    start_offset: int
    end_offset: int
    is_built: bool


class TilingCheck:
    """Takes the rows of a partition in the order of their ends, all of one moment.

    Attributes:
        rows: that can be read, so far.
        leftovers: rows wholly before the log start, which purge takes away.
    """

    def __init__(self, state: PartitionState, findings: Findings) -> None:
        self.rows = 0
        self.leftovers = 0
        self._state = state
        self._findings = findings
        self._next_offset = state.log_start_offset

    def take(self, row: RowExtent) -> None:
        """Look at the next row."""
        state = self._state
        if row.end_offset < state.log_start_offset and row.start_offset <= row.end_offset:
            self.leftovers += 1
            return
        self.rows += 1
        self._check_start(row)
        self._next_offset = max(self._next_offset, row.end_offset + 1)
        if row.end_offset >= state.high_watermark:
            self._say(Kind.ROW_BEHIND_END, row.start_offset, row.end_offset)
        is_before = row.end_offset < state.built_offset
        if row.is_built and not is_before:
            self._say(Kind.NOT_BUILT_IN_ORDER, row.start_offset, row.end_offset)
        if is_before and not row.is_built:
            self._say(Kind.NOT_BUILT, row.start_offset, row.end_offset)

    def finish(self) -> None:
        """Say what is missing at the end."""
        if self._next_offset < self._state.high_watermark:
            self._say(Kind.ROW_MISSING, self._next_offset, self._state.high_watermark - 1)
        if self.leftovers:
            example = f"{self._state.name}: {self.leftovers}"
            self._findings.add(Kind.LEFTOVER_ROWS, example, self.leftovers)

    def _check_start(self, row: RowExtent) -> None:
        if row.start_offset > row.end_offset:
            self._say(Kind.ROWS_OVERLAP, row.start_offset, row.end_offset)
        elif row.start_offset > self._next_offset:
            self._say(Kind.ROW_MISSING, self._next_offset, row.start_offset - 1)
        elif self.rows > 1 and row.start_offset < self._next_offset:
            last = min(self._next_offset - 1, row.end_offset)
            self._say(Kind.ROWS_OVERLAP, row.start_offset, last)

    def _say(self, kind: Kind, first: int, last: int) -> None:
        self._findings.add(kind, f"{self._state.name}: offsets {first:,} to {last:,}")


async def check_tiling(
    state: PartitionState, rows: AsyncIterable[RowExtent], findings: Findings
) -> int:
    """Look at all rows of a partition, in the order of their ends; return how many can be read."""
    tiling = TilingCheck(state, findings)
    async for row in rows:
        tiling.take(row)
    tiling.finish()
    return tiling.rows
