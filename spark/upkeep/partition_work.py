"""Partitions that a task works on, one after the other, and what became of each."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol

from protocol.ids import Partition
from spark.upkeep.stores import UpkeepOrder, UpkeepStores
from storage.upkeep.builder import TURN_S
from storage.upkeep.task_lease import LEASE_MS

WAIT_S: Final = TURN_S + 2 * LEASE_MS / 1000
"""As long as whoever has a partition may be at it, or be dead, before the next one gets it."""

LOOK_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOrder:
    """Which partitions a job works on.

    Attributes:
        topics: their names; all, if there are none.
        everything: also of partitions that are not due.
    """

    upkeep: UpkeepOrder
    topics: Collection[str] = ()
    everything: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """What is to be done.

    Attributes:
        topic: its name.
        end_offset: records from here on were written after the job had begun, and need not be done.
        size: bytes; of no meaning but which partition is larger.
    """

    partition: Partition
    topic: str
    end_offset: int
    size: int


class Outcome(StrEnum):
    """What became of a partition.

    Attributes:
        DONE: segments were written.
        NOTHING: there was nothing to do (any more).
        BUSY: somebody else had it, for longer than it is worth to wait.
        UNREADABLE: bytes are damaged or missing; these are as they were.
        FAILED: there is a bug, which the executor's log tells.
    """

    DONE = "done"
    NOTHING = "nothing to do"
    BUSY = "busy"
    UNREADABLE = "unreadable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDone:
    """One line of a job's result.

    Attributes:
        counts: by what was counted: segments, rows, size in bytes ...
    """

    topic: str
    partition: int
    outcome: Outcome
    counts: Mapping[str, int]


class Counts(Protocol):
    """What builder and compactor count: a dataclass of integers."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    segments: int
    unreadable: int
    failed: int


async def in_turns(
    stores: UpkeepStores,
    works: Iterable[PartitionWork],
    counts: Counts,
    do: Callable[[PartitionWork], Awaitable[bool]],
) -> list[PartitionDone]:
    """Do all of them; those that somebody else has come last, and are waited for.

    Args:
        stores: whose queue gives the task of the partition whose turn it is, and no other.
        works: of one task.
        counts: of whoever does it, of all partitions so far.
        do: returns False while somebody else has the partition.
    """
    results: list[PartitionDone] = []
    waiting = deque(works)
    until_s = time.monotonic() + WAIT_S
    while waiting:
        held = deque[PartitionWork]()
        for work in waiting:
            await stores.policies.refresh()
            stores.metadata.assigned = work.partition
            before = asdict(counts)
            if not await do(work):
                held.append(work)
                continue
            results.append(_done(work, _since(before, counts)))
            until_s = time.monotonic() + WAIT_S
        if held and time.monotonic() > until_s:
            return [*results, *(_busy(work) for work in held)]
        if held:
            await asyncio.sleep(LOOK_AGAIN_S)
        waiting = held
    return results


def _busy(work: PartitionWork) -> PartitionDone:
    index = work.partition.index
    return PartitionDone(topic=work.topic, partition=index, outcome=Outcome.BUSY, counts={})


def _since(before: Mapping[str, int], counts: Counts) -> dict[str, int]:
    return {name: value - before[name] for name, value in asdict(counts).items()}


def _done(work: PartitionWork, counted: Mapping[str, int]) -> PartitionDone:
    found = {
        Outcome.FAILED: counted["failed"],
        Outcome.UNREADABLE: counted["unreadable"],
        Outcome.DONE: counted["segments"],
    }
    return PartitionDone(
        topic=work.topic,
        partition=work.partition.index,
        outcome=next((outcome for outcome, count in found.items() if count), Outcome.NOTHING),
        counts=counted,
    )
