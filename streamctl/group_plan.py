"""What a member of a consumer group is to read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What to read.

    Attributes:
        from_beginning: partitions that the group has no offset for start at the log start,
            not at the end.
        starts: gives those first offsets.
        stops: exclusive, by partition; one is finished there. None to go on for ever.
        limit: records in all; None for no limit.
        idle_s: stop when nothing came for so long; None to wait for ever.
        commit_every_s: 0 commits after each batch.
    """

    topic: str
    group: str
    from_beginning: bool
    starts: Callable[[Iterable[int]], Mapping[int, int]]
    stops: Mapping[int, int] | None
    limit: int | None
    idle_s: float | None
    commit_every_s: float
