"""Wires what appends to the log and reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from prometheus_client import CollectorRegistry

from broker.config import Settings
from storage.log import Log
from storage.metadata.port import MetadataStore
from storage.metrics import StorageMetrics
from storage.objects.object_paths import ReservedPaths
from storage.objects.port import ObjectStore
from storage.reading.block_cache import BlockCache
from storage.tail import TailCache
from storage.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParts:
    """The log, and the parts of it that have to be run or closed."""

    log: Log
    writer: Writer
    blocks: BlockCache
    paths: ReservedPaths

    async def close(self) -> None:
        """Give up reads that are under way, and paths that were not used."""
        await self.blocks.close()
        await self.paths.close()


def make_log(
    settings: Settings,
    metadata: MetadataStore,
    objects: ObjectStore,
    registry: CollectorRegistry,
    *,
    clock: Callable[[], float],
    now_ms: Callable[[], int],
    new_id: Callable[[], UUID],
    name_of: Callable[[UUID], str],
) -> LogParts:
    """Return the log; `name_of` tells the name of a topic."""
    metrics = StorageMetrics(registry)
    paths = ReservedPaths(metadata, new_id)
    writer = Writer(
        objects=objects,
        metadata=metadata,
        paths=paths,
        tail=TailCache(settings.cache.tail_bytes),
        config=settings.writer,
        metrics=metrics,
        clock=clock,
        now_ms=now_ms,
        writer_id=new_id(),
        name_of=name_of,
    )
    blocks = BlockCache(objects, max_bytes=settings.cache.block_bytes, metrics=metrics, clock=clock)
    log = Log(metadata=metadata, writer=writer, blocks=blocks, metrics=metrics)
    return LogParts(log=log, writer=writer, blocks=blocks, paths=paths)
