"""Groups between their machines and the store: neither tier knows the other's words."""

from coordinator.snapshots import Document, GroupSnapshot, GroupState, GroupType
from storage.metadata.groups import GroupRecord


def record_of(snapshot: GroupSnapshot) -> GroupRecord:
    """Return a machine's snapshot as it is kept; this writes its document."""
    return GroupRecord(
        group_id=snapshot.group_id,
        group_type=snapshot.group_type.value,
        state=snapshot.state.value,
        protocol_type=snapshot.protocol_type,
        generation_id=snapshot.generation_id,
        member_count=snapshot.member_count,
        document=snapshot.document.text,
    )


def snapshot_of(record: GroupRecord) -> GroupSnapshot:
    """Return what is kept as a machine takes it."""
    return GroupSnapshot(
        group_id=record.group_id,
        group_type=GroupType(record.group_type),
        state=GroupState(record.state),
        protocol_type=record.protocol_type,
        generation_id=record.generation_id,
        member_count=record.member_count,
        document=Document(lambda: record.document),
    )
