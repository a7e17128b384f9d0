"""Rows as an object of the log: record batches of several partitions, and an index behind them.

It is what a broker's writer stores (storage/wal_index.py), so all that reads, builds, checks and
recovers objects takes these, too.

Timestamps of topics with LogAppendTime are those of this moment: the log gets the rows later, when
the job commits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from uuid import UUID

import crc32c
import numpy as np

from protocol.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
)
from protocol.compression import Codec, compress
from protocol.ids import Partition
from spark.sinks.direct_chunks import Chunk, Run
from spark.sinks.direct_columns import UnfitRows
from spark.sinks.direct_records import (
    Longs,
    Payloads,
    Rows,
    cut,
    encode,
    header_blocks,
    record_bounds,
)
from storage.metadata.port import BatchCommit
from storage.objects.port import Buffer
from storage.wal_index import UNKNOWN_OFFSET, WalIndex, WalRun, encode_index

_LOG_EPOCH: Final = 0  # no log is ever truncated, so its batches have one leader epoch (KIP-101)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What an object says of its writer.

    Attributes:
        writer_id: of one attempt of a task.
        sequence: of the object among that writer's.
        batch_bytes: of a record batch before compression.
    """

    writer_id: UUID
    sequence: int
    now_ms: int
    batch_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedObject:
    """An object that can be stored.

    Attributes:
        parts: its bytes, to be put one behind the other.
        batches: what is in it, as it is committed.
    """

    parts: list[Buffer]
    size: int
    batches: tuple[BatchCommit, ...]


def seal(chunk: Chunk, about: Seal) -> SealedObject:
    """Encode, compress and index a chunk.

    Raises:
        UnfitRows: a record is larger than its topic takes.
    """
    rows, runs = chunk.rows, chunk.runs
    headers = header_blocks(rows.headers)
    limits = [min(about.batch_bytes, run.rules.max_message_bytes) - HEADER_BYTES for run in runs]
    bounds = record_bounds(rows, headers)
    firsts = cut(bounds, [(run.start, run.end) for run in runs], limits)
    payloads = encode(rows, headers, firsts)
    ends = np.append(firsts[1:], len(rows))
    parts: list[Buffer] = []
    batches: list[BatchCommit] = []
    size = 0
    for run, of_run in _by_run(runs, firsts, ends):
        for first, end in of_run:
            header, payload = _batch(run, rows, payloads, first, end, about.now_ms)
            parts += (header, payload)
            fields = BatchHeader._make(HEADER.unpack(header))
            batches.append(
                BatchCommit(
                    partition=Partition(run.rules.topic.topic_id, run.partition),
                    start=size,
                    length=fields.size,
                    record_count=fields.record_count,
                    max_timestamp_ms=fields.max_timestamp_ms,
                )
            )
            size += fields.size
    index = encode_index(_index(runs, batches, about))
    parts.append(index)
    return SealedObject(parts=parts, size=size + len(index), batches=tuple(batches))


def _by_run(
    runs: Sequence[Run], firsts: Longs, ends: Longs
) -> Iterator[tuple[Run, list[tuple[int, int]]]]:
    """Yield the batches of each run: first row, and one past the last."""
    edges = np.searchsorted(firsts, [*(run.start for run in runs), firsts[-1] + 1]).tolist()
    for run, (begin, stop) in zip(runs, pairwise(edges), strict=True):
        yield run, list(zip(firsts[begin:stop].tolist(), ends[begin:stop].tolist(), strict=True))


def _batch(
    run: Run, rows: Rows, payloads: Payloads, first: int, end: int, now_ms: int
) -> tuple[bytes, Buffer]:
    """Return the header and the payload of a batch."""
    rules = run.rules
    payload: Buffer = payloads.data[int(payloads.offsets[first]) : int(payloads.offsets[end])]
    codec = rules.codec
    if codec is not Codec.NONE:
        smaller = compress(codec, payload, level=rules.level)
        codec, payload = (codec, smaller) if len(smaller) < len(payload) else (Codec.NONE, payload)
    size = HEADER_BYTES + len(payload)
    if size > rules.max_message_bytes:
        raise UnfitRows(
            f"a record of {size} bytes for partition {run.partition} of topic {rules.topic.name};"
            f" it takes max.message.bytes={rules.max_message_bytes}"
        )
    times = rows.timestamps_ms[first:end]
    fields = BatchHeader(
        base_offset=0,
        batch_length=size - LENGTH_FIELD_END,
        leader_epoch=_LOG_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TIMESTAMP_TYPE_BIT if rules.log_append_time else 0),
        last_offset_delta=end - first - 1,
        base_timestamp_ms=int(times[0]),
        max_timestamp_ms=now_ms if rules.log_append_time else int(times.max()),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=end - first,
    )
    checked = HEADER.pack(*fields)[CRC_START:]
    return HEADER.pack(
        *fields._replace(crc=crc32c.crc32c(payload, crc32c.crc32c(checked)))
    ), payload


def _index(runs: Sequence[Run], batches: Sequence[BatchCommit], about: Seal) -> WalIndex:
    topics: list[tuple[UUID, str]] = []
    of_runs: list[WalRun] = []
    at = 0
    for run in runs:
        topic = run.rules.topic
        if not topics or topics[-1][0] != topic.topic_id:
            topics.append((topic.topic_id, topic.name))
        count, length, latest, start = 0, 0, -1, batches[at].start
        while count < run.end - run.start:
            count += batches[at].record_count
            length += batches[at].length
            latest = max(latest, batches[at].max_timestamp_ms)
            at += 1
        epoch = topic.leader_epochs[run.partition]
        of_runs.append(
            WalRun(
                *(len(topics) - 1, run.partition, start, length, count, UNKNOWN_OFFSET, epoch),
                latest,
            )
        )
    return WalIndex(
        writer_id=about.writer_id,
        sequence=about.sequence,
        written_ms=about.now_ms,
        topics=tuple(topics),
        runs=tuple(of_runs),
    )
