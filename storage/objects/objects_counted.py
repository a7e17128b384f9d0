"""An object store whose requests are counted, for those who asked for them (storage/usage_counter).

Counted is what the store answered, as it is billed: a PUT that finds other bytes and a GET that
finds nothing, too. What the store itself tries again, and what it never answered, is not.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from storage.errors import BadObject, ObjectConflict
from storage.objects.port import Buffer, ObjectStore, Owned, StoredObject
from storage.usage_counter import UsageCounter

LIST_PAGE: Final = 1000  # objects that one LIST request of S3 names


class CountedStore:
    """Passes everything on to `objects`; see ObjectStore for what each verb promises."""

    def __init__(self, objects: ObjectStore, usage: UsageCounter) -> None:
        self._objects = objects
        self._usage = usage

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        size = sum(map(len, parts))
        try:
            await self._objects.put(path, parts)
        except ObjectConflict:
            self._usage.put(size, stored=False)
            raise
        self._usage.put(size, stored=True)

    async def get(self, path: str, start: int, length: int) -> Owned:
        try:
            data = await self._objects.get(path, start, length)
        except BadObject:
            self._usage.get(0)
            raise
        self._usage.get(length)
        return data

    async def delete(self, paths: Sequence[str]) -> Mapping[str, str]:
        refused = await self._objects.delete(paths)
        self._usage.deleted(len(paths))
        return refused

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        count = 0
        async for one in self._objects.list(prefix):
            if count % LIST_PAGE == 0:
                self._usage.listed()
            count += 1
            yield one
        if count == 0:
            self._usage.listed()

    async def close(self) -> None:
        await self._objects.close()
