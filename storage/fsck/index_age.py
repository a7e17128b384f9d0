"""Whether the index is as new as the store, which a broker asks before it goes on with both.

The store can tell: an object says which offsets the ones before it were given, and ends of
transactions; a built segment, which ones it has. They were durable in Postgres when they were
written there. So if a log ends before them, Postgres has forgotten them: somebody put a backup in
its place, or a standby took over that lagged. What was committed since has no row, or one that is
pending: only that is looked into, and of that the latest, all at once, for a broker that starts
waits for it. Of a large store only a part is listed; uploads are listed in no order of time, so
that any thousands of them tell as much.
"""

import asyncio
from typing import Final

from protocol.ids import Partition
from storage import segment, wal_index
from storage.bad_answers import read_thrice
from storage.errors import BadObject, MetadataWentBack
from storage.fsck.fsck_objects import PAGE
from storage.fsck.index_tail import read_tail
from storage.metadata.port import MetadataStore
from storage.objects.port import ObjectStore, StoredObject

PAGES: Final = 5
LOOKED_INTO: Final = 16

LogEnds = dict[Partition, int]


async def check_index_age(metadata: MetadataStore, objects: ObjectStore) -> None:
    """Check that no log ends before offsets of which the store says that they were given.

    Raises:
        MetadataWentBack: one does.
        MetadataUnavailable, ObjectStoreUnavailable: no answer; retrying is safe.
    """
    await asyncio.gather(*(_check_under(metadata, objects, one) for one in ("wal/", "topics/")))


async def _check_under(metadata: MetadataStore, objects: ObjectStore, prefix: str) -> None:
    latest = await _latest_uncommitted(metadata, objects, prefix)
    told = await asyncio.gather(*(_told_ends_or_none(objects, stored) for stored in latest))
    offsets = await metadata.partition_offsets(list({one for ends in told for one in ends}))
    for stored, ends in zip(latest, told, strict=True):
        for partition, end_offset in ends.items():
            if partition in offsets and offsets[partition].high_watermark < end_offset:
                raise MetadataWentBack(
                    f"the metadata database is older than the object store: partition "
                    f"{partition.index} of topic {partition.topic_id} ends at "
                    f"{offsets[partition].high_watermark:,} in it, and {stored.path} tells of "
                    f"offset {end_offset - 1:,}"
                )


async def _latest_uncommitted(
    metadata: MetadataStore, objects: ObjectStore, prefix: str
) -> list[StoredObject]:
    found: list[StoredObject] = []
    page: list[StoredObject] = []
    pages = 0
    async for stored in objects.list(prefix):
        page.append(stored)
        if len(page) == PAGE:
            found += await _uncommitted(metadata, page)
            page, pages = [], pages + 1
            if pages == PAGES:
                break
    found += await _uncommitted(metadata, page)
    return sorted(found, key=lambda stored: stored.modified_ms)[-LOOKED_INTO:]


async def _uncommitted(metadata: MetadataStore, page: list[StoredObject]) -> list[StoredObject]:
    """Ask for the rows of what was listed: a row comes before its object."""
    if not page:
        return []
    paths = await metadata.uncommitted_objects([stored.path for stored in page])
    return [stored for stored in page if stored.path in paths]


async def _told_ends_or_none(objects: ObjectStore, stored: StoredObject) -> LogEnds:
    """Return what an object says, if it can be read, again after a moment: it may be the only one.

    One that is archived, or damaged, keeps nobody from a start.
    """
    try:
        return await read_thrice(lambda _: _told_ends(objects, stored), (BadObject,))
    except BadObject:
        return {}


async def _told_ends(objects: ObjectStore, stored: StoredObject) -> LogEnds:
    """Return where logs have to end at least, by what an object says.

    Raises:
        BadObject: cut short, none of ours, not given out, or gone meanwhile.
    """
    if stored.path.startswith("topics/"):
        data = await read_tail(objects, stored, segment.FOOTER_BYTES, segment.parse_index_length)
        built = segment.parse_index(data)
        return {Partition(built.topic_id, built.partition): built.end_offset + 1}
    data = await read_tail(objects, stored, wal_index.FOOTER_BYTES, wal_index.parse_index_length)
    index = wal_index.parse_index(data)
    told = [
        *((topic, partition, max(offsets)) for topic, partition, _, offsets in index.places),
        *((one.topic, one.partition, one.offset) for one in index.endings),
    ]
    ends: LogEnds = {}
    for topic, number, offset in told:
        partition = Partition(index.topics[topic][0], number)
        ends[partition] = max(ends.get(partition, 0), offset + 1)
    return ends
