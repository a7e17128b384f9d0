"""What `streamctl segment dump` prints: each line as text, and as the JSON object of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from protocol.batch import BatchHeader
from protocol.compression import Codec
from protocol.control_batch import read_end_marker
from protocol.records import Record
from storage.segment_index import Block, SegmentIndex
from storage.wal_index import NOT_APPENDED, WalEnding, WalIndex, WalPlaces, WalRun
from streamctl.output import Json, counted
from streamctl.printable import iso_time, json_bytes, printable, printable_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output.

    Attributes:
        text: for people.
        values: for programs; "type" tells what it is.
    """

    text: str
    values: dict[str, Json]


def segment_lines(index: SegmentIndex, *, size: int, index_length: int) -> Iterator[Line]:
    """Yield what a segment says of itself, up to its blocks."""
    name = printable_text(index.topic_name)
    configs = ", ".join(f"{key}={value}" for key, value in sorted(index.configs.items()))
    yield Line(
        text=f"segment of {name}, partition {index.partition}: offsets {index.start_offset} to "
        f"{index.end_offset}, latest {_time(index.max_timestamp_ms)}\n"
        f"  {size:,} bytes, {index_length:,} of them index, "
        f"{counted(len(index.blocks), 'block')}\n"
        f"  topic {index.topic_id}, {counted(index.partition_count, 'partition')}"
        + (f", {printable_text(configs)}" if configs else ""),
        values={
            "type": "segment",
            "topic": index.topic_name,
            "topic_id": str(index.topic_id),
            "partition_count": index.partition_count,
            "configs": dict(index.configs),
            "partition": index.partition,
            "start_offset": index.start_offset,
            "end_offset": index.end_offset,
            "max_timestamp_ms": index.max_timestamp_ms,
            "size": size,
            "index_length": index_length,
        },
    )
    for one in index.aborted:
        yield Line(
            text=f"  aborted: producer {one.producer_id}, offsets {one.first_offset} to "
            f"{one.last_offset}",
            values={
                "type": "aborted",
                "producer_id": one.producer_id,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
            },
        )


def wal_lines(index: WalIndex, *, size: int, index_length: int) -> Iterator[Line]:
    """Yield what an object of a writer says of itself, up to its runs."""
    yield Line(
        text=f"object {index.sequence} of writer {index.writer_id}, "
        f"written {_time(index.written_ms)}\n"
        f"  {size:,} bytes, {index_length:,} of them index, {counted(len(index.runs), 'run')} of "
        f"{counted(len(index.topics), 'topic')}",
        values={
            "type": "wal",
            "writer_id": str(index.writer_id),
            "sequence": index.sequence,
            "written_ms": index.written_ms,
            "topics": [{"id": str(one), "name": name} for one, name in index.topics],
            "size": size,
            "index_length": index_length,
        },
    )


def block_line(block: Block) -> Line:
    """Return a block of a segment."""
    return Line(
        text=f"block at byte {block.start}: {block.length:,} bytes, offsets {block.first_offset} "
        f"to {block.last_offset}, latest {_time(block.max_timestamp_ms)}",
        values={
            "type": "block",
            "start": block.start,
            "length": block.length,
            "first_offset": block.first_offset,
            "last_offset": block.last_offset,
            "max_timestamp_ms": block.max_timestamp_ms,
            "checksum": block.checksum,
        },
    )


def run_line(run: WalRun, topic_id: UUID, name: str) -> Line:
    """Return a partition's run in an object of a writer."""
    shown = printable_text(name) if name else f"(deleted, {topic_id})"
    return Line(
        text=f"run at byte {run.start}: {shown}, partition {run.partition}, {run.length:,} bytes, "
        f"{counted(run.record_count, 'record')}, leader epoch {run.leader_epoch}, "
        f"latest {_time(run.max_timestamp_ms)}",
        values={
            "type": "run",
            "topic": name,
            "topic_id": str(topic_id),
            "partition": run.partition,
            "start": run.start,
            "length": run.length,
            "record_count": run.record_count,
            "expected_offset": run.expected_offset if run.expected_offset >= 0 else None,
            "leader_epoch": run.leader_epoch,
            "max_timestamp_ms": run.max_timestamp_ms,
        },
    )


