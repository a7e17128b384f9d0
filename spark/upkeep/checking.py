"""fsck of a whole store on executors: `storage.fsck`, cut into pieces that need nothing of another.

    rows      of a partition tile its log, as of one moment           one piece a partition
    bytes     every checksum of a range of offsets of a partition     pieces of about PIECE_BYTES
    objects   the listing of a prefix of the store, and its rows      one piece a prefix

Nothing is changed, so pieces may be done twice. Brokers go on meanwhile: what looks wrong is looked
at again by whoever found it. A segment that lies in two ranges of offsets is read by both, since it
may have been built after one of them went past.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from protocol.ids import Partition
from spark.log_location import LogLocation
from spark.upkeep.found import AllFindings, CheckDone
from spark.upkeep.stores import POOL, UpkeepOrder, open_upkeep
from storage.config import MiB
from storage.fsck.fsck import check_same_cluster
from storage.fsck.fsck_deep import DeepCheck
from storage.fsck.fsck_findings import Checked
from storage.fsck.fsck_index import FsckIndex
from storage.fsck.fsck_objects import SHARDS, ObjectsCheck
from storage.fsck.fsck_tiling import check_tiling
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.objects.port import ObjectStore
from storage.segment_entry import SegmentEntry
from storage.wall_clock import now_ms

PIECE_BYTES: Final = 1024 * MiB
PAGE: Final = 200  # partitions whose sizes are asked for at once: each row of theirs is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPiece:
    """The rows of a partition."""

    partition: Partition
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesPiece:
    """Offsets of a partition, from `start` to before `end`, of about `size` bytes."""

    partition: Partition
    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsPiece:
    """Objects whose paths begin with `shard`."""

    shard: str
    size: int = 0


Piece = RowsPiece | BytesPiece | ObjectsPiece


class RowsBefore(PostgresMetadata):
    """Metadata whose rows end where a piece does.

    Attributes:
        end_offset: rows that begin there or later are not seen.
    """

    end_offset: int

    async def segments_from(
        self, partition: Partition, offset: int, limit: int
    ) -> list[SegmentEntry]:
        rows = await super().segments_from(partition, offset, limit)
        return [row for row in rows if row.start_offset < self.end_offset]


async def plan_check(
    location: LogLocation,
    *,
    deep: bool,
    topics: Collection[str] = (),
    piece_bytes: int = PIECE_BYTES,
) -> list[Piece]:
    """Return the pieces of a check, the largest first.

    Args:
        location: of the log.
        deep: every byte is read.
        topics: their names: only their rows and bytes; empty for everything.
        piece_bytes: about how much a piece reads.

    Raises:
        LookupError: there is no topic of a name.
        WrongStore, MetadataUnavailable, ObjectStoreUnavailable: as `open_upkeep`.
    """
    async with (
        open_upkeep(UpkeepOrder(location=location)) as stores,
        FsckIndex.open(location.postgres, POOL) as index,
    ):
        is_wanted = stores.policies.wanted(topics)
        found = [one async for one in index.partitions() if is_wanted(one.topic_id)]
        pieces: list[Piece] = [RowsPiece(partition=one) for one in found]
        if not topics:
            pieces += [ObjectsPiece(shard=shard) for shard in reversed(SHARDS)]
        if deep:
            for start in range(0, len(found), PAGE):
                pieces += await _bytes_pieces(
                    stores.metadata, found[start : start + PAGE], piece_bytes
                )
    return sorted(pieces, key=lambda piece: -piece.size)


async def _bytes_pieces(
    metadata: PostgresMetadata, partitions: Sequence[Partition], piece_bytes: int
) -> list[BytesPiece]:
    offsets = await metadata.partition_offsets(partitions)
    sizes = await metadata.partition_sizes(partitions)
    return [
        piece
        for one, log in offsets.items()
        for piece in cut(
            one, log.log_start_offset, log.high_watermark, sizes.get(one, 0), piece_bytes
        )
    ]


def cut(
    partition: Partition, start: int, end: int, size: int, piece_bytes: int
) -> list[BytesPiece]:
    """Return pieces of `start` to before `end` with as many offsets each; none if it is empty."""
    if start >= end:
        return []
    count = min(max(1, -(-size // piece_bytes)), end - start)
    edges = [start + (end - start) * number // count for number in range(count + 1)]
    return [
        BytesPiece(partition=partition, start=edges[at], end=edges[at + 1], size=size // count)
        for at in range(count)
    ]


def check_pieces(location: LogLocation, pieces: Iterable[Piece]) -> Iterator[CheckDone]:
    """Check pieces, in an executor.

    Raises:
        StorageError: no answer, or the store is another.
    """
    yield asyncio.run(_check(location, list(pieces)))


async def _check(location: LogLocation, pieces: Sequence[Piece]) -> CheckDone:
    metadata = await RowsBefore.open(location.postgres, POOL)
    assert isinstance(metadata, RowsBefore)
    try:
        async with location.objects() as objects, FsckIndex.open(location.postgres, POOL) as index:
            await check_same_cluster(metadata, objects)
            check = _Check(index, metadata, objects)
            for piece in pieces:
                await check.take(piece)
            return CheckDone(checked=check.checked, found=check.findings.found)
    finally:
        await metadata.close()


class _Check:
    """The pieces of one task."""

    def __init__(self, index: FsckIndex, metadata: RowsBefore, objects: ObjectStore) -> None:
        self.findings = AllFindings()
        self.checked = Checked()
        self._index = index
        self._metadata = metadata
        self._objects = objects

    async def take(self, piece: Piece) -> None:
        match piece:
            case RowsPiece():
                await self._rows(piece.partition)
            case BytesPiece():
                await self._bytes(piece)
            case ObjectsPiece():
                await self._shard(piece.shard)

    async def _rows(self, partition: Partition) -> None:
        async with self._index.snapshot(partition) as snapshot:
            if snapshot is None:  # it was deleted meanwhile
                return
            state, rows = snapshot
            self.checked.rows += await check_tiling(state, rows, self.findings)
        self.checked.partitions += 1

    async def _bytes(self, piece: BytesPiece) -> None:
        async with self._index.snapshot(piece.partition) as snapshot:
            if snapshot is None:
                return
            state, _ = snapshot
        start = max(piece.start, state.log_start_offset)
        self._metadata.end_offset = piece.end
        check = DeepCheck(
            metadata=self._metadata,
            objects=self._objects,
            findings=self.findings,
            checked=self.checked,
        )
        asked = replace(state, log_start_offset=start, high_watermark=piece.end)
        async for _ in check.run(asked):
            pass

    async def _shard(self, shard: str) -> None:
        check = ObjectsCheck(
            index=self._index,
            metadata=self._metadata,
            objects=self._objects,
            findings=self.findings,
            checked=self.checked,
            now_ms=now_ms,
        )
        async for _ in check.run([shard]):
            pass
