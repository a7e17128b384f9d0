"""Uploads of one attempt of a task: they run beside the encoding, on an event loop of their own.

Each object gets a path that is reserved in Postgres before anything is stored there. What can fail:
- reserving, storing: tried again with another path for a minute, then the attempt fails, and Spark
  tries the task again. What is left over is given up here if Postgres answers, else by the sweeper.
- the process dies: pending rows and objects are left to the sweeper.
Nobody reads any of it before the driver commits.
"""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from spark.log_location import LogLocation
from spark.sinks.direct_objects import SealedObject
from storage.backoff import Backoff
from storage.errors import (
    MetadataUnavailable,
    MetadataWentBack,
    ObjectConflict,
    ObjectStoreUnavailable,
    PostgresNotTrusted,
    WrongStore,
)
from storage.objects.object_paths import uuid7, wal_path
from storage.objects.open_store import open_store, store_name
from storage.objects.port import ObjectStore
from storage.objects.store_marker import read_marker
from storage.sink_commits import SinkCommits, SinkObject, SinkTopic
from storage.wall_clock import now_ms

AT_ONCE: Final = 2
"""Uploads under way while the next object is made; each holds its bytes in memory."""

PATIENCE_S: Final = 60.0

Result = TypeVar("Result")

_checked: Final[set[tuple[str, str]]] = set()
"""Stores that this process has found to be of their clusters; it serves many tasks."""


class Uploads:
    """Used in a `with` block; a block that fails gives up what it has stored."""

    def __init__(self, location: LogLocation, commit_within: timedelta) -> None:
        self._location = location
        self._commit_within = commit_within
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="uploads", daemon=True)
        self._commits: SinkCommits | None = None
        self._objects: ObjectStore | None = None
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._under_way: deque[Future[SinkObject]] = deque()
        self._stored: list[SinkObject] = []
        self._reserved: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._run(self._close(failed=error is not None))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def topics(self, names: Sequence[str]) -> dict[str, SinkTopic]:
        """Return those of some topics that exist, by name."""
        return self._run(self._with_commits(lambda commits: commits.topics(names)))

    def last_batch(self, sink_id: str) -> int:
        """Return the batch that a sink committed last; -1 if there is none."""
        return self._run(self._with_commits(lambda commits: commits.last_batch(sink_id)))

    def submit(self, sealed: SealedObject) -> None:
        """Begin to store an object; waits while too many are under way."""
        while len(self._under_way) >= AT_ONCE:
            self._stored.append(self._under_way.popleft().result())
        upload = asyncio.run_coroutine_threadsafe(self._upload(sealed), self._loop)
        self._under_way.append(upload)

    def finish(self) -> list[SinkObject]:
        """Wait for all uploads; return what is stored, in the order of `submit`."""
        while self._under_way:
            self._stored.append(self._under_way.popleft().result())
        return self._stored

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _with_commits(self, ask: Callable[[SinkCommits], Awaitable[Result]]) -> Result:
        async def attempt() -> Result:
            if self._commits is None:
                self._commits = await SinkCommits.open(self._location.postgres)
            return await ask(self._commits)

        return await patiently(attempt, PATIENCE_S)

    async def _upload(self, sealed: SealedObject) -> SinkObject:
        async def attempt() -> SinkObject:
            path = wal_path(uuid7(now_ms(), os.urandom(10)))
            await self._with_commits(
                lambda commits: commits.reserve(path, longer=self._commit_within)
            )
            self._reserved.append(path)
            objects = await self._store()
            await objects.put(path, sealed.parts)
            return SinkObject(path=path, size=sealed.size, batches=sealed.batches)

        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await patiently(attempt, PATIENCE_S)

    async def _store(self) -> ObjectStore:
        async with self._opening:
            if self._objects is None:
                objects = await open_store(self._location.store)
                try:
                    await self._check(objects)
                except BaseException:
                    await objects.close()
                    raise
                self._objects = objects
        return self._objects

    async def _check(self, objects: ObjectStore) -> None:
        cluster_id = await self._with_commits(lambda commits: commits.cluster_id())
        if (self._location.store, cluster_id) not in _checked:
            store_id = await self._with_commits(lambda commits: commits.store_id())
            await check_owner(objects, self._location, cluster_id, store_id)
            _checked.add((self._location.store, cluster_id))

    async def _close(self, *, failed: bool) -> None:
        for task in self._tasks:  # the attempt has failed: their results are of no use
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if failed and self._commits is not None and self._reserved:
            with suppress(MetadataUnavailable):  # then it is the sweeper's
                await self._commits.abandon(self._reserved)
        if self._objects is not None:
            await self._objects.close()
        if self._commits is not None:
            await self._commits.close()


async def check_owner(
    objects: ObjectStore, location: LogLocation, cluster_id: str, store_id: str | None
) -> None:
    """Make sure that brokers will find what is stored.

    Args:
        objects: the store.
        location: that names it.
        cluster_id: of the database.
        store_id: of its store; None if it has none yet.

    Raises:
        WrongStore: the store is another's, or nobody's.
    """
    mark = await read_marker(objects)
    if mark is None or not mark.is_of(cluster_id, store_id):
        owner = "no cluster" if mark is None else mark.cluster_id
        if owner == cluster_id:
            owner += ", which took another store"
        raise WrongStore(
            f"{store_name(location.store)} keeps records of {owner}, and the"
            f" metadata is of cluster {cluster_id}: give the postgres and store of one cluster"
        )


async def patiently(attempt: Callable[[], Awaitable[Result]], patience_s: float) -> Result:
    """Try until Postgres and the store answer; after `patience_s` raise what was wrong."""
    backoff = Backoff()
    until_s = time.monotonic() + patience_s
    while True:
        try:
            return await attempt()
        except (MetadataWentBack, PostgresNotTrusted):
            raise
        except (MetadataUnavailable, ObjectStoreUnavailable, ObjectConflict):
            if time.monotonic() > until_s:
                raise
            await backoff.wait()
