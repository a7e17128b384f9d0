"""What objects without a row have: where the logs of their records would be."""

from collections.abc import Mapping

from protocol.ids import Partition
from storage import segment, wal_index
from storage.bad_answers import read_thrice
from storage.errors import BadObject, CorruptObject, ObjectUnreadable
from storage.fsck.index_tail import read_tail
from storage.objects.port import ObjectStore, StoredObject

Extents = Mapping[Partition, tuple[int, int]]
"""The first offset, and one past the last."""


class OrphanNeeded(Exception):
    """An object without a row may be all that is left of something; the message says of what.

    Attributes:
        fix: what can be done about it.
    """

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


async def extents_of(objects: ObjectStore, orphan: StoredObject) -> Extents:
    """Return which offsets its records have, as far as it knows; none if nobody can tell.

    Raises:
        OrphanNeeded: it is a segment, and cannot be read; or the store does not give it out.
        BadObject, ObjectStoreUnavailable: no answer.
    """
    try:
        return await read_thrice(lambda _: _read(objects, orphan), (BadObject,))
    except (CorruptObject, ObjectUnreadable) as error:
        if is_segment(orphan) or isinstance(error, ObjectUnreadable):
            raise OrphanNeeded(
                f"{orphan.path} has no row, and cannot be read: {error}",
                fix=(
                    "if it is of no use, take it out of the store yourself; else put a copy there "
                    "that can be read, and rebuild the index: streamctl recover"
                ),
            ) from error
        return {}  # an upload that was cut short, or none of ours: no log needs it


def is_segment(orphan: StoredObject) -> bool:
    """Return whether it lies where built segments do."""
    return orphan.path.startswith("topics/")


async def _read(objects: ObjectStore, orphan: StoredObject) -> Extents:
    if is_segment(orphan):
        data = await read_tail(objects, orphan, segment.FOOTER_BYTES, segment.parse_index_length)
        found = segment.parse_index(data)
        partition = Partition(found.topic_id, found.partition)
        return {partition: (found.start_offset, found.end_offset + 1)}
    data = await read_tail(objects, orphan, wal_index.FOOTER_BYTES, wal_index.parse_index_length)
    index = wal_index.parse_index(data)
    extents: dict[Partition, tuple[int, int]] = {}
    for run in index.runs:
        if run.expected_offset != wal_index.UNKNOWN_OFFSET:
            partition = Partition(index.topics[run.topic][0], run.partition)
            end_offset = run.expected_offset + run.record_count
            first, last = extents.get(partition, (run.expected_offset, 0))
            extents[partition] = (min(first, run.expected_offset), max(last, end_offset))
    return extents
