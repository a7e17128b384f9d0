"""What comes again and again: a line at once, and then one now and then that says how often."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Latest = TypeVar("Latest")


@dataclass(slots=True)
class _Noted(Generic[Latest]):
    """Something that has been told.

    Attributes:
        latest: about the last time it came.
        repeated: since its last line.
        told_s: when that was.
    """

    latest: Latest
    repeated: int
    told_s: float


class Repeats(Generic[Key, Latest]):
    """Those of one kind.

    Args:
        every_s: between two lines about the same.
        most: different ones that are kept apart.
        write: writes a line about one, which came so often.
        clock: in seconds; it never goes backwards.
    """

    def __init__(
        self,
        *,
        every_s: float,
        most: int,
        write: Callable[[Key, Latest, int], None],
        clock: Callable[[], float],
    ) -> None:
        self._every_s = every_s
        self._most = most
        self._write = write
        self._clock = clock
        self._noted: dict[Key, _Noted[Latest]] = {}

    def __len__(self) -> int:
        return len(self._noted)

    def note(self, key: Key, latest: Latest) -> bool:
        """Take note of one that came, unless there is no room; return whether there is."""
        noted = self._noted.get(key)
        if noted is not None:
            noted.latest = latest
            noted.repeated += 1
            return True
        if len(self._noted) >= self._most:
            return False
        self._noted[key] = _Noted(latest, 0, self._clock())
        self._write(key, latest, 1)
        return True

    def tell(self) -> None:
        """Write of those that came again, and forget the others, `every_s` after their lines."""
        now_s = self._clock()
        for key, noted in list(self._noted.items()):
            if now_s - noted.told_s < self._every_s:
                continue
            if not noted.repeated:
                del self._noted[key]
                continue
            self._write(key, noted.latest, noted.repeated)
            noted.repeated, noted.told_s = 0, now_s

    def close(self) -> None:
        """Write what has not been told yet."""
        for key, noted in self._noted.items():
            if noted.repeated:
                self._write(key, noted.latest, noted.repeated)
        self._noted.clear()
