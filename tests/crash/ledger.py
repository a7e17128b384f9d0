"""What a run of clients against a broker sent, was told and read: the history that is checked.

Clients append while the run goes on, each to a part of its own; tests/crash/checks.py judges it
afterwards. All times are of time.monotonic, in seconds, so that they order what happened in several
threads of this process.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

FOREIGN = -1
"""The value of a record that no producer of ours wrote."""


class Position(NamedTuple):
    """A place in the log of the run's only topic."""

    partition: int
    offset: int


class Ack(NamedTuple):
    """A delivery report: the record is at `position`, says the broker."""

    position: Position
    at_s: float


class Read(NamedTuple):
    """One record as one reader saw it."""

    position: Position
    value: int
    at_s: float


class EndOffset(NamedTuple):
    """An answer to ListOffsets latest, asked at `began_s` and there at `ended_s`."""

    position: Position
    began_s: float
    ended_s: float


class Fault(NamedTuple):
    """Something that was broken.

    Attributes:
        mended_s: when the cause ended: the start of its process, the end of its pause.
        up_s: when it was seen to be back; an acknowledgement after this is a new one.
    """

    name: str
    began_s: float
    mended_s: float
    up_s: float


class ReadPass:
    """One reader's way through the log, in the order of its reads; 28 bytes for each of them.

    Attributes:
        starts: partition -> the offset that was asked for first, where that is known.
        following: partition -> the offset behind the last one read, or at first the start.
    """

    def __init__(self, reader: str, starts: Mapping[int, int] | None = None) -> None:
        self.reader = reader
        self.starts = dict(starts or {})
        self.following = dict(self.starts)
        self._partitions = array("i")
        self._offsets = array("q")
        self._values = array("q")
        self._times = array("d")

    def add(self, position: Position, value: int, at_s: float) -> None:
        self._partitions.append(position.partition)
        self._offsets.append(position.offset)
        self._values.append(value)
        self._times.append(at_s)
        self.following[position.partition] = position.offset + 1

    def behind(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Return the partitions of which it has not read all before these offsets, and those."""
        return {at: end for at, end in ends.items() if self.following.get(at, 0) < end}

    def replace(self, reads: Iterable[Read]) -> None:
        """Hold these in place of what was written down."""
        for column in (self._partitions, self._offsets, self._values, self._times):
            del column[:]
        for read in reads:
            self.add(*read)

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[Read]:
        columns = zip(self._partitions, self._offsets, self._values, self._times, strict=True)
        for partition, offset, value, at_s in columns:
            yield Read(Position(partition, offset), value, at_s)


@dataclass(slots=True)
class Ledger:
    """The history of one run.

    Attributes:
        sent: value -> partition, in the order in which they were given to the producer.
        acked: value -> what its delivery report said.
        refused: value -> the error of its delivery report.
        unplaced: value -> when its delivery report came that told no offset: librdkafka takes a
            batch whose acknowledgement was lost for written once a later one is acknowledged.
        placed: how many of these were found in the log, and are among the acknowledged.
        passes: what was read while faults went on.
        final: what fresh clients read from offset 0 after all was mended.
        end_offsets: samples taken one after the other during the run.
        final_end_offsets: partition -> latest offset after all was mended.
        complaints: errors that clients were told and that nothing excuses.
    """

    sent: dict[int, int] = field(default_factory=dict)
    acked: dict[int, Ack] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    unplaced: dict[int, float] = field(default_factory=dict)
    placed: int = 0
    passes: list[ReadPass] = field(default_factory=list)
    final: ReadPass = field(default_factory=lambda: ReadPass("final"))
    end_offsets: list[EndOffset] = field(default_factory=list)
    final_end_offsets: dict[int, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    _ack_times: list[float] = field(default_factory=list)

    def acknowledge(self, value: int, position: Position, at_s: float) -> None:
        """Write down a good delivery report; `at_s` never decreases."""
        self.acked[value] = Ack(position, at_s)
        self._ack_times.append(at_s)

    def acknowledge_somewhere(self, value: int, at_s: float) -> None:
        """Write down a good delivery report that told no offset."""
        self.unplaced[value] = at_s
        self._ack_times.append(at_s)

    def place_acknowledged(self) -> None:
        """Take the offsets that delivery reports did not tell from the final read."""
        for read in self.final:
            at_s = self.unplaced.pop(read.value, None)
            if at_s is not None:
                self.placed += 1
                self.acked[read.value] = Ack(read.position, at_s)

    def begin_pass(self, reader: str, starts: Mapping[int, int] | None = None) -> ReadPass:
        """Return the page for one more reader."""
        self.passes.append(ReadPass(reader, starts))
        return self.passes[-1]

    def acknowledged_ends(self) -> dict[int, int]:
        """Return, by partition, the offset behind the last acknowledged record."""
        ends: dict[int, int] = {}
        for ack in self.acked.values():
            partition, offset = ack.position
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return ends

    def reads(self) -> Iterator[Read]:
        """Yield everything that anybody ever read."""
        for one in (*self.passes, self.final):
            yield from one

    def first_ack_after(self, moment_s: float) -> float | None:
        """Return when the first delivery report after a moment came; None if none has yet."""
        at = bisect_right(self._ack_times, moment_s)
        return self._ack_times[at] if at < len(self._ack_times) else None

    def recoveries_s(self) -> list[float]:
        """Return, per fault, the seconds from when it was mended to the next acknowledgement."""
        pairs = ((fault.mended_s, self.first_ack_after(fault.up_s)) for fault in self.faults)
        return [first_s - mended_s for mended_s, first_s in pairs if first_s is not None]

    def summary(self) -> str:
        """Return one line that tells what this run did."""
        times = self._ack_times
        silence_s = max((later - sooner for sooner, later in pairwise(times)), default=0.0)
        read = sum(len(one) for one in self.passes)
        return (
            f"sent={len(self.sent)} acked={len(self.acked)} "
            f"of_these_without_offset={self.placed} refused={len(self.refused)} "
            f"read_during_faults={read} read_at_the_end={len(self.final)} "
            f"faults={len(self.faults)} seconds={times[-1] - times[0] if times else 0:.1f} "
            f"longest_without_ack_s={silence_s:.2f} "
            f"first_ack_after_mending_s: {_spread(self.recoveries_s())}"
        )


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    ordered = sorted(seconds)
    median = ordered[len(ordered) // 2]
    return f"min={ordered[0]:.2f} median={median:.2f} max={ordered[-1]:.2f}"
