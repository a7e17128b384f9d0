"""Which records a condition may be true of, as ranges: what a read can be narrowed down to.

A narrowed read only saves work. The condition is still checked of each record, so ranges may be too
wide, never too narrow.
"""

from dataclasses import dataclass
from typing import Final

MICROSECONDS: Final = 1000
"""Of a millisecond: Spark counts time in the former, records in the latter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Whole numbers from `first` to `last`, both inclusive; None: no limit."""

    first: int | None = None
    last: int | None = None

    def both(self, other: "Span") -> "Span":
        """Return what is in both."""
        firsts = [one.first for one in (self, other) if one.first is not None]
        lasts = [one.last for one in (self, other) if one.last is not None]
        return Span(first=max(firsts, default=None), last=min(lasts, default=None))

    def either(self, other: "Span") -> "Span":
        """Return all from the first of either to the last of either."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        is_open = self.first is None or other.first is None
        first = None if is_open else min(self.first or 0, other.first or 0)
        is_open = self.last is None or other.last is None
        last = None if is_open else max(self.last or 0, other.last or 0)
        return Span(first=first, last=last)

    @property
    def is_empty(self) -> bool:
        return self.first is not None and self.last is not None and self.first > self.last

    def __contains__(self, number: int) -> bool:
        return (self.first is None or self.first <= number) and (
            self.last is None or number <= self.last
        )


ALL: Final = Span()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Records that may be wanted of a topic.

    Attributes:
        timestamps_us: microseconds since 1970.
    """

    partitions: Span = ALL
    offsets: Span = ALL
    timestamps_us: Span = ALL

    def both(self, other: "Wanted") -> "Wanted":
        """Return what two conditions leave that both have to be true."""
        return Wanted(
            partitions=self.partitions.both(other.partitions),
            offsets=self.offsets.both(other.offsets),
            timestamps_us=self.timestamps_us.both(other.timestamps_us),
        )

    def either(self, other: "Wanted") -> "Wanted":
        """Return what two conditions leave of which one has to be true."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return Wanted(
            partitions=self.partitions.either(other.partitions),
            offsets=self.offsets.either(other.offsets),
            timestamps_us=self.timestamps_us.either(other.timestamps_us),
        )

    @property
    def is_empty(self) -> bool:
        return any(one.is_empty for one in (self.partitions, self.offsets, self.timestamps_us))

    def timestamps_ms(self) -> tuple[int | None, int | None]:
        """Return the first millisecond wanted, and the first one that is not any more."""
        first, last = self.timestamps_us.first, self.timestamps_us.last
        return (
            None if first is None else -(-first // MICROSECONDS),
            None if last is None else last // MICROSECONDS + 1,
        )
