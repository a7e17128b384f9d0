"""Writes of groups as arrays: what goes to sql/queries/group_write.sql and what comes back (D9)."""

from collections.abc import Sequence
from itertools import count, pairwise

from storage.metadata.groups import GroupRecord, GroupWrite, WriteOutcome
from storage.postgres.postgres_arrays import numbers_as_text
from storage.postgres.postgres_text import to_stored


def in_order(writes: Sequence[GroupWrite]) -> list[GroupWrite]:
    """Sort writes as the rows of their groups are locked: by the id as it is stored."""
    ordered = sorted(writes, key=lambda write: to_stored(write.group_id))
    for write, following in pairwise(ordered):
        assert write.group_id != following.group_id, "no group twice"
    return ordered


def to_arguments(writes: Sequence[GroupWrite]) -> list[object]:
    """Turn writes by 90 degrees: a Postgres array per field, from the statement's $1 on.

    Numbers travel as text, and topic ids and metadata, which repeat themselves, once: see
    metadata_commit.to_arguments.
    """
    offsets = [
        (group, partition, committed)
        for group, write in enumerate(writes, start=1)
        for partition, committed in write.offsets.items()
    ]
    topics = dict(zip({partition.topic_id for _, partition, _ in offsets}, count(1), strict=False))
    notes = dict(zip({committed.metadata for _, _, committed in offsets}, count(1), strict=False))
    return [
        [to_stored(write.group_id) for write in writes],
        numbers_as_text([write.owner_epoch for write in writes]),
        *_record_arguments([write.record for write in writes]),
        list(topics),
        [to_stored(note) for note in notes],
        numbers_as_text([group for group, _, _ in offsets]),
        numbers_as_text([topics[partition.topic_id] for _, partition, _ in offsets]),
        numbers_as_text([partition.index for _, partition, _ in offsets]),
        numbers_as_text([committed.offset for _, _, committed in offsets]),
        numbers_as_text([committed.leader_epoch for _, _, committed in offsets]),
        numbers_as_text([notes[committed.metadata] for _, _, committed in offsets]),
    ]


def to_outcome(
    writes: Sequence[GroupWrite], fenced: Sequence[int], unknown: Sequence[int]
) -> WriteOutcome:
    """Name what the database answered in indexes, from 1, into the arrays that it was given."""
    if not fenced and not unknown:
        return WriteOutcome(fenced=frozenset(), unknown=frozenset())
    partitions = [partition for write in writes for partition in write.offsets]
    return WriteOutcome(
        fenced=frozenset(writes[index - 1].group_id for index in fenced),
        unknown=frozenset(partitions[index - 1] for index in unknown),
    )


def _record_arguments(records: Sequence[GroupRecord | None]) -> list[object]:
    return [
        [record and record.group_type for record in records],
        [record and record.state for record in records],
        [record and to_stored(record.protocol_type) for record in records],
        numbers_as_text([record.generation_id if record else 0 for record in records]),
        numbers_as_text([record.member_count if record else 0 for record in records]),
        [record and to_stored(record.document) for record in records],
    ]
