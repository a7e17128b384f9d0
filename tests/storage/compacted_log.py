"""What readers get from a compacted log: as clients read it, from the stored bytes."""

from dataclasses import dataclass

from protocol.batch import HEADER_BYTES, read_header
from protocol.control_batch import read_end_marker
from protocol.decompression import decompress
from protocol.ids import Partition
from protocol.records import decode_records
from storage.aborted_ranges import aborted_ranges
from storage.metadata.port import MetadataStore
from storage.objects.port import ObjectStore
from storage.segment_entry import SegmentEntry
from storage.upkeep.segment_rows import read_index, read_rows


@dataclass(frozen=True, slots=True)
class Written:
    """A record at its offset."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class CompactedLog:
    """One partition, wherever it is."""

    metadata: MetadataStore
    objects: ObjectStore
    partition: Partition

    async def rows(self) -> list[SegmentEntry]:
        return await self.metadata.segments_from(self.partition, 0, 1 << 30)

    async def batches(self) -> list[bytes]:
        """Return all batches from the first row on, each with its base offset."""
        rows = await self.rows()
        return [
            bytes(batch) async for part in read_rows(self.objects, rows) for batch in part.batches
        ]

    async def read(self, offset: int = 0) -> list[Written]:
        """Return what a reader of committed records gets from `offset` on (as clients do it)."""
        found = await self.metadata.partition_offsets([self.partition])
        stable_offset = found[self.partition].last_stable_offset
        aborted = sorted(
            await aborted_ranges(self.metadata, self.partition, offset, stable_offset),
            key=lambda one: one.first_offset,
        )
        skipped: set[int] = set()
        records: list[Written] = []
        for batch in await self.batches():
            header = read_header(batch)
            last_offset = header.base_offset + header.last_offset_delta
            if last_offset < offset:
                continue
            if header.base_offset >= stable_offset:
                break
            while aborted and aborted[0].first_offset <= last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if header.is_control:
                if not read_end_marker(batch).committed:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                records += [one for one in records_of(batch) if one.offset >= offset]
        return records

    async def latest(self) -> dict[bytes, bytes | None]:
        """Return the last value of each key, as who reads all gets it; tombstones are None."""
        return {one.key: one.value for one in await self.read() if one.key is not None}

    async def horizons(self) -> dict[int, int]:
        """Return the delete horizon of each batch that has one."""
        found: dict[int, int] = {}
        for row in await self.rows():
            if row.index_length:
                found |= dict((await read_index(self.objects, row)).horizons)
        return found


def records_of(batch: bytes) -> list[Written]:
    header = read_header(batch)
    if not header.record_count:
        return []
    payload = decompress(header.codec, batch[HEADER_BYTES:])
    return [
        Written(
            header.base_offset + one.offset_delta,
            header.max_timestamp_ms
            if header.is_log_append_time
            else header.base_timestamp_ms + one.timestamp_delta_ms,
            one.key,
            one.value,
            one.headers,
        )
        for one in decode_records(payload, header.record_count, from_producer=False)
    ]
