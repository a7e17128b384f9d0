"""Whether readers get what they shall of a log whose background work was cut off somewhere."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from protocol.batch import read_header
from protocol.control_batch import read_end_marker
from protocol.ids import Partition
from storage.aborted_ranges import aborted_ranges
from storage.aborted_transaction import AbortedTransaction
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metrics import StorageMetrics
from storage.objects.objects_directory import DirectoryStore
from storage.partition_log import PartitionLog
from storage.partition_offsets import PartitionOffsets
from storage.reading.block_cache import BlockCache
from storage.reading.read_planner import ColdRead
from storage.reading.reader import Reader, Records
from storage.upkeep.segment_rows import read_rows
from tests.crash.index_checks import wrong_rows
from tests.crash.upkeep_child import POOL
from tests.crash.upkeep_log import LogModel
from tests.storage.compacted_log import Written, records_of

FETCH_BYTES: Final = 1_500
EVERY_ROW: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader:
    """Somebody who looks at all of it; made by `reading`."""

    dsn: str
    metadata: PostgresMetadata
    objects: DirectoryStore
    logs: Mapping[Partition, LogModel]
    reader: Reader

    async def check(self) -> None:
        """Assert what holds wherever the background work has come to."""
        assert await wrong_rows(self.dsn) == []
        offsets = await self.metadata.partition_offsets(list(self.logs))
        assert offsets.keys() == self.logs.keys()
        for partition, found in offsets.items():
            log = self.logs[partition]
            assert found.high_watermark == log.high_watermark, log.name
            assert found.last_stable_offset == log.stable_offset, log.name
            start_offset = found.log_start_offset
            assert log.least_offset <= start_offset, log.name
            assert start_offset <= max(log.least_offset, log.young_offset), log.name
            await self._check_rows(partition, start_offset)
            batches = await self._batches(partition, found)
            read = _records(batches, start_offset)
            _check_all(log, read, start_offset)
            aborted = await aborted_ranges(
                self.metadata, partition, start_offset, found.last_stable_offset
            )
            stable = [one for one in batches if read_header(one).base_offset < log.stable_offset]
            _check_committed(log, _records(_committed(stable, aborted), start_offset), start_offset)

    async def check_all_is_done(self) -> None:
        """Assert that nothing is left to do, and that nothing is stored that no row names."""
        assert not any((await self.metadata.backlog()).values()), await self.metadata.backlog()
        ranges, _ = await self.metadata.unbuilt_ranges(None, 1_000, 1)
        assert ranges == []
        compacted = [log.partition for log in self.logs.values() if log.compacted]
        for found in await self.metadata.cleanable_ranges(compacted):
            rows = await self.metadata.segments_from(found.partition, found.compacted_offset, 1)
            # What is not compacted is one segment with records of an open transaction.
            assert all(row.end_offset >= found.end_offset for row in rows)
            await self._check_keys(found.partition, found.compacted_offset)
        rows = [
            row
            for partition in self.logs
            for row in await self.metadata.segments_from(partition, 0, EVERY_ROW)
        ]
        assert all(row.index_length for row in rows)
        stored = {one.path async for one in self.objects.list("")}
        assert stored == {row.path for row in rows}

    async def _check_rows(self, partition: Partition, start_offset: int) -> None:
        """Read every row as builder and compaction do, checksums and all."""
        rows = await self.metadata.segments_from(partition, start_offset, EVERY_ROW)
        async with aclosing(read_rows(self.objects, rows)) as parts:
            assert [part.entry async for part in parts if part.is_last] == rows

    async def _batches(self, partition: Partition, found: PartitionOffsets) -> list[bytes]:
        """Read from the log start to the end as brokers do, some bytes at a time."""
        log = PartitionLog(partition)
        offset = found.log_start_offset
        batches: list[bytes] = []
        while offset < found.high_watermark:
            (answer,) = await self.reader.read([ColdRead(log, offset, FETCH_BYTES)])
            assert isinstance(answer, Records), answer
            if not answer.batches:
                break  # all that is behind it was compacted away
            for batch in answer.batches:
                header = read_header(batch)
                last_offset = header.base_offset + header.last_offset_delta
                assert last_offset >= offset
                batches.append(bytes(batch))
                offset = last_offset + 1
        return batches

    async def _check_keys(self, partition: Partition, before: int) -> None:
        """Assert that each key is there once."""
        offsets = (await self.metadata.partition_offsets([partition]))[partition]
        batches = await self._batches(partition, offsets)
        aborted = await aborted_ranges(
            self.metadata, partition, offsets.log_start_offset, offsets.last_stable_offset
        )
        keys = Counter(
            one.key for one in _records(_committed(batches, aborted), 0) if one.offset < before
        )
        assert set(keys.values()) <= {1}, keys


@asynccontextmanager
async def reading(
    dsn: str, root: Path, logs: Mapping[Partition, LogModel]
) -> AsyncIterator[LogReader]:
    """Open a log for who looks at it."""
    metadata = await PostgresMetadata.open(dsn, POOL)
    objects = await DirectoryStore.open(root)
    metrics = StorageMetrics(CollectorRegistry())
    blocks = BlockCache(objects, max_bytes=1 << 20, metrics=metrics, clock=time.monotonic)
    try:
        yield LogReader(
            dsn=dsn,
            metadata=metadata,
            objects=objects,
            logs=logs,
            reader=Reader(metadata, blocks, metrics),
        )
    finally:
        await blocks.close()
        await objects.close()
        await metadata.close()


def _records(batches: Sequence[bytes], start_offset: int) -> list[Written]:
    return [
        one
        for batch in batches
        if not read_header(batch).is_control
        for one in records_of(batch)
        if one.offset >= start_offset
    ]


def _committed(batches: Sequence[bytes], aborted: Sequence[AbortedTransaction]) -> list[bytes]:
    """Leave out what readers of committed records skip, as clients do it (KIP-98)."""
    begins = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    skipped: set[int] = set()
    kept = []
    for batch in batches:
        header = read_header(batch)
        while begins and begins[-1].first_offset <= header.base_offset + header.last_offset_delta:
            skipped.add(begins.pop().producer_id)
        if header.is_control:
            if not read_end_marker(batch).committed:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            kept.append(batch)
    return kept


def _check_all(log: LogModel, read: Sequence[Written], start_offset: int) -> None:
    """Assert that records are as and where they were written; all, if nothing is compacted."""
    offsets = [one.offset for one in read]
    assert offsets == sorted(set(offsets)), log.name
    assert [log.records.get(offset) for offset in offsets] == read, log.name
    if not log.compacted:
        assert offsets == [one for one in log.records if one >= start_offset], log.name


def _check_committed(log: LogModel, read: Sequence[Written], start_offset: int) -> None:
    """Assert that readers of committed records get those, of compacted logs the latest ones."""
    expected = [
        one
        for offset, one in log.records.items()
        if offset in log.committed and start_offset <= offset < log.stable_offset
    ]
    if not log.compacted:
        assert list(read) == expected, log.name
        return
    assert {one.offset for one in read} <= log.committed, log.name
    latest = {one.key: one for one in expected}
    found = {one.key: one for one in read}
    gone = {key for key, one in latest.items() if key not in found and one.value is None}
    assert found == {key: one for key, one in latest.items() if key not in gone}, log.name
