"""A broker's log on stores in memory, and what is recovered of it."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final
from uuid import UUID

from prometheus_client import CollectorRegistry

from protocol.ids import Partition
from storage.config import WriterConfig
from storage.log import Log
from storage.metrics import StorageMetrics
from storage.objects.object_paths import ReservedPaths, uuid7
from storage.objects.port import Buffer
from storage.reading.block_cache import BlockCache
from storage.recovery.recover_partition import RebuiltPartition
from storage.tail import TailCache
from storage.writer import Writer
from tests.storage.builder_model import POLICY
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore

CLOSE_S: Final = 30.0


class SlowStore(MemoryStore):
    """Attributes: put_s is the most that a put takes."""

    def __init__(self, rng: Random, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self._rng = rng
        self.put_s = 0.05

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        await asyncio.sleep(self._rng.random() * self.put_s)
        await super().put(path, parts)


class LogBroker:
    """The log of one broker."""

    def __init__(
        self,
        metadata: MemoryMetadata,
        objects: MemoryStore,
        *,
        now_ms: Callable[[], int],
        writer_id: UUID,
        flush_bytes: int,
    ) -> None:
        metrics = StorageMetrics(CollectorRegistry())
        clock = asyncio.get_running_loop().time
        ids = itertools.count()
        self._paths = ReservedPaths(
            metadata,
            lambda: uuid7(now_ms(), writer_id.bytes[-2:] + next(ids).to_bytes(8, "big")),
            clock,
        )
        self.writer = Writer(
            objects=objects,
            metadata=metadata,
            paths=self._paths,
            tail=TailCache(1 << 20),
            config=WriterConfig(flush_bytes=flush_bytes),
            metrics=metrics,
            clock=clock,
            now_ms=now_ms,
            writer_id=writer_id,
            name_of=lambda _: POLICY.name,
        )
        self._blocks = BlockCache(objects, max_bytes=1 << 20, metrics=metrics, clock=clock)
        self.log = Log(metadata=metadata, writer=self.writer, blocks=self._blocks, metrics=metrics)
        self._run = asyncio.create_task(self.writer.run())

    async def stop(self) -> None:
        await self.writer.close(CLOSE_S)
        await self.writer.telling.finish(CLOSE_S)
        self._run.cancel()
        await asyncio.wait([self._run])
        await self._paths.close()
        await self._blocks.close()


class KeptIndex:
    """Takes what recovery writes into a database (recover_postgres.EmptyDatabase)."""

    def __init__(self) -> None:
        self.partitions: dict[Partition, RebuiltPartition] = {}
        self._ids = itertools.count(1)

    async def set_cluster(self, _: object, *, next_producer_id: int, **__: int) -> tuple[str, int]:
        return "c", next_producer_id

    async def keep_records(self) -> dict[str, str]:
        return {}

    async def add_objects(self, objects: Iterable[tuple[str, int]]) -> list[tuple[int, str]]:
        return [(next(self._ids), path) for path, _ in objects]

    async def remove_objects(self, paths: Iterable[str]) -> None:
        assert all(paths)

    async def add_folders(self, folders: Iterable[object]) -> None:
        assert all(folders)

    async def add_topics(self, topics: Iterable[object]) -> None:
        assert all(topics)

    async def add_partition(
        self, partition: Partition, rebuilt: RebuiltPartition, _: object
    ) -> None:
        self.partitions[partition] = rebuilt

    async def finish(self) -> int:
        return 0
