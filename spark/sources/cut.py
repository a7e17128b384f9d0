"""A range of offsets of each partition: what a read is about, whatever it was asked by."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Offsets of one partition.

    Attributes:
        start: first offset.
        end: one past the last offset.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TopicPartition:
    """A partition as jobs know it, with the id that tells a topic from one of its name before."""

    topic: str
    partition: int
    topic_id: UUID


Cut = Mapping[TopicPartition, Range]
