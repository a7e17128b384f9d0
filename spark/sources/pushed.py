"""Filters that Spark hands to a source, as far as they say where not to read (pyspark 4.1+).

They only narrow what is planned: Spark applies every filter again, so a bound may be too wide and
never too narrow. Filters are told apart by their names and not by their classes, which pyspark 4.0
does not have.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from spark.sources.cut import Cut, Range

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_LAST: Final = 2**63 - 1
_ALL: Final = Range(start=0, end=_LAST)


class Filter(Protocol):
    """A condition on one column; all that are given hold.

    Attributes:
        attribute: path of the column.
    """

    attribute: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What filters leave of a log.

    Attributes:
        topics, partitions: None: all.
        offsets: of each partition.
        timestamps_ms: first one, and one past the last; None: no limit.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offsets: Range = _ALL
    timestamps_ms: tuple[int | None, int | None] = (None, None)

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> "Pushed":
        """Return what all of them leave; one that cannot be used leaves everything."""
        pushed = cls()
        for each in filters:
            pushed = pushed._and(each)
        return pushed

    def narrow(self, cut: Cut) -> Cut:
        """Return what is left of a cut."""
        return {
            each: Range(
                start=max(offsets.start, self.offsets.start),
                end=min(offsets.end, self.offsets.end),
            )
            for each, offsets in cut.items()
            if (self.topics is None or each.topic in self.topics)
            and (self.partitions is None or each.partition in self.partitions)
        }

    def times(self, first_ms: int | None, end_ms: int | None) -> tuple[int | None, int | None]:
        """Return what is left of a range of timestamps."""
        firsts = [each for each in (first_ms, self.timestamps_ms[0]) if each is not None]
        ends = [each for each in (end_ms, self.timestamps_ms[1]) if each is not None]
        return max(firsts, default=None), min(ends, default=None)

    def _and(self, condition: Filter) -> "Pushed":
        column = ".".join(getattr(condition, "attribute", ()))
        values = _values(condition)
        if column in {"topic", "partition"} and values is not None:
            return self._only(column, values)
        if column in {"offset", "timestamp"}:
            low, high = _bounds(condition)
            return self._between(column, low, high)
        return self

    def _only(self, column: str, values: frozenset[object]) -> "Pushed":
        if column == "topic":
            topics = frozenset(value for value in values if isinstance(value, str))
            return replace(self, topics=topics if self.topics is None else self.topics & topics)
        numbers = frozenset(value for value in values if isinstance(value, int))
        known = self.partitions
        return replace(self, partitions=numbers if known is None else known & numbers)

    def _between(self, column: str, low: object, high: object) -> "Pushed":
        if column == "offset":
            start = low if isinstance(low, int) else 0
            end = high + 1 if isinstance(high, int) else _LAST
            narrowed = Range(start=max(start, self.offsets.start), end=min(end, self.offsets.end))
            return replace(self, offsets=narrowed)
        first_ms = _ms(low) if isinstance(low, datetime) else None
        end_ms = _ms(high) + 1 if isinstance(high, datetime) else None
        return replace(self, timestamps_ms=self.times(first_ms, end_ms))


def _values(condition: Filter) -> frozenset[object] | None:
    """Return all values that a column may have; None: they are not told one by one."""
    match type(condition).__name__:
        case "EqualTo":
            return frozenset([getattr(condition, "value", None)])
        case "In":
            return frozenset(getattr(condition, "value", ()))
        case _:
            return None


def _bounds(condition: Filter) -> tuple[object, object]:
    """Return the least and the largest value that a column may have; None: no limit."""
    value = getattr(condition, "value", None)
    match type(condition).__name__:
        case "EqualTo":
            return value, value
        case "GreaterThan" | "GreaterThanOrEqual":
            return value, None
        case "LessThan" | "LessThanOrEqual":
            return None, value
        case _:
            return None, None


def _ms(moment: datetime) -> int:
    """Return milliseconds since 1970, rounded down; a time without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
