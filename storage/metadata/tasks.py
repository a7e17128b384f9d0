"""The metadata port's tasks: what is to be done to a partition in the background, and who does it.

A task is claimed by one broker at a time, for as long as its lease says. A lease is no fence:
`replace_segments` is (storage/metadata/segments.py). Times are by the database's clock. Checked for
Postgres and for the in-memory fake by tests/contracts/test_segments_tasks.py.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from protocol.ids import Partition


class TaskKind(StrEnum):
    """What may be done to a partition in the background."""

    BUILD = "build"
    COMPACT = "compact"


class TaskStore(Protocol):
    """See the module's docstring for what every implementation promises."""

    async def begin_round(self, name: str, every_ms: int) -> bool:
        """Return whether the caller shall do the round `name` now: one in `every_ms`, of all."""

    async def add_tasks(self, kind: TaskKind, partitions: Sequence[Partition]) -> None:
        """Let each partition have this done to it; one that waits for it already is left as is."""

    async def claim_task(self, kind: TaskKind, lease_ms: int) -> Partition | None:
        """Take the oldest task that nobody has, or whose lease is over (SKIP LOCKED).

        It is the youngest from then on: one that always fails is in nobody's way.
        """

    async def renew_task(self, kind: TaskKind, partition: Partition, lease_ms: int) -> None:
        """Let the lease of a task that was claimed begin anew."""

    async def finish_task(self, kind: TaskKind, partition: Partition) -> None:
        """Remove a task that was claimed."""

    async def backlog(self) -> Mapping[str, int]:
        """Return how much is waiting: tasks by kind, `pending`, `doomed`."""
