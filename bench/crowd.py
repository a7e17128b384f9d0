"""Many librdkafka consumers in a few processes, and what each of them owns at every moment.

Times are of the system-wide monotonic clock, so those of all processes compare.
"""

import multiprocessing
import queue
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final

from bench.crowd_member import Command, Create, Event, Happening, Join, Leave, Properties, work
from bench.results import MeasurementFailed

GLANCE_S: Final = 0.02
END_S: Final = 5.0


class Crowd:
    """The parent's side: it tells members what to do and knows what they own."""

    def __init__(
        self,
        ends: Sequence["Connection[Command, None]"],
        events: "multiprocessing.Queue[Event]",
        timeout_s: float,
    ) -> None:
        self._ends = ends
        self._events = events
        self._timeout_s = timeout_s
        self._home: dict[str, int] = {}
        self._latest: dict[tuple[str, Happening], float] = {}
        self._owned: dict[str, frozenset[int]] = {}
        self._changed_s = 0.0

    def create(self, names: Sequence[str], properties: Properties, topic: str) -> None:
        """Make consumers, spread over the processes, and wait until all are there."""
        first = len(self._home)
        for number, name in enumerate(names, first):
            self._home[name] = number % len(self._ends)
        for end, here in self._by_process(names):
            end.send(Create(names=here, properties=properties, topic=topic))
        self._until("created", names)

    def join(self, names: Sequence[str]) -> float:
        """Have them all join at once; return when the first one did."""
        for end, here in self._by_process(names):
            end.send(Join(names=here))
        self._until("joining", names)
        return min(self._latest[name, "joining"] for name in names)

    def leave(self, names: Sequence[str]) -> float:
        """Have them all begin to leave; return when the first one did."""
        for end, here in self._by_process(names):
            end.send(Leave(names=here))
        self._until("leaving", names)
        return min(self._latest[name, "leaving"] for name in names)

    def until_closed(self, names: Sequence[str]) -> None:
        self._until("closed", names)

    def until_settled(
        self, members: Collection[str], partition_count: int, stable: Callable[[], bool]
    ) -> float:
        """Wait until each partition has one owner, each member a partition, and `stable` is true.

        Returns:
            When that began: the last change of what a member owns, or, if the coordinator was not
            stable yet then, the moment when it was first asked and was.

        Raises:
            MeasurementFailed: it was not so in time, or a client reported an error.
        """
        deadline_s = time.monotonic() + self._timeout_s
        waited_for_coordinator = False
        while time.monotonic() < deadline_s:
            self._take()
            if not self._shared(members, partition_count):
                waited_for_coordinator = False
                continue
            changed_s, asked_s = self._changed_s, time.monotonic()
            is_stable = stable()
            self._take()
            if is_stable and changed_s == self._changed_s:
                return asked_s if waited_for_coordinator else changed_s
            waited_for_coordinator = not is_stable
        owners = sum(bool(self._owned.get(name)) for name in members)
        raise MeasurementFailed(
            f"not settled in {self._timeout_s:.0f} s: {owners} of {len(members)} own partitions"
        )

    def _shared(self, members: Collection[str], partition_count: int) -> bool:
        parts = [self._owned.get(name, frozenset()) for name in members]
        owned = frozenset().union(*parts)
        return all(parts) and len(owned) == sum(map(len, parts)) == partition_count

    def _until(self, happening: Happening, names: Collection[str]) -> None:
        deadline_s = time.monotonic() + self._timeout_s
        while missing := sum((name, happening) not in self._latest for name in names):
            if time.monotonic() > deadline_s:
                raise MeasurementFailed(
                    f"{missing} of {len(names)} members not {happening} in {self._timeout_s:.0f} s"
                )
            self._take()

    def _take(self) -> None:
        """Take in every event that is there; wait a little for the first."""
        try:
            self._note(self._events.get(timeout=GLANCE_S))
            while True:
                self._note(self._events.get_nowait())
        except queue.Empty:
            return

    def _note(self, event: Event) -> None:
        if event.happening == "failed":
            raise MeasurementFailed(f"member {event.name}: {event.error}")
        self._latest[event.name, event.happening] = event.at_s
        if event.happening == "owned":
            self._owned[event.name] = event.owned
            self._changed_s = max(self._changed_s, event.at_s)

    def _by_process(
        self, names: Sequence[str]
    ) -> list[tuple["Connection[Command, None]", list[str]]]:
        return [
            (end, here)
            for number, end in enumerate(self._ends)
            if (here := [name for name in names if self._home[name] == number])
        ]


@contextmanager
def running_crowd(process_count: int, timeout_s: float) -> Iterator[Crowd]:
    """Start the processes; they and all their members end with the block."""
    context = multiprocessing.get_context("spawn")  # librdkafka's threads do not survive a fork
    events: multiprocessing.Queue[Event] = context.Queue()
    processes: list[BaseProcess] = []
    ends: list[Connection[Command, None]] = []
    for _ in range(process_count):
        theirs, ours = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(theirs, events), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
        ends.append(ours)
    try:
        yield Crowd(ends, events, timeout_s)
    finally:
        for end in ends:
            end.close()
        for ending in processes:
            ending.join(END_S)
            ending.kill()
