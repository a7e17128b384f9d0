"""What an object of a writer has: its index, and the headers of all its batches; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.batch import batch_extents, read_header
from protocol.errors import CorruptBatch
from storage import wal_index
from storage.errors import CorruptObject
from storage.objects.port import Owned, StoredObject
from storage.recovery.recover_scratch import FoundBatch
from storage.wal_index import WalIndex, WalRun


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """One run of it.

    Attributes:
        batches: up to one that is damaged: what is behind that in the run has lost its place.
    """

    run: WalRun
    batches: Sequence[FoundBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundUpload:
    """All of it.

    Attributes:
        damage: of its runs; where, and what.
    """

    index: WalIndex
    runs: Sequence[FoundRun]
    damage: Sequence[str]


def parse_upload(stored: StoredObject, data: Owned) -> FoundUpload:
    """Return what an object of a writer has.

    Args:
        stored: where it is.
        data: all of its bytes.

    Raises:
        CorruptObject: nobody knows.
    """
    length = wal_index.parse_index_length(data)
    if not wal_index.FOOTER_BYTES <= length <= len(data):
        raise CorruptObject(f"an index of {length} bytes in an object of {stored.size}")
    view = memoryview(data)
    index = wal_index.parse_index(view[-length:])
    if sum(run.length for run in index.runs) + length != stored.size:
        raise CorruptObject("its index is not of its batches")
    runs: list[FoundRun] = []
    damage: list[str] = []
    for run in index.runs:
        batches: list[FoundBatch] = []
        try:
            _read_batches(stored.path, index, run, view, batches)
        except CorruptBatch as error:
            damage.append(f"the run at byte {run.start}: {error}")
        runs.append(FoundRun(run=run, batches=batches))
    return FoundUpload(index=index, runs=runs, damage=damage)


def _read_batches(
    path: str, index: WalIndex, run: WalRun, view: memoryview, batches: list[FoundBatch]
) -> None:
    """Add the batches of a run.

    Raises:
        CorruptBatch: one is damaged; those before it were added.
    """
    data = view[run.start : run.start + run.length]
    for start, length, record_count in batch_extents(data):
        header = read_header(data, start)
        batches.append(
            FoundBatch(
                leader_epoch=run.leader_epoch,
                writer=index.writer_id.hex,
                sequence=index.sequence,
                path=path,
                byte_start=run.start + start,
                byte_length=length,
                record_count=record_count,
                run_offset=run.expected_offset,
                max_timestamp_ms=header.max_timestamp_ms,
                base_timestamp_ms=header.base_timestamp_ms,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                transactional=int(header.is_transactional),
                crc=header.crc,
            )
        )
