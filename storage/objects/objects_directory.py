"""A directory as object store: the embedded default, for one machine (D3).

One object is one file. A put writes a file under `.incoming/`, flushes it, links it to its final
name (a link fails where something is already, a rename would replace it) and flushes the folder.
Every open store has a folder of its own under `.incoming/` and holds a lock on it; whoever opens
the store next removes those that nobody holds any more. So several brokers may share a directory,
and a crash leaves nothing behind. A folder of built segments goes with the last of them. The file
system must have hard links and flock.
"""

import asyncio
import errno
import itertools
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self, TypeVar, TypeVarTuple

import structlog

from storage.config import MiB
from storage.errors import BadObject, ObjectConflict, ObjectStoreUnavailable
from storage.objects.durable_folders import DurableFolders
from storage.objects.empty_folders import remove_empty
from storage.objects.incoming_folder import INCOMING, close_incoming, open_incoming
from storage.objects.object_put import ObjectPut
from storage.objects.object_read import ObjectRead, ReadOnce
from storage.objects.path_rules import check_path, check_prefix
from storage.objects.port import Buffer, Owned, StoredObject
from storage.objects.store_traffic import StoreTraffic
from storage.reading.read_buffers import KEPT_BYTES, ReadBuffers
from storage.worker_threads import WorkerThreads

WRITE_THREADS: Final = 8  # WriterConfig.max_uploads, and as many for the builder
READ_THREADS: Final = 8
SEGMENT_BYTES: Final = 80 * MiB
"""A segment of the default size, and what is read ahead of it: all of it is let go at once."""

log = structlog.get_logger()

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class DirectoryStore:
    """Made by `open`. Its threads do all I/O; the event loop only waits."""

    def __init__(
        self, incoming: Path, lock: int, traffic: StoreTraffic, *, reads_once: bool
    ) -> None:
        self._traffic = traffic
        self._root = incoming.parent.parent
        self._incoming = incoming
        self._lock = lock
        self._names = itertools.count()
        self._folders = DurableFolders(self._root)
        # Reads have threads of their own, so that cold consumers never delay an ack.
        self._writes = WorkerThreads(WRITE_THREADS, "object-put")
        self._gets = WorkerThreads(READ_THREADS, "object-get")
        self._reads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="object-list")
        self._read = ReadOnce if reads_once else ObjectRead
        self._buffers = ReadBuffers(SEGMENT_BYTES if reads_once else KEPT_BYTES)

    @classmethod
    async def open(
        cls, root: Path, traffic: StoreTraffic | None = None, *, reads_once: bool = False
    ) -> Self:
        """Make the directory if it is not there, and remove what crashed brokers left unfinished.

        Args:
            root: the directory.
            traffic: as `open_store`.
            reads_once: as `open_store`.

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
        return cls(incoming, lock, traffic or StoreTraffic(), reads_once=reads_once)

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        check_path(path)
        filled = [part for part in parts if len(part)]
        put = ObjectPut(self._folders, self._next_unfinished, path, filled)
        health, clock = self._traffic.health, self._traffic.clock
        began_s = clock()
        try:
            await self._writes.run(put)
        except asyncio.CancelledError:
            put.cancelled = True
            raise
        except ObjectConflict:
            health.answered("PUT", clock() - began_s, 0)
            raise
        except OSError as error:
            health.failed("PUT")
            raise ObjectStoreUnavailable(str(error)) from error
        health.answered("PUT", clock() - began_s, sum(map(len, put.parts)))

    async def get(self, path: str, start: int, length: int) -> Owned:
        check_path(path)
        assert start >= 0
        assert length > 0
        read = self._read(f"{self._root}/{path}", start, length, self._buffers)
        health, clock = self._traffic.health, self._traffic.clock
        began_s = clock()
        try:
            data = await self._gets.run(read)
        except BadObject:
            health.answered("GET", clock() - began_s, 0)
            raise
        except OSError as error:
            health.failed("GET")
            raise ObjectStoreUnavailable(str(error)) from error
        health.answered("GET", clock() - began_s, length)
        self._buffers.trim_later()
        return data

    async def delete(self, paths: Sequence[str]) -> Mapping[str, str]:
        for path in paths:
            check_path(path)
        return await self._run(self._reads, _delete, self._root, paths)

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        check_prefix(prefix)
        folders = [prefix.rpartition("/")[0]]
        while folders:
            files, below = await self._run(self._reads, _scan, self._root, folders.pop(), prefix)
            folders += below
            for file in files:
                yield file

    async def close(self) -> None:
        self._buffers.close()
        await asyncio.to_thread(self._close)

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

    def _next_unfinished(self) -> Path:
        """Return a name for a file that is not an object yet; threads call it."""
        return self._incoming / str(next(self._names))

    def _close(self) -> None:
        self._writes.shutdown()
        self._gets.shutdown()
        self._reads.shutdown()
        self._folders.close()
        try:
            close_incoming(self._incoming, self._lock)
        except OSError as error:  # raised, it would be told instead of what ended the broker
            log.warning("folder of unfinished objects not removed", reason=str(error))


def _delete(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """Delete what can be, and folders that are empty then; return what cannot, and why.

    Raises:
        OSError: nothing can, and not for want of a permission.
    """
    refused: dict[str, str] = {}
    failures: list[OSError] = []
    for path in paths:
        try:
            (root / path).unlink(missing_ok=True)
        except (NotADirectoryError, IsADirectoryError):  # no object can be there
            continue
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # nor there
                continue
            refused[path] = str(error)
            if not isinstance(error, PermissionError):
                failures.append(error)
    if failures and len(failures) == len(paths):
        raise failures[0]
    for folder in {path.rpartition("/")[0] for path in paths}:
        remove_empty(root, folder)
    return refused


def _scan(root: Path, folder: str, prefix: str) -> tuple[list[StoredObject], list[str]]:
    """Return the objects and the folders right below `folder` that `prefix` leads to.

    One that is empty is removed: a crash, or an older version, left it.
    """
    files: list[StoredObject] = []
    below: list[str] = []
    try:
        entries = os.scandir(root / folder)
    except (FileNotFoundError, NotADirectoryError):  # no path begins so
        return files, below
    is_empty = True
    with entries:
        for entry in entries:
            is_empty = False
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
    if is_empty:
        remove_empty(root, folder)
    return files, below
