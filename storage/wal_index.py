"""What the writer leaves at the end of its objects, so that they describe themselves (D5).

    batches | topics | runs | footer

The log does not need it: the metadata says where batches lie and which offsets they have. It is for
the day when the metadata is lost. Then the store alone has to tell whose batches an object has, in
which order objects were written, and which offsets the writer believed that they would get.

All integers are big-endian; times are Unix times in ms. The batches, from byte 0 on, are v2 record
batches (KIP-98), back to back; what they have as base offset says nothing. Then, without padding:
    topics     u32 count; then for each: topic id 16 bytes, name length u16, name in UTF-8
    runs       u32 count; then for each, 48 bytes, in the order of the batches, which they tile:
        topic u32, partition u32            position in the table of topics; number of the partition
        start u64, length u32               bytes of the object; whole batches
        record count u64                    offsets that the batches take
        expected offset i64                 of the first one, if no other broker wrote; -1: unknown
        leader epoch i32                    that they were taken in
        max timestamp i64                   of the batches
Footer, 56 bytes, the last of the object:
     0  writer id       16 bytes  made when the broker process started
    16  sequence         u64      of the object among its writer's: the order of their commits
    24  written          i64      when it was sealed
    32  index start      u64      byte of the object where the topics begin
    40  index length     u32      from there to the end of the object, footer included
    44  checksum         u32      CRC-32C of the index and bytes 0 to 43 of the footer
    48  magic            8 bytes  "SHWAL" CR LF, then the version of the format: 1
An upload that is tried again has another path, and the same writer id and sequence.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

import crc32c

from storage.errors import CorruptObject
from storage.objects.port import Buffer

MAGIC: Final = b"SHWAL\r\n\x01"
_FOOTER: Final = struct.Struct(">16sQqQI")
_CHECKSUM: Final = struct.Struct(">I")
FOOTER_BYTES: Final = _FOOTER.size + _CHECKSUM.size + len(MAGIC)
UNKNOWN_OFFSET: Final = -1

_COUNT: Final = struct.Struct(">I")
_TOPIC: Final = struct.Struct(">16sH")
_RUN: Final = struct.Struct(">IIQIQqiq")


class WalRun(NamedTuple):
    """Batches of one partition, side by side in one object of a writer.

    Attributes:
        topic: position in the index's table of topics.
        start, length: byte range in the object.
        record_count: offsets that they take, if all of them were appended.
        expected_offset: of the first one, if no other broker wrote to the partition meanwhile;
            UNKNOWN_OFFSET if the writer did not know where the partition ends.
    """

    topic: int
    partition: int
    start: int
    length: int
    record_count: int
    expected_offset: int
    leader_epoch: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WalIndex:
    """What an object of a writer says of itself.

    Attributes:
        sequence: of the object among those of its writer.
        written_ms: when it was sealed (Unix time).
        topics: (id, name) of each; the name is empty if the topic was deleted by then.
        runs: of all its batches, in order.
    """

    writer_id: UUID
    sequence: int
    written_ms: int
    topics: tuple[tuple[UUID, str], ...]
    runs: tuple[WalRun, ...]


def encode_index(index: WalIndex) -> bytes:
    """Return what follows the batches, which `index.runs` tile, up to the end of the object."""
    parts = [_COUNT.pack(len(index.topics))]
    for topic_id, name in index.topics:
        text = name.encode()
        parts += (_TOPIC.pack(topic_id.bytes, len(text)), text)
    parts.append(_COUNT.pack(len(index.runs)))
    parts += [_RUN.pack(*run) for run in index.runs]
    tables = b"".join(parts)
    last = index.runs[-1]
    footer = _FOOTER.pack(
        *(index.writer_id.bytes, index.sequence, index.written_ms),
        *(last.start + last.length, len(tables) + FOOTER_BYTES),
    )
    checksum = crc32c.crc32c(footer, crc32c.crc32c(tables))
    return b"".join((tables, footer, _CHECKSUM.pack(checksum), MAGIC))


def parse_index_length(data: Buffer) -> int:
    """Return the length of the index from the last FOOTER_BYTES of an object, or more of them.

    Raises:
        CorruptObject: no footer of a writer's object. (Its checksum is checked with the index.)
    """
    if len(data) < FOOTER_BYTES:
        raise CorruptObject(f"{len(data)} bytes are no footer of an object of the writer")
    magic = bytes(data[-len(MAGIC) :])
    if magic[:-1] != MAGIC[:-1]:
        raise CorruptObject("no object of the writer: it does not end like one")
    if magic != MAGIC:
        raise CorruptObject(f"version {magic[-1]} of the writer's objects is not known, only 1")
    *_, index_length = _FOOTER.unpack_from(data, len(data) - FOOTER_BYTES)
    return int(index_length)


def parse_index(data: Buffer) -> WalIndex:
    """Return the index from the last `index_length` bytes of an object.

    Raises:
        CorruptObject: they are no intact index.
    """
    if parse_index_length(data) != len(data):
        raise CorruptObject(f"the index of the object has not the {len(data)} bytes it should have")
    view = memoryview(data)
    end = len(view) - FOOTER_BYTES
    fields_end = end + _FOOTER.size
    if crc32c.crc32c(view[:fields_end]) != _CHECKSUM.unpack_from(view, fields_end)[0]:
        raise CorruptObject("checksum of the object's index does not match")
    writer_id, sequence, written_ms, index_start, _ = _FOOTER.unpack_from(view, end)
    try:
        topics, runs = _tables(view[:end])
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptObject(f"the index of the object cannot be read: {error}") from error
    _check_runs(runs, len(topics), index_start)
    return WalIndex(
        writer_id=UUID(bytes=writer_id),
        sequence=sequence,
        written_ms=written_ms,
        topics=tuple(topics),
        runs=tuple(runs),
    )


def _tables(data: memoryview) -> tuple[list[tuple[UUID, str]], list[WalRun]]:
    topics: list[tuple[UUID, str]] = []
    (count,), at = _COUNT.unpack_from(data), _COUNT.size
    for _ in range(count):
        topic_id, length = _TOPIC.unpack_from(data, at)
        at += _TOPIC.size + length
        topics.append((UUID(bytes=topic_id), bytes(data[at - length : at]).decode()))
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    if at + count * _RUN.size != len(data):
        raise CorruptObject(f"{len(data) - at} bytes of the index are left for {count} runs")
    return topics, [WalRun(*fields) for fields in _RUN.iter_unpack(data[at:])]


def _check_runs(runs: Sequence[WalRun], topics: int, index_start: int) -> None:
    at = 0
    for run in runs:
        if run.start != at or run.topic >= topics:
            raise CorruptObject(f"a run of the index at byte {run.start}, not {at}")
        at += run.length
    if at != index_start:
        raise CorruptObject(f"the runs of the index end at byte {at}, not {index_start}")
