"""Which record of a partition is the first of a time, or later (KIP-734).

The index leads to a row, that to blocks, those to the record. Blocks whose largest timestamp is
earlier are not read.
"""

from protocol.batch_scan import find_first_at_or_after
from spark.sources.cut import TopicPartition
from spark.sources.log_index import LogIndex
from storage.objects.port import ObjectStore, Owned
from storage.reading.read_plan import piece_of_row, pieces_of_segment
from storage.segment_entry import SegmentEntry
from storage.upkeep.segment_rows import read_index


async def first_offset_at(
    index: LogIndex,
    objects: ObjectStore,
    partition: TopicPartition,
    timestamp_ms: int,
    start_offset: int,
) -> int | None:
    """Return the first offset from `start_offset` on of that timestamp or later; None: none is.

    What the index says of maxima is trusted to rule rows out, never to name a record. Objects of
    rows that were replaced stay for a while (UpkeepConfig.delete_delay_ms); an index that is older
    than that may name some that are gone.

    Raises:
        BadObject, ObjectStoreUnavailable: the record's bytes cannot be read.
        MetadataUnavailable: Postgres gave no answer.
    """
    while True:
        row = await index.row_at_or_after(partition, timestamp_ms, start_offset)
        if row is None:
            return None
        found = await _in_row(objects, row, timestamp_ms, start_offset)
        if found is not None:
            return found
        start_offset = row.end_offset + 1


async def _in_row(
    objects: ObjectStore, row: SegmentEntry, timestamp_ms: int, start_offset: int
) -> int | None:
    if row.index_length:
        pieces = pieces_of_segment(row, await read_index(objects, row), start_offset)
    else:
        pieces = [piece_of_row(row)]
    for piece in pieces:
        if piece.block is not None and piece.block.max_timestamp_ms < timestamp_ms:
            continue
        if row.inline is not None:
            data: Owned = bytearray(row.inline)
        else:
            data = await objects.get(row.path, piece.start, piece.length)
        batches = piece.parse(memoryview(data)).batches
        found = find_first_at_or_after(batches, timestamp_ms, start_offset)
        if found is not None:
            return found.offset
    return None
