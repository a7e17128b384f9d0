"""What the writer leaves at the end of its objects, so that they describe themselves (D5).

    batches | topics | runs | places | footer

The log does not need it: the metadata says where batches lie and which offsets they have. It is for
the day when the metadata is lost. Then the store alone has to tell whose batches an object has, in
which order objects were written, which offsets the writer believed that they would get, which ones
it was told since that its earlier batches have, and how transactions ended. An object may have no
batches, and only tell (storage/untold.py).

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
    places     u32 count; then column by column, because an object may have a thousand:
        topics u32, partitions u32          as above; a topic need not have a run
        sequences u64                       of earlier objects of the writer
        batches u32                         of the partition in that object
        base offsets i64                    of all these batches, in their order;
                                            -1: not in the log, by this object
    endings    u32 count; then for each, 35 bytes, a marker that ends a transaction in a partition:
        topic u32, partition u32            as above
        offset i64                          that it has
        producer id i64, producer epoch i16
        committed u8                        0: it was aborted
        timestamp i64                       of the marker
Footer, 56 bytes, the last of the object:
     0  writer id       16 bytes  made when the broker process started
    16  sequence         u64      of the object among its writer's: the order of their commits
    24  written          i64      when it was sealed
    32  index start      u64      byte of the object where the topics begin
    40  index length     u32      from there to the end of the object, footer included
    44  checksum         u32      CRC-32C of the index and bytes 0 to 43 of the footer
    48  magic            8 bytes  "SHWAL" CR LF, then the version of the format: 3
An object without endings is of version 2, which does not have their table: what came before can
read that. In version 1 there are no places, either. An upload that is tried again has another path,
and the same writer id and sequence.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Final, NamedTuple
from uuid import UUID

import crc32c

from storage.errors import CorruptObject
from storage.objects.port import Buffer

MAGIC: Final = b"SHWAL\r\n\x03"
_WITHOUT_ENDINGS: Final = b"SHWAL\r\n\x02"
_WITHOUT_PLACES: Final = b"SHWAL\r\n\x01"
_FOOTER: Final = struct.Struct(">16sQqQI")
_CHECKSUM: Final = struct.Struct(">I")
FOOTER_BYTES: Final = _FOOTER.size + _CHECKSUM.size + len(MAGIC)
UNKNOWN_OFFSET: Final = -1
NOT_APPENDED: Final = -1

_COUNT: Final = struct.Struct(">I")
_TOPIC: Final = struct.Struct(">16sH")
_RUN: Final = struct.Struct(">IIQIQqiq")
_ENDING: Final = struct.Struct(">IIqqh?q")


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


WalPlaces = tuple[int, int, int, Sequence[int]]
"""Where an earlier object's batches of one partition are in the log: topic, partition, sequence of
that object, and base offsets of all of them in their order, as the module's docstring tells."""


class WalEnding(NamedTuple):
    """A marker that ended a transaction in a partition.

    Attributes:
        topic: position in the index's table of topics.
        offset, producer_epoch, timestamp_ms: of the marker.
        committed: False: what the producer wrote is not to be read.
    """

    topic: int
    partition: int
    offset: int
    producer_id: int
    producer_epoch: int
    committed: bool
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WalIndex:
    """What an object of a writer says of itself.

    Attributes:
        sequence: of the object among those of its writer.
        written_ms: when it was sealed (Unix time).
        topics: (id, name) of each; the name is empty if the topic was deleted by then.
        runs: of all its batches, in order.
        places: of batches of objects before it.
        endings: of transactions, of which its broker was the coordinator.
    """

    writer_id: UUID
    sequence: int
    written_ms: int
    topics: tuple[tuple[UUID, str], ...]
    runs: tuple[WalRun, ...]
    places: tuple[WalPlaces, ...] = ()
    endings: tuple[WalEnding, ...] = ()


