"""How far a streaming query has come, as its checkpoint keeps it, and how far it goes next.

In a checkpoint it is JSON, in the words of Spark's Kafka source where there are any:

    {"offsets": {"orders": {"0": 17, "1": 4}}, "topicIds": {"orders": "…"}, "initial": {…}}

`topicIds` tells a topic from one that is made again under its name. `initial` is there in the
first offset that a query ever takes: where it began. Spark writes that down nowhere; a query that
dies in its first batch asks again where to begin, and would be told a later "latest" than before,
or that its time has gone. What an initial offset itself answers is marked by an `initial` of null.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final
from uuid import UUID

from spark.sources.cut import Cut, Range, TopicPartition

Positions = Mapping[TopicPartition, int]

OFFSETS: Final = "offsets"
TOPIC_IDS: Final = "topicIds"
INITIAL: Final = "initial"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """One past the last offset of each partition that is read.

    Attributes:
        positions: the partitions that there were.
        is_initial: it is where a query begins, not where a batch ended.
        began_at: of the end of a first batch, where that began; None of all later ones.
    """

    positions: Positions
    is_initial: bool = False
    began_at: Positions | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "StreamOffset":
        """Return what `to_json` made a document of."""
        ids = {topic: UUID(text) for topic, text in document[TOPIC_IDS].items()}
        began_at = document.get(INITIAL)
        return cls(
            positions=_positions(document[OFFSETS], ids),
            is_initial=INITIAL in document and began_at is None,
            began_at=None if began_at is None else _positions(began_at, ids),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a document; equal offsets have equal texts, which is how Spark compares them."""
        document: dict[str, Any] = {
            OFFSETS: _document(self.positions),
            TOPIC_IDS: {each.topic: str(each.topic_id) for each in sorted(self.positions)},
        }
        if self.is_initial:
            document[INITIAL] = None
        elif self.began_at is not None:
            document[INITIAL] = _document(self.began_at)
        return document

    def following(self, positions: Positions) -> "StreamOffset":
        """Return the offset that comes after this one; this one itself if nothing has moved."""
        if self.is_initial:
            # A partition that went before it was read has no id in the document, and no records.
            began_at = {each: at for each, at in self.positions.items() if each in positions}
            return StreamOffset(positions=positions, began_at=began_at)
        return self if positions == self.positions else StreamOffset(positions=positions)


def batch_ranges(start: StreamOffset, end: StreamOffset) -> Cut:
    """Return what a batch reads. A partition that came meanwhile is read from its first offset."""
    begins = start.positions
    if start.is_initial and end.began_at is not None:
        begins = end.began_at  # as it was when the batch was first tried
    return {
        each: Range(start=begins.get(each, 0), end=until)
        for each, until in end.positions.items()
        if begins.get(each, 0) < until
    }


def limited(begins: Positions, ends: Positions, most: int | None) -> dict[TopicPartition, int]:
    """Return ends that are `most` offsets away in all, divided as the partitions have them.

    Each that has something to read moves on by one at least, so none is starved.
    """
    sizes = {each: max(end - begins.get(each, 0), 0) for each, end in ends.items()}
    total = sum(sizes.values())
    if most is None or total <= most:
        return dict(ends)
    return {
        each: end if not sizes[each] else begins.get(each, 0) + _share(sizes[each], most, total)
        for each, end in ends.items()
    }


def _share(size: int, most: int, total: int) -> int:
    share = size * most / total
    return min(size, ceil(share) if share < 1 else int(share))


def _positions(document: Mapping[str, Mapping[str, int]], ids: Mapping[str, UUID]) -> Positions:
    return {
        TopicPartition(topic=topic, partition=int(number), topic_id=ids[topic]): offset
        for topic, numbers in document.items()
        for number, offset in numbers.items()
    }


def _document(positions: Positions) -> dict[str, dict[str, int]]:
    document: dict[str, dict[str, int]] = {}
    for each in sorted(positions):
        document.setdefault(each.topic, {})[str(each.partition)] = positions[each]
    return document