def places_line(places: WalPlaces, topic_id: UUID, name: str) -> Line:
    """Return what an object of a writer tells of an earlier one."""
    _, partition, sequence, base_offsets = places
    shown = printable_text(name) if name else f"(deleted, {topic_id})"
    offsets: list[Json] = [None if one == NOT_APPENDED else one for one in base_offsets]
    words = ["not in the log" if one is None else f"at {one}" for one in offsets]
    return Line(
        text=f"  object {sequence}'s batches of {shown}, partition {partition}: {', '.join(words)}",
        values={
            "type": "places",
            "topic": name,
            "topic_id": str(topic_id),
            "partition": partition,
            "sequence": sequence,
            "base_offsets": offsets,
        },
    )


def ending_line(ending: WalEnding, topic_id: UUID, name: str) -> Line:
    """Return what an object of a writer tells of the end of a transaction."""
    shown = printable_text(name) if name else f"(deleted, {topic_id})"
    kind = "commit" if ending.committed else "abort"
    return Line(
        text=f"  {kind} marker of producer {ending.producer_id} epoch {ending.producer_epoch} in "
        f"{shown}, partition {ending.partition}: at {ending.offset}",
        values={
            "type": "ending",
            "topic": name,
            "topic_id": str(topic_id),
            "partition": ending.partition,
            "offset": ending.offset,
            "producer_id": ending.producer_id,
            "producer_epoch": ending.producer_epoch,
            "marker": kind,
            "timestamp_ms": ending.timestamp_ms,
        },
    )


def batch_line(
    batch: memoryview,
    header: BatchHeader,
    *,
    start: int,
    placed: bool,
    expected_offset: int | None,
    horizon_ms: int | None,
) -> Line:
    """Return a batch; one of a writer's object is not `placed`, it has no offset in itself.

    Raises:
        InvalidRecords: a control batch that ends no transaction.
    """
    last_offset = header.base_offset + header.last_offset_delta
    marker = read_end_marker(batch) if header.is_control and header.record_count else None
    ending = None if marker is None else "commit" if marker.committed else "abort"
    codec = _codec(header.codec)
    if placed:
        place = f"{header.base_offset} to {last_offset}"
    else:
        place = "offset unknown" if expected_offset is None else f"expected at {expected_offset}"
    words = [
        place,
        counted(header.record_count, "record"),
        f"{len(batch):,} bytes",
        codec,
        f"{_time(header.max_timestamp_ms)}{' (append time)' if header.is_log_append_time else ''}",
        f"leader epoch {header.leader_epoch}",
    ]
    if header.producer_id >= 0:
        words.append(f"producer {header.producer_id} epoch {header.producer_epoch}")
        words += [f"sequence {header.base_sequence}"] if header.base_sequence >= 0 else []
    words += ["transactional"] if header.is_transactional else []
    words += [f"{ending} marker"] if ending else []
    words += [] if horizon_ms is None else [f"delete horizon {_time(horizon_ms)}"]
    return Line(
        text=f"  {', '.join(words)}",
        values={
            "type": "batch",
            "start": start,
            "length": len(batch),
            "base_offset": header.base_offset if placed else None,
            "last_offset": last_offset if placed else None,
            "expected_offset": expected_offset,
            "record_count": header.record_count,
            "codec": codec,
            "timestamp_type": "log-append" if header.is_log_append_time else "create",
            "base_timestamp_ms": header.base_timestamp_ms,
            "max_timestamp_ms": header.max_timestamp_ms,
            "leader_epoch": header.leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional,
            "control": header.is_control,
            "marker": ending,
            "delete_horizon_ms": horizon_ms,
        },
    )


def record_line(record: Record, header: BatchHeader, *, placed: bool) -> Line:
    """Return a record; in a batch that is not `placed` it counts from the start of the batch."""
    timestamp_ms = header.base_timestamp_ms + record.timestamp_delta_ms
    if header.is_log_append_time:
        timestamp_ms = header.max_timestamp_ms
    offset = header.base_offset + record.offset_delta if placed else None
    place = f"+{record.offset_delta}" if offset is None else str(offset)
    words = [place, _time(timestamp_ms), printable(record.key), printable(record.value)]
    words += [f"{printable_text(name)}={printable(value)}" for name, value in record.headers]
    return Line(
        text=f"    {'  '.join(words)}",
        values={
            "type": "record",
            "offset": offset,
            "offset_delta": record.offset_delta,
            "timestamp_ms": timestamp_ms,
            "key": json_bytes(record.key),
            "value": json_bytes(record.value),
            "headers": [
                {"name": name, "value": json_bytes(value)} for name, value in record.headers
            ],
        },
    )


def _time(timestamp_ms: int) -> str:
    return iso_time(None if timestamp_ms == -1 else timestamp_ms)


def _codec(codec: int) -> str:
    return Codec(codec).name.lower() if codec in set(Codec) else f"codec {codec}"
