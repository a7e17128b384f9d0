"""Proves that index and store belong together (`streamctl fsck`).

1. The rows of each partition tile [log start offset, high watermark), and the built ones are before
   its built offset. 2. The store has every object that a row names, as it was uploaded. 3. If it
shall be deep, every byte is what the index says. Besides, it counts what is left over.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from storage.errors import WrongStore
from storage.fsck.fsck_deep import DeepCheck
from storage.fsck.fsck_findings import Checked, Findings
from storage.fsck.fsck_index import FsckIndex
from storage.fsck.fsck_objects import SHARDS, ObjectsCheck
from storage.fsck.fsck_tiling import PartitionState, check_tiling
from storage.metadata.port import MetadataStore
from storage.objects.port import ObjectStore
from storage.objects.store_marker import read_marker

REPAIR_PAGE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a step has come.

    Attributes:
        total: what `done` will be at the end; 0 if nobody knows.
    """

    step: str
    done: int
    total: int


class Fsck:
    """One check.

    Attributes:
        findings, checked: so far.
    """

    def __init__(
        self,
        *,
        index: FsckIndex,
        metadata: MetadataStore,
        objects: ObjectStore,
        now_ms: Callable[[], int],
    ) -> None:
        self.findings = Findings()
        self.checked = Checked()
        self._index = index
        self._metadata = metadata
        self._objects = objects
        self._now_ms = now_ms

    async def run(self, *, deep: bool) -> AsyncIterator[Progress]:
        """Check; yield how far it has come.

        Raises:
            WrongStore: the store belongs to another cluster than the database.
            MetadataUnavailable, ObjectStoreUnavailable: no answer.
        """
        await check_same_cluster(self._metadata, self._objects)
        async for partition in self._index.partitions():
            async with self._index.snapshot(partition) as snapshot:
                if snapshot is None:
                    continue
                state, rows = snapshot
                self.checked.rows += await check_tiling(state, rows, self.findings)
            self.checked.partitions += 1
            yield Progress(step="partitions", done=self.checked.partitions, total=0)
            if deep:
                async for step in self._read(state):
                    yield step
        check = ObjectsCheck(
            index=self._index,
            metadata=self._metadata,
            objects=self._objects,
            findings=self.findings,
            checked=self.checked,
            now_ms=self._now_ms,
        )
        async for done in check.run():
            yield Progress(step="objects", done=done, total=len(SHARDS))

    async def _read(self, state: PartitionState) -> AsyncIterator[Progress]:
        check = DeepCheck(
            metadata=self._metadata,
            objects=self._objects,
            findings=self.findings,
            checked=self.checked,
        )
        total = state.high_watermark - state.log_start_offset
        async for offset in check.run(state):
            done = min(offset, state.high_watermark) - state.log_start_offset
            yield Progress(step=f"reading {state.name}", done=done, total=total)

    async def repair(self) -> int:
        """Doom live objects that no row names; return how many."""
        doomed, after = 0, 0
        while True:
            count, following = await self._metadata.doom_unneeded(after, 0, REPAIR_PAGE)
            doomed += count
            if following is None:
                return doomed
            after = following


async def check_same_cluster(metadata: MetadataStore, objects: ObjectStore) -> None:
    """Check that index and store were made together.

    Raises:
        WrongStore: they were not, or the store has no mark of a cluster.
    """
    cluster_id, store_id = await metadata.cluster_id(), await metadata.store_id()
    mark = await read_marker(objects)
    if mark is not None and mark.is_of(cluster_id, store_id):
        return
    if mark is None:
        marked = "has no cluster's mark"
    elif mark.cluster_id != cluster_id:
        marked = f"belongs to cluster {mark.cluster_id}"
    else:
        marked = "was marked for it, which took another one"
    raise WrongStore(f"the database is that of cluster {cluster_id}, the object store {marked}")
