"""Which partitions one page of a DescribeTopicPartitions answer holds (KIP-966)."""

from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page.

    Attributes:
        spans: the partitions of each topic, topics in the order of their names.
        following: where the next page begins; None after the last one.
    """

    spans: Mapping[str, range]
    following: Cursor | None


def page_of(counts: Mapping[str, int], cursor: Cursor | None, *, limit: int) -> Page:
    """Return the page that begins at `cursor`, or at the first topic.

    Args:
        counts: partitions of each topic asked for; 0 for one that does not exist, which takes part
            because it is answered, too.
        cursor: its topic need not exist any more.
        limit: partitions on the page; at least one is, however small the limit.

    Raises:
        Refusal: INVALID_REQUEST for a cursor in no partition.
    """
    if cursor is not None and cursor.partition < 0:
        raise Refusal(ErrorCode.invalid_request, f"There is no partition {cursor.partition}.")
    left = max(limit, 1)
    spans: dict[str, range] = {}
    for name in sorted(counts):
        if cursor is not None and name < cursor.topic:
            continue
        first = cursor.partition if cursor is not None and name == cursor.topic else 0
        if not left:
            return Page(spans=spans, following=Cursor(name, first))
        span = range(first, counts[name])[:left]
        spans[name] = span
        left -= len(span)
        if span and span.stop < counts[name]:
            return Page(spans=spans, following=Cursor(name, span.stop))
    return Page(spans=spans, following=None)
