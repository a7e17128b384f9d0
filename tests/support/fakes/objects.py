"""Objects in a dict: the store of simulations and tests, under the contract of the real ones."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from storage.errors import ObjectConflict, ObjectMissing
from storage.objects.path_rules import check_path, check_prefix
from storage.objects.port import Buffer, StoredObject


class MemoryStore:
    """Nothing is durable, fails or waits: a simulation wraps delays and faults around it.

    Args:
        now_ms: the store's clock.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._objects: dict[str, bytes] = {}
        self._modified_ms: dict[str, int] = {}

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        check_path(path)
        content = b"".join(parts)
        if self._objects.setdefault(path, content) != content:
            raise ObjectConflict(f"{path} holds other bytes")
        self._modified_ms.setdefault(path, self._now_ms())

    async def get(self, path: str, start: int, length: int) -> bytearray:
        check_path(path)
        assert start >= 0
        assert length > 0
        content = self._objects.get(path)
        if content is None:
            raise ObjectMissing(f"{path} does not exist")
        if start + length > len(content):
            raise ObjectMissing(f"{path} ends at {len(content)}, before {start + length}")
        return bytearray(content[start : start + length])

    async def delete(self, paths: Sequence[str]) -> Mapping[str, str]:
        for path in paths:
            check_path(path)
        for path in paths:
            self._objects.pop(path, None)
            self._modified_ms.pop(path, None)
        return {}

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        check_prefix(prefix)
        found = [
            StoredObject(path=path, size=len(content), modified_ms=self._modified_ms[path])
            for path, content in self._objects.items()
            if path.startswith(prefix)
        ]
        for one in found:
            yield one

    async def close(self) -> None:
        """Nothing to release; the objects stay, so that a restarted broker finds them."""
