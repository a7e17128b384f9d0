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
from typing import Final
from uuid import UUID

import crc32c

from protocol.errors import CorruptBatch
from storage.errors import CorruptObject
from storage.objects.port import Buffer
from storage.runs import Run, parse_placed
from storage.segment_index import Block, SegmentIndex, check_tiling, decode_tables, encode_tables

MAGIC: Final = b"SHSEG\r\n\x01"
_HEADER: Final = struct.Struct(">8s16sI")
_FOOTER: Final = struct.Struct(">16sIqqqQQI")
_CHECKSUM: Final = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
FOOTER_BYTES: Final = _FOOTER.size + _CHECKSUM.size + len(MAGIC)


def encode_header(topic_id: UUID, partition: int) -> bytes:
    """Return the HEADER_BYTES that an object begins with."""
    header = _HEADER.pack(MAGIC, topic_id.bytes, partition)
    return header + _CHECKSUM.pack(crc32c.crc32c(header))


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


def encode_index(index: SegmentIndex, *, index_start: int) -> bytes:
    """Return the bytes of index and footer.

    Args:
        index: of the whole segment.
        index_start: byte of the object where the index begins.
    """
    tables = encode_tables(index)
    footer = _FOOTER.pack(
        *(index.topic_id.bytes, index.partition, index.start_offset, index.end_offset),
        *(index.max_timestamp_ms, HEADER_BYTES, index_start, len(tables) + FOOTER_BYTES),
    )
    checksum = crc32c.crc32c(footer, crc32c.crc32c(tables))
    return b"".join((tables, footer, _CHECKSUM.pack(checksum), MAGIC))


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


def _check_magic(found: bytes, where: str) -> None:
    if found[:-1] != MAGIC[:-1]:
        raise CorruptObject(f"no segment: it does not {where} like one")
    if found != MAGIC:
        raise CorruptObject(f"version {found[-1]} of the segment format is not known, only 1")


def _check_sum(data: memoryview, checksum: memoryview, name: str) -> None:
    if crc32c.crc32c(data) != _CHECKSUM.unpack_from(checksum)[0]:
        raise CorruptObject(f"checksum of the segment's {name} does not match")
