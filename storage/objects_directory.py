"""A directory as object store: the embedded default, for one machine (D3).

One object is one file. A put writes a file under `.incoming/`, flushes it, links it to its final
name (a link fails where something is already, a rename would replace it) and flushes the folder.
Every open store has a folder of its own under `.incoming/` and holds a lock on it; whoever opens
the store next removes those that nobody holds any more. So several brokers may share a directory,
and a crash leaves nothing behind. The file system must have hard links and flock.
"""

import asyncio
import itertools
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar, TypeVarTuple

from storage.durable_file import write_durably
from storage.errors import ObjectConflict, ObjectMissing, ObjectStoreUnavailable
from storage.incoming_folder import INCOMING, close_incoming, flush_folder, open_incoming
from storage.objects import Buffer, StoredObject
from storage.path_rules import check_path, check_prefix
from storage.store_traffic import StoreTraffic

WRITE_THREADS: Final = 8  # WriterConfig.max_uploads, and as many for the builder
READ_THREADS: Final = 8
MAX_KNOWN_FOLDERS: Final = 65_536

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


@dataclass(slots=True, kw_only=True)
class _Put:
    """One put as its thread sees it.

    Attributes:
        parts: buffers of the caller, who may change them once the call is cancelled.
        cancelled: set by the event loop; the thread looks at it after it has copied all parts.
    """

    path: str
    parts: Sequence[Buffer]
    cancelled: bool = False


class DirectoryStore:
    """Made by `open`. Its threads do all I/O; the event loop only waits."""

    def __init__(self, incoming: Path, lock: int, traffic: StoreTraffic) -> None:
        self._traffic = traffic
        self._root = incoming.parent.parent
        self._incoming = incoming
        self._lock = lock
        self._names = itertools.count()
        self._folders: set[Path] = set()  # known to be there and durable
        # Reads have threads of their own, so that cold consumers never delay an ack.
        self._writes = ThreadPoolExecutor(WRITE_THREADS, thread_name_prefix="object-put")
        self._reads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="object-get")

    @classmethod
    async def open(cls, root: Path, traffic: StoreTraffic | None = None) -> Self:
        """Make the directory if it is not there, and remove what crashed brokers left unfinished.

        Raises:
            ObjectStoreUnavailable: the directory cannot be made or written.
        """
        try:
            incoming, lock = await asyncio.to_thread(open_incoming, root)
        except OSError as error:
            raise ObjectStoreUnavailable(
                f"{root} cannot be used as object store: {error.strerror} ({error.filename}); "
                "give this user write permission there or choose another directory"
            ) from error
        return cls(incoming, lock, traffic or StoreTraffic())

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        check_path(path)
        put = _Put(path=path, parts=[part for part in parts if len(part)])
        try:
            await self._watched(sum(map(len, put.parts)), self._writes, self._put, put)
        except asyncio.CancelledError:
            put.cancelled = True
            raise

    async def get(self, path: str, start: int, length: int) -> bytearray:
        check_path(path)
        assert start >= 0
        assert length > 0
        return await self._watched(length, self._reads, _read, self._root / path, start, length)

    async def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            check_path(path)
        await self._run(self._reads, _delete, [self._root / path for path in paths])

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        check_prefix(prefix)
        folders = [prefix.rpartition("/")[0]]
        while folders:
            files, below = await self._run(self._reads, _scan, self._root, folders.pop(), prefix)
            folders += below
            for file in files:
                yield file

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    async def _watched(
        self,
        size: int,
        threads: ThreadPoolExecutor,
        work: Callable[[*Arguments], Result],
        *arguments: *Arguments,
    ) -> Result:
        """Run what clients wait for, and note how the directory is doing."""
        health, began_s = self._traffic.health, self._traffic.clock()
        try:
            result = await self._run(threads, work, *arguments)
        except ObjectStoreUnavailable:
            health.failed()
            raise
        except (ObjectConflict, ObjectMissing):
            health.answered(self._traffic.clock() - began_s, 0)
            raise
        health.answered(self._traffic.clock() - began_s, size)
        return result

    async def _run(
        self,
        threads: ThreadPoolExecutor,
        work: Callable[[*Arguments], Result],
        *arguments: *Arguments,
    ) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work, *arguments)
        except OSError as error:
            raise ObjectStoreUnavailable(str(error)) from error

    def _put(self, put: _Put) -> None:
        target = self._root / put.path
        self._make_folder(target.parent)
        unfinished = self._incoming / str(next(self._names))
        try:
            write_durably(unfinished, put.parts)
            if put.cancelled:  # the caller may have changed the parts while they were copied
                return
            linked = self._link(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)
        if not linked and not _holds(target, put.parts):
            raise ObjectConflict(f"{put.path} holds other bytes")
        # Also if it was there before: whoever linked it may have crashed before this flush.
        flush_folder(target.parent)

    def _link(self, unfinished: Path, target: Path) -> bool:
        """Give the file its final name; False if that is taken."""
        try:
            try:
                target.hardlink_to(unfinished)
            except FileNotFoundError:  # somebody removed the folder: it is not as we know it
                self._folders.clear()
                self._make_folder(target.parent)
                target.hardlink_to(unfinished)
        except FileExistsError:
            return False
        return True

    def _make_folder(self, folder: Path) -> None:
        """Make a folder durable: itself, and its name in all folders above it up to the root."""
        if folder == self._root or folder in self._folders:
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        flush_folder(folder.parent)  # another thread may have made, and not yet flushed it
        if len(self._folders) >= MAX_KNOWN_FOLDERS:
            self._folders.clear()
        self._folders.add(folder)

    def _close(self) -> None:
        self._writes.shutdown()
        self._reads.shutdown()
        close_incoming(self._incoming, self._lock)


def _holds(target: Path, parts: Sequence[Buffer]) -> bool:
    return target.is_file() and target.read_bytes() == b"".join(parts)


def _read(target: Path, start: int, length: int) -> bytearray:
    try:
        file = os.open(target, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ObjectMissing(f"{target} does not exist") from error
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise ObjectMissing(f"{target} is not an object")
        if start + length > found.st_size:
            raise ObjectMissing(f"{target} ends at {found.st_size}, before {start + length}")
        data = bytearray(length)
        view = memoryview(data)
        done = 0
        while done < length:
            count = os.preadv(file, [view[done:]], start + done)
            if count == 0:
                raise ObjectMissing(f"{target} was cut short while it was read")
            done += count
    finally:
        os.close(file)
    return data


def _delete(targets: Iterable[Path]) -> None:
    for target in targets:
        try:
            target.unlink(missing_ok=True)
        except (NotADirectoryError, IsADirectoryError):  # no object can be there
            continue


def _scan(root: Path, folder: str, prefix: str) -> tuple[list[StoredObject], list[str]]:
    """Return the objects and the folders right below `folder` that `prefix` leads to."""
    files: list[StoredObject] = []
    below: list[str] = []
    try:
        entries = os.scandir(root / folder)
    except (FileNotFoundError, NotADirectoryError):  # no path begins so
        return files, below
    with entries:
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if path == INCOMING or not path.startswith(prefix):
                continue
            if entry.is_dir():
                below.append(path)
                continue
            try:
                found = entry.stat()
            except FileNotFoundError:  # deleted since the folder was read
                continue
            modified_ms = found.st_mtime_ns // 1_000_000
            files.append(StoredObject(path=path, size=found.st_size, modified_ms=modified_ms))
    return files, below
