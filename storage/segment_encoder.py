"""Lays out a built segment (storage/segment.py), batch by batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

import crc32c

from protocol.batch import read_header
from protocol.records import build_batch
from storage.aborted_transaction import AbortedTransaction
from storage.objects.port import Buffer
from storage.segment import HEADER_BYTES, encode_header, encode_index
from storage.segment_index import BLOCK_BYTES, Block, SegmentIndex

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


class SegmentEncoder:
    """Takes the batches of a segment, in order; nothing is copied.

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
        self._parts: list[Buffer] = [encode_header(topic_id, partition)]
        self._next_offset = start_offset
        self._max_timestamp_ms = -1
        self._blocks: list[Block] = []
        self._block_offset = start_offset
        self._block_length = 0
        self._block_timestamp_ms = -1
        self._block_checksum = 0

    def add(self, batch: Buffer) -> None:
        """Take a whole v2 batch that has its base offset; the encoder keeps the buffer.

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
        encoded = encode_index(index, index_start=HEADER_BYTES + self.size)
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
