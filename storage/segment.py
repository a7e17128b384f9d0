"""A built segment: one object with the batches of one partition, which describes itself (D6).

    header | batches | index | footer

All integers are big-endian; offsets are inclusive, times are Unix times in ms, checksums CRC-32C.

Header, 32 bytes:
     0  magic            8 bytes  "SHSEG" CR LF, then the version of the format: 1
     8  topic id        16 bytes
    24  partition        u32
    28  checksum         u32      of bytes 0 to 27
Batches, from byte 32 on: v2 record batches (KIP-98), back to back, each with its base offset. Base
offsets ascend; there may be gaps between batches, and between the records of one. There is at least
one batch: a segment whose records were all removed has one that is empty.
Index, four tables without padding:
    blocks     u32 count; then for each, 40 bytes:
        start u64, length u32               bytes of the object; whole batches
        first offset i64, last offset i64   what it answers for; blocks tile the segment's offsets
        max timestamp i64                   of its batches; -1 if they have no record
        checksum u32                        of its bytes
    aborted    u32 count; then for each: producer id i64, first offset i64, last offset i64
    horizons   u32 count; then for each: base offset i64, horizon i64 (KIP-534)
    topic      u32 length; UTF-8 JSON {"configs": {…}, "name": …, "partition_count": …}
Footer, 76 bytes, the last of the object:
     0  topic id        16 bytes
    16  partition        u32
    20  start offset     i64      what the segment covers: the row of the metadata that names it
    28  end offset       i64
    36  max timestamp    i64
    44  start            u64      byte of the object where the batches begin: 32
    52  index start      u64      byte of the object where they end and the index begins
    60  index length     u32      up to the end of the object, footer included
    64  checksum         u32      of the index and bytes 0 to 63 of the footer
    68  magic            8 bytes  as in the header
So its first 32 bytes tell whose object it is, its last 76 where everything is; one GET of the index
is enough to read from it, and with nothing but the object all of it can be read and checked.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

import crc32c

from protocol.batch import read_header
from protocol.errors import CorruptBatch
from protocol.records import build_batch
from storage.aborted_transaction import AbortedTransaction
from storage.errors import CorruptObject
from storage.objects.port import Buffer
from storage.runs import Run, parse_placed
from storage.segment_index import (
    BLOCK_BYTES,
    Block,
    SegmentIndex,
    check_tiling,
    decode_tables,
    encode_tables,
)

MAGIC: Final = b"SHSEG\r\n\x01"
_HEADER: Final = struct.Struct(">8s16sI")
_FOOTER: Final = struct.Struct(">16sIqqqQQI")
_CHECKSUM: Final = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
FOOTER_BYTES: Final = _FOOTER.size + _CHECKSUM.size + len(MAGIC)
_LARGEST_DELTA: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltSegment:
    """A whole object, not uploaded yet.

    Attributes:
        parts: its bytes, in order; batches are those that were added, not copies.
        size: of the object, bytes.
        start, length: byte range of its batches.
        index_length: bytes that follow them, up to the end.
        max_timestamp_ms: as in its row; -1 if it has no record.
    """

    parts: list[Buffer]
    size: int
    start: int
    length: int
    index_length: int
    max_timestamp_ms: int
    index: SegmentIndex


class NamedTopic(Protocol):
    """What a segment keeps of its topic, so that it can be recovered from it."""

    @property
    def name(self) -> str: ...
    @property
    def partition_count(self) -> int: ...
    @property
    def configs(self) -> Mapping[str, str]: ...


class SegmentBuilder:
    """Lays out a segment batch by batch; nothing is copied.

    Attributes:
        size: bytes of the batches so far.
    """

    def __init__(
        self, *, topic_id: UUID, partition: int, topic: NamedTopic, start_offset: int
    ) -> None:
        self.size = 0
        self._topic_id = topic_id
        self._partition = partition
        self._topic = topic
        self._start_offset = start_offset
        header = _HEADER.pack(MAGIC, topic_id.bytes, partition)
        self._parts: list[Buffer] = [header + _CHECKSUM.pack(crc32c.crc32c(header))]
        self._next_offset = start_offset
        self._max_timestamp_ms = -1
        self._blocks: list[Block] = []
        self._block_offset = start_offset
        self._block_length = 0
        self._block_timestamp_ms = -1
        self._block_checksum = 0

    def add(self, batch: Buffer) -> None:
        """Take a whole v2 batch that has its base offset; the builder keeps the buffer.

        Args:
            batch: behind all that were added before; not to be changed any more.
        """
        header = read_header(batch)
        assert header.size == len(batch)
        assert header.base_offset >= self._next_offset
        if self._block_length and self._block_length + len(batch) > BLOCK_BYTES:
            self._end_block(self._next_offset - 1)
        self._parts.append(batch)
        self.size += len(batch)
        self._next_offset = header.base_offset + header.last_offset_delta + 1
        self._block_length += len(batch)
        self._block_checksum = crc32c.crc32c(batch, self._block_checksum)
        self._block_timestamp_ms = max(self._block_timestamp_ms, header.max_timestamp_ms)

    def finish(
        self,
        *,
        end_offset: int,
        aborted: Sequence[AbortedTransaction] = (),
        horizons: Sequence[tuple[int, int]] = (),
    ) -> BuiltSegment:
        """Return the object; nothing more is added to it.

        Args:
            end_offset: the last one that the segment covers; records there may have been removed.
            aborted: transactions with records in it.
            horizons: (base offset, delete horizon in ms) of batches added.
        """
        if not self.size:
            # A reader learns from an empty batch how far there is nothing (KIP-98). Where its one
            # header cannot say so much, the rest is a gap like any other.
            delta = min(end_offset - self._start_offset, _LARGEST_DELTA)
            self.add(build_batch([], base_offset=self._start_offset, last_offset_delta=delta))
        assert end_offset >= self._next_offset - 1
        self._end_block(end_offset)
        index = SegmentIndex(
            topic_id=self._topic_id,
            topic_name=self._topic.name,
            partition_count=self._topic.partition_count,
            configs=self._topic.configs,
            partition=self._partition,
            start_offset=self._start_offset,
            end_offset=end_offset,
            max_timestamp_ms=self._max_timestamp_ms,
            blocks=tuple(self._blocks),
            aborted=tuple(aborted),
            horizons=tuple(horizons),
        )
        encoded = _encode_index(index, index_start=HEADER_BYTES + self.size)
        return BuiltSegment(
            parts=[*self._parts, encoded],
            size=HEADER_BYTES + self.size + len(encoded),
            start=HEADER_BYTES,
            length=self.size,
            index_length=len(encoded),
            max_timestamp_ms=self._max_timestamp_ms,
            index=index,
        )

    def _end_block(self, last_offset: int) -> None:
        self._blocks.append(
            Block(
                start=HEADER_BYTES + self.size - self._block_length,
                length=self._block_length,
                first_offset=self._block_offset,
                last_offset=last_offset,
                max_timestamp_ms=self._block_timestamp_ms,
                checksum=self._block_checksum,
            )
        )
        self._max_timestamp_ms = max(self._max_timestamp_ms, self._block_timestamp_ms)
        self._block_offset = last_offset + 1
        self._block_length = 0
        self._block_timestamp_ms = -1
        self._block_checksum = 0


def parse_header(data: Buffer) -> tuple[UUID, int]:
    """Return topic id and partition from the first HEADER_BYTES of an object.

    Raises:
        CorruptObject: they are no intact header of a segment.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptObject(f"{len(data)} bytes are no header of a segment")
    view = memoryview(data)[:HEADER_BYTES]
    _check_magic(bytes(view[: len(MAGIC)]), "begin")
    _check_sum(view[: _HEADER.size], view[_HEADER.size :], "header")
    _, topic_id, partition = _HEADER.unpack_from(view)
    return UUID(bytes=topic_id), partition