def encode_index(index: WalIndex) -> bytes:
    """Return what follows the batches, which `index.runs` tile, up to the end of the object."""
    parts = [_COUNT.pack(len(index.topics))]
    for topic_id, name in index.topics:
        text = name.encode()
        parts += (_TOPIC.pack(topic_id.bytes, len(text)), text)
    parts += (_COUNT.pack(len(index.runs)), *[_RUN.pack(*run) for run in index.runs])
    places = bytes(_COUNT.size)
    if index.places:
        topics, partitions, sequences, base_offsets = zip(*index.places, strict=True)
        batches = [*map(len, base_offsets)]
        count = len(batches)
        places = struct.pack(
            f">{1 + 2 * count}I{count}Q{count}I{sum(batches)}q",
            *(count, *topics, *partitions, *sequences, *batches),
            *chain.from_iterable(base_offsets),
        )
    endings = []
    if index.endings:
        endings = [_COUNT.pack(len(index.endings)), *[_ENDING.pack(*one) for one in index.endings]]
    tables = b"".join((*parts, places, *endings))
    end = index.runs[-1].start + index.runs[-1].length if index.runs else 0
    footer = _FOOTER.pack(
        *(index.writer_id.bytes, index.sequence, index.written_ms),
        *(end, len(tables) + FOOTER_BYTES),
    )
    checksum = crc32c.crc32c(footer, crc32c.crc32c(tables))
    magic = MAGIC if index.endings else _WITHOUT_ENDINGS
    return b"".join((tables, footer, _CHECKSUM.pack(checksum), magic))


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
    if magic not in (MAGIC, _WITHOUT_ENDINGS, _WITHOUT_PLACES):
        raise CorruptObject(
            f"version {magic[-1]} of the writer's objects is not known, only 1, 2, 3"
        )
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
    magic = data[-len(MAGIC) :]
    try:
        topics, at = _topics(view[:end])
        runs, at = _runs(view[:end], at)
        places, at = _places(view[:end], at) if magic != _WITHOUT_PLACES else ([], at)
        endings, at = _endings(view[:end], at) if magic == MAGIC else ([], at)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptObject(f"the index of the object cannot be read: {error}") from error
    if at != end:
        raise CorruptObject(f"{end - at} bytes of the index are left behind its tables")
    told = {*(topic for topic, *_ in places), *(one.topic for one in endings)}
    if told and max(told) >= len(topics):
        raise CorruptObject(f"it tells of a topic that is not among the {len(topics)} of the index")
    _check_runs(runs, len(topics), index_start)
    return WalIndex(
        writer_id=UUID(bytes=writer_id),
        sequence=sequence,
        written_ms=written_ms,
        topics=tuple(topics),
        runs=tuple(runs),
        places=tuple(places),
        endings=tuple(endings),
    )


def _topics(data: memoryview) -> tuple[list[tuple[UUID, str]], int]:
    """Return the table, and where it ends; so do the others."""
    topics: list[tuple[UUID, str]] = []
    (count,), at = _COUNT.unpack_from(data), _COUNT.size
    for _ in range(count):
        topic_id, length = _TOPIC.unpack_from(data, at)
        at += _TOPIC.size + length
        topics.append((UUID(bytes=topic_id), bytes(data[at - length : at]).decode()))
    return topics, at


def _runs(data: memoryview, at: int) -> tuple[list[WalRun], int]:
    (count,) = _COUNT.unpack_from(data, at)
    start = at + _COUNT.size
    end = start + count * _RUN.size
    return [WalRun(*fields) for fields in _RUN.iter_unpack(data[start:end])], end


def _places(data: memoryview, at: int) -> tuple[list[WalPlaces], int]:
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    columns = struct.Struct(f">{count}I{count}I{count}Q{count}I")
    fields = columns.unpack_from(data, at)
    at += columns.size
    batches = fields[3 * count :]
    base_offsets = struct.unpack_from(f">{sum(batches)}q", data, at)
    ends = list(accumulate(batches))
    offsets = (base_offsets[end - size : end] for end, size in zip(ends, batches, strict=True))
    topics, partitions, sequences = (fields[n * count : (n + 1) * count] for n in range(3))
    places: list[WalPlaces] = [*zip(topics, partitions, sequences, offsets, strict=True)]
    return places, at + 8 * len(base_offsets)


def _endings(data: memoryview, at: int) -> tuple[list[WalEnding], int]:
    (count,) = _COUNT.unpack_from(data, at)
    start = at + _COUNT.size
    end = start + count * _ENDING.size
    return [WalEnding(*fields) for fields in _ENDING.iter_unpack(data[start:end])], end


def _check_runs(runs: Sequence[WalRun], topics: int, index_start: int) -> None:
    at = 0
    for run in runs:
        if run.start != at or run.topic >= topics:
            raise CorruptObject(f"a run of the index at byte {run.start}, not {at}")
        at += run.length
    if at != index_start:
        raise CorruptObject(f"the runs of the index end at byte {at}, not {index_start}")
