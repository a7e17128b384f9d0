"""The metadata port's objects, in memory: what each upload has come to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from storage.metadata.port import BatchOutcome


@dataclass(slots=True)
class MemoryObject:
    """One upload.

    Attributes:
        object_id: ascending, in the order of reservation.
        created_ms: when it was reserved.
        size: of the whole object, bytes; 0 until it is live.
        rows: of the index that name it, those of deleted topics among them.
        doomed_ms: when it was doomed.
        outcomes: the answer of the commit, for whoever repeats it; None of what was not committed.
    """

    object_id: int
    created_ms: int
    state: Literal["pending", "live", "doomed"] = "pending"
    size: int = 0
    rows: int = 0
    doomed_ms: int = 0
    outcomes: list[BatchOutcome] | None = None

    def go_live(self, size: int, rows: int) -> None:
        assert self.state == "pending"
        self.state, self.size, self.rows = "live", size, rows

    def doom(self, now_ms: int) -> None:
        assert self.state != "doomed"
        assert not self.rows
        self.state, self.doomed_ms = "doomed", now_ms


class MemoryObjects:
    """All objects by path, in the order of their ids."""

    def __init__(self) -> None:
        self._objects: dict[str, MemoryObject] = {}
        self._last_id = 0

    def reserve(self, path: str, now_ms: int) -> None:
        """Make it pending, unless it is known already."""
        if path not in self._objects:
            self._last_id += 1
            self._objects[path] = MemoryObject(self._last_id, now_ms)

    def find(self, path: str) -> MemoryObject | None:
        return self._objects.get(path)

    def release(self, paths: Iterable[str], now_ms: int) -> None:
        """Take note of rows that are gone; doom the objects that no other row names."""
        for path in paths:
            released = self._objects[path]
            released.rows -= 1
            if not released.rows:
                released.doom(now_ms)

    def doom_abandoned(self, created_ms: int, limit: int, now_ms: int) -> int:
        """Doom at most `limit` that are pending since then, or longer; return how many."""
        abandoned = [
            each for each in self._in_state("pending").values() if each.created_ms <= created_ms
        ][:limit]
        for each in abandoned:
            each.doom(now_ms)
        return len(abandoned)

    def doom_unneeded(
        self, after: int, created_ms: int, limit: int, now_ms: int
    ) -> tuple[int, int | None]:
        """Doom what no row names among the next `limit` live objects.

        Returns:
            how many; and the id of the last one looked at, None if there were fewer.
        """
        live = [each for each in self._in_state("live").values() if each.object_id > after][:limit]
        unneeded = [each for each in live if not each.rows and each.created_ms <= created_ms]
        for each in unneeded:
            each.doom(now_ms)
        return len(unneeded), live[-1].object_id if len(live) == limit else None

    def doomed(self, doomed_ms: int, limit: int) -> list[str]:
        """Return at most `limit` paths of what is doomed since then, or longer; oldest first."""
        doomed = self._in_state("doomed")
        due = [path for path, each in doomed.items() if each.doomed_ms <= doomed_ms]
        return sorted(due, key=lambda path: doomed[path].doomed_ms)[:limit]

    def forget(self, paths: Sequence[str]) -> None:
        """Remove those that are doomed."""
        for path in self._in_state("doomed").keys() & set(paths):
            del self._objects[path]

    def postpone(self, paths: Sequence[str], doomed_ms: int) -> None:
        """Let those that are doomed be doomed since then, which is to come."""
        doomed = self._in_state("doomed")
        for path in doomed.keys() & set(paths):
            doomed[path].doomed_ms = doomed_ms

    def total_size(self) -> int:
        """Return the bytes of all objects."""
        return sum(each.size for each in self._objects.values())

    def count(self, state: Literal["pending", "doomed"]) -> int:
        return len(self._in_state(state))

    def states(self) -> dict[str, str]:
        return {path: each.state for path, each in self._objects.items()}

    def _in_state(self, state: str) -> dict[str, MemoryObject]:
        return {path: each for path, each in self._objects.items() if each.state == state}
