"""Whether the store has the objects that rows of the index name, as they were uploaded.

One listing of the store, shard by shard, is compared with the rows of each shard. A listing is kept
in a temporary file, not in memory. Brokers go on meanwhile, so what looks wrong is looked at again,
one object at a time, before it is called so.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

from storage.fsck.fsck_findings import Checked, Findings, Kind
from storage.fsck.fsck_index import FsckIndex, IndexedObject
from storage.metadata.segments import SegmentStore
from storage.objects.port import ObjectStore

OLD_MS: Final = 2 * 60 * 60 * 1000
PAGE: Final = 1000
SHARDS: Final = (*(f"wal/{number:02x}/" for number in range(256)), "topics/")
_TABLE: Final = "CREATE TABLE listed (path TEXT PRIMARY KEY, size INT, modified_ms INT)"


class Listing:
    """What the store has in one shard; in a temporary file once it is large."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("")  # private, and gone when it is closed
        self._db.execute(_TABLE)

    def add(self, page: Sequence[tuple[str, int, int]]) -> None:
        """Take paths, sizes and times."""
        self._db.executemany("INSERT OR REPLACE INTO listed VALUES (?, ?, ?)", page)

    def take(self, path: str) -> int | None:
        """Return the size of an object, and forget it; None if it is not there."""
        row = self._db.execute("SELECT size FROM listed WHERE path = ?", (path,)).fetchone()
        self._db.execute("DELETE FROM listed WHERE path = ?", (path,))
        return None if row is None else int(row[0])

    def left(self, before_ms: int) -> Iterator[list[str]]:
        """Yield the paths, a page at a time, that were not taken and are older than that."""
        cursor = self._db.execute("SELECT path FROM listed WHERE modified_ms < ?", (before_ms,))
        while page := cursor.fetchmany(PAGE):
            yield [path for (path,) in page]

    def clear(self) -> None:
        self._db.execute("DELETE FROM listed")

    def close(self) -> None:
        self._db.close()


class ObjectsCheck:
    """One comparison of index and store."""

    def __init__(
        self,
        *,
        index: FsckIndex,
        metadata: SegmentStore,
        objects: ObjectStore,
        findings: Findings,
        checked: Checked,
        now_ms: Callable[[], int],
    ) -> None:
        self._index = index
        self._metadata = metadata
        self._objects = objects
        self._findings = findings
        self._checked = checked
        self._now_ms = now_ms

    async def run(self, shards: Sequence[str] = SHARDS) -> AsyncIterator[int]:
        """Check all; yield how many shards are done.

        Args:
            shards: prefixes of paths; every object is under one of SHARDS.

        Raises:
            MetadataUnavailable, ObjectStoreUnavailable: no answer.
        """
        listing = Listing()
        try:
            for done, shard in enumerate(shards, 1):
                await self._list(shard, listing)
                async for indexed in self._index.objects(shard):
                    await self._compare(indexed, listing.take(indexed.path))
                await self._look_for_orphans(listing)
                listing.clear()
                yield done
        finally:
            listing.close()

    async def _list(self, shard: str, listing: Listing) -> None:
        page: list[tuple[str, int, int]] = []
        async for found in self._objects.list(shard):
            self._checked.objects += 1
            self._checked.stored_bytes += found.size
            page.append((found.path, found.size, found.modified_ms))
            if len(page) == PAGE:
                listing.add(page)
                page = []
        listing.add(page)

    async def _compare(self, indexed: IndexedObject, size: int | None) -> None:
        fault = fault_of(indexed, size)
        if fault is not None and fault.is_damage:
            again = await self._index.object(indexed.path)
            if again is None:
                return
            indexed, size = again, await self._size_now(indexed.path)
            fault = fault_of(indexed, size)
        if fault is not None:
            self._findings.add(fault, _described(indexed, size, fault))

    async def _size_now(self, path: str) -> int | None:
        async for found in self._objects.list(path):
            if found.path == path:
                return found.size
        return None

    async def _look_for_orphans(self, listing: Listing) -> None:
        for paths in listing.left(self._now_ms() - OLD_MS):
            known = await self._metadata.known_objects(paths)
            for path in paths:
                if path not in known:
                    self._findings.add(Kind.ORPHANS, path)


def fault_of(indexed: IndexedObject, size: int | None) -> Kind | None:
    """Return what is wrong with an object.

    Args:
        indexed: what the index says.
        size: bytes that the store has; None if it has no such object.
    """
    if indexed.row_count and indexed.state != "live":
        return Kind.WRONG_STATE
    if indexed.row_count:
        if size is None:
            return Kind.OBJECT_MISSING
        if size < indexed.end_byte:
            return Kind.OBJECT_TOO_SHORT
        is_whole = size == indexed.end_byte or not indexed.is_built
        return None if is_whole and size == indexed.size else Kind.WRONG_SIZE
    if indexed.age_ms < OLD_MS:
        return None
    kinds = {"live": Kind.UNNEEDED, "pending": Kind.OLD_PENDING, "doomed": Kind.OLD_DOOMED}
    return kinds[indexed.state]


def _described(indexed: IndexedObject, size: int | None, fault: Kind) -> str:
    if fault is Kind.WRONG_STATE:
        return f"{indexed.path}: it is {indexed.state}, and {indexed.row_count} rows name it"
    if not fault.is_damage:
        return indexed.path
    if size is None:
        return f"{indexed.path}: {indexed.row_count} rows name it"
    expected = indexed.end_byte if fault is Kind.OBJECT_TOO_SHORT else indexed.size
    return f"{indexed.path}: {size:,} bytes, the index says {expected or indexed.end_byte:,}"
