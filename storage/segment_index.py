"""What the index of a built segment says, and the bytes of its four tables (storage/segment.py)."""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from uuid import UUID

from storage.aborted_transaction import AbortedTransaction
from storage.config import MiB
from storage.errors import CorruptObject

BLOCK_BYTES: Final = MiB

_COUNT: Final = struct.Struct(">I")
_BLOCK: Final = struct.Struct(">QIqqqI")
_ABORTED: Final = struct.Struct(">qqq")
_HORIZON: Final = struct.Struct(">qq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some whole batches of a segment that are read and checked together.

    Attributes:
        start: byte of the object.
        length: bytes; BLOCK_BYTES at most, unless one batch has more.
        first_offset, last_offset: what the block answers for; blocks tile the segment. A gap
            before a batch belongs to the batch's block, one at the end to the last block.
        max_timestamp_ms: of its batches; -1 if they have no record.
        checksum: CRC-32C of its bytes.
    """

    start: int
    length: int
    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIndex:
    """What a built segment says of itself.

    Attributes:
        topic_name, partition_count, configs: of its topic, when it was built.
        start_offset, end_offset: what it covers (inclusive), with gaps where records were removed.
        max_timestamp_ms: of its batches; -1 if they have no record.
        blocks: of all its batches, in order; at least one.
        aborted: transactions with records in it that are not to be read, by last offset.
        horizons: (base offset of a batch, Unix time in ms from which on its tombstones and markers
            may be removed), ascending.
    """

    topic_id: UUID
    topic_name: str
    partition_count: int
    configs: Mapping[str, str]
    partition: int
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    blocks: tuple[Block, ...]
    aborted: tuple[AbortedTransaction, ...]
    horizons: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTables:
    """The four tables, as SegmentIndex has them."""

    blocks: tuple[Block, ...]
    aborted: tuple[AbortedTransaction, ...]
    horizons: tuple[tuple[int, int], ...]
    topic_name: str
    partition_count: int
    configs: Mapping[str, str]


def encode_tables(index: SegmentIndex) -> bytes:
    """Return the bytes of blocks, aborted transactions, horizons and topic."""
    topic = {
        "name": index.topic_name,
        "partition_count": index.partition_count,
        "configs": dict(index.configs),
    }
    text = json.dumps(topic, ensure_ascii=False, sort_keys=True).encode()
    return b"".join(
        (
            _COUNT.pack(len(index.blocks)),
            *(
                _BLOCK.pack(
                    *(one.start, one.length, one.first_offset, one.last_offset),
                    *(one.max_timestamp_ms, one.checksum),
                )
                for one in index.blocks
            ),
            _COUNT.pack(len(index.aborted)),
            *(
                _ABORTED.pack(one.producer_id, one.first_offset, one.last_offset)
                for one in index.aborted
            ),
            _COUNT.pack(len(index.horizons)),
            *(_HORIZON.pack(*one) for one in index.horizons),
            _COUNT.pack(len(text)),
            text,
        )
    )


def decode_tables(data: memoryview) -> IndexTables:
    """Return what `encode_tables` has written.

    Raises:
        CorruptObject: the bytes are not exactly those four tables.
    """
    blocks, at = _table(data, 0, _BLOCK)
    aborted, at = _table(data, at, _ABORTED)
    horizons, at = _table(data, at, _HORIZON)
    name, partition_count, configs = _topic(data, at)
    return IndexTables(
        blocks=tuple(
            Block(
                start=start,
                length=length,
                first_offset=first_offset,
                last_offset=last_offset,
                max_timestamp_ms=max_timestamp_ms,
                checksum=checksum,
            )
            for start, length, first_offset, last_offset, max_timestamp_ms, checksum in blocks
        ),
        aborted=tuple(
            AbortedTransaction(
                producer_id=producer_id, first_offset=first_offset, last_offset=last_offset
            )
            for producer_id, first_offset, last_offset in aborted
        ),
        horizons=tuple((base_offset, horizon_ms) for base_offset, horizon_ms in horizons),
        topic_name=name,
        partition_count=partition_count,
        configs=configs,
    )


def check_tiling(index: SegmentIndex, *, start: int, end: int) -> None:
    """Check that the blocks cover bytes `start` to `end`, and all offsets, exactly once.

    Raises:
        CorruptObject: they do not.
    """
    if not index.blocks:
        raise CorruptObject("the index has no block")
    first, last = index.blocks[0], index.blocks[-1]
    bytes_tile = (
        first.start == start
        and last.start + last.length == end
        and all(one.start + one.length == after.start for one, after in pairwise(index.blocks))
        and all(one.length for one in index.blocks)
    )
    offsets_tile = (
        first.first_offset == index.start_offset
        and last.last_offset == index.end_offset
        and all(one.last_offset + 1 == after.first_offset for one, after in pairwise(index.blocks))
        and all(one.first_offset <= one.last_offset for one in index.blocks)
    )
    if not bytes_tile or not offsets_tile:
        raise CorruptObject("the blocks of the index do not lie side by side")


def _table(data: memoryview, at: int, row: struct.Struct) -> tuple[Sequence[tuple[int, ...]], int]:
    """Return the rows of the table at byte `at`, and where it ends."""
    count, at = _count(data, at)
    end = at + count * row.size
    if end > len(data):
        raise CorruptObject(f"the index has no room for a table of {count} rows")
    return list(row.iter_unpack(data[at:end])), end


def _count(data: memoryview, at: int) -> tuple[int, int]:
    if at + _COUNT.size > len(data):
        raise CorruptObject("the index ends within a table")
    return _COUNT.unpack_from(data, at)[0], at + _COUNT.size


def _topic(data: memoryview, at: int) -> tuple[str, int, dict[str, str]]:
    length, at = _count(data, at)
    if at + length != len(data):
        raise CorruptObject(f"{len(data) - at} bytes of the index are left for a topic of {length}")
    try:
        topic = json.loads(bytes(data[at:]))
        name, count, configs = topic["name"], topic["partition_count"], topic["configs"]
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptObject(f"the topic in the index cannot be read: {error}") from error
    if not (isinstance(name, str) and isinstance(count, int) and isinstance(configs, dict)):
        raise CorruptObject("the topic in the index lacks its name, partitions or configs")
    return name, count, {str(key): str(value) for key, value in configs.items()}
