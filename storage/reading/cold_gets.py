"""GETs of cold readers: in places of their own, so that nothing else ever waits for them (D8)."""

from collections.abc import Callable
from typing import Final

from storage.errors import BadObject
from storage.metrics import StorageMetrics
from storage.objects.port import ObjectStore, Owned
from storage.reading.cold_places import ColdPlaces, StoreAnswers

MAX_GETS: Final = 16
MAX_AHEAD_GETS: Final = 8
"""Of MAX_GETS: for what nobody waits for yet."""


class ColdGets:
    """A pool of places; read-ahead has half of it at most.

    Attributes:
        answers: that the store gave.
    """

    def __init__(
        self, objects: ObjectStore, *, metrics: StorageMetrics, clock: Callable[[], float]
    ) -> None:
        self._objects = objects
        self._metrics = metrics
        self._clock = clock
        self.answers = StoreAnswers()
        self._places = ColdPlaces(MAX_GETS, self.answers)
        self._ahead_places = ColdPlaces(MAX_AHEAD_GETS, self.answers)

    async def get(self, path: str, start: int, length: int, *, ahead: bool) -> Owned:
        """Return bytes of an object, as ObjectStore.get does.

        Args:
            path: of the object.
            start: first byte.
            length: bytes.
            ahead: nobody waits for it yet.

        Raises:
            BadObject, ObjectStoreUnavailable: the bytes cannot be read.
        """
        if not ahead:
            return await self._get(path, start, length)
        async with self._ahead_places.place():
            return await self._get(path, start, length)

    async def _get(self, path: str, start: int, length: int) -> Owned:
        async with self._places.place():
            began = self._clock()
            try:
                data = await self._objects.get(path, start, length)
            except BadObject:
                self.answers.count += 1
                raise
            self.answers.count += 1
            self._metrics.get_seconds.observe(self._clock() - began)
            self._metrics.get_bytes.inc(len(data))
        return data