def parse_index_length(data: Buffer) -> int:
    """Return the length of the index from the last FOOTER_BYTES of an object, or more of them.

    Raises:
        CorruptObject: they are no footer of a segment. (Its checksum is checked with the index.)
    """
    if len(data) < FOOTER_BYTES:
        raise CorruptObject(f"{len(data)} bytes are no footer of a segment")
    _check_magic(bytes(data[-len(MAGIC) :]), "end")
    *_, index_length = _FOOTER.unpack_from(data, len(data) - FOOTER_BYTES)
    return int(index_length)


def parse_index(data: Buffer) -> SegmentIndex:
    """Return the index from the last `index_length` bytes of an object.

    Raises:
        CorruptObject: they are no intact index.
    """
    if parse_index_length(data) != len(data):
        raise CorruptObject(
            f"the index of the segment has not the {len(data)} bytes that it should"
        )
    view = memoryview(data)
    end = len(view) - FOOTER_BYTES
    _check_sum(view[: end + _FOOTER.size], view[end + _FOOTER.size :], "index")
    topic_id, partition, start_offset, end_offset, max_timestamp_ms, start, index_start, _ = (
        _FOOTER.unpack_from(view, end)
    )
    tables = decode_tables(view[:end])
    index = SegmentIndex(
        topic_id=UUID(bytes=topic_id),
        topic_name=tables.topic_name,
        partition_count=tables.partition_count,
        configs=tables.configs,
        partition=partition,
        start_offset=start_offset,
        end_offset=end_offset,
        max_timestamp_ms=max_timestamp_ms,
        blocks=tables.blocks,
        aborted=tables.aborted,
        horizons=tables.horizons,
    )
    check_tiling(index, start=start, end=index_start)
    return index


def read_block(data: bytearray | memoryview, block: Block) -> Run:
    """Return the batches of a block.

    Args:
        data: exactly its bytes; the run refers to them.
        block: as the index of the segment has it.

    Raises:
        CorruptObject: they are not what was built.
    """
    view = memoryview(data)
    where = f"the block at byte {block.start}"
    if len(view) != block.length:
        raise CorruptObject(f"{where} has {len(view)} bytes, its index says {block.length}")
    if crc32c.crc32c(view) != block.checksum:
        raise CorruptObject(f"checksum of {where} does not match")
    try:
        return parse_placed(view, start_offset=block.first_offset, end_offset=block.last_offset)
    except CorruptBatch as error:
        raise CorruptObject(f"{where}: {error}") from error


def _encode_index(index: SegmentIndex, *, index_start: int) -> bytes:
    tables = encode_tables(index)
    footer = _FOOTER.pack(
        *(index.topic_id.bytes, index.partition, index.start_offset, index.end_offset),
        *(index.max_timestamp_ms, HEADER_BYTES, index_start, len(tables) + FOOTER_BYTES),
    )
    checksum = crc32c.crc32c(footer, crc32c.crc32c(tables))
    return b"".join((tables, footer, _CHECKSUM.pack(checksum), MAGIC))


def _check_magic(found: bytes, where: str) -> None:
    if found[:-1] != MAGIC[:-1]:
        raise CorruptObject(f"no segment: it does not {where} like one")
    if found != MAGIC:
        raise CorruptObject(f"version {found[-1]} of the segment format is not known, only 1")


def _check_sum(data: memoryview, checksum: memoryview, name: str) -> None:
    if crc32c.crc32c(data) != _CHECKSUM.unpack_from(checksum)[0]:
        raise CorruptObject(f"checksum of the segment's {name} does not match")
