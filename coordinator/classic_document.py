"""A classic group as a snapshot, and back."""

import json
from base64 import b64decode, b64encode
from functools import partial
from typing import Any

from coordinator.classic_members import ClassicMember, ClassicMembers
from coordinator.classic_state import ClassicState
from coordinator.config import GroupConfig
from coordinator.effects import Save
from coordinator.events import Protocol
from coordinator.snapshots import Document, GroupSnapshot, GroupType


def save(state: ClassicState) -> Save:
    """Return the effect that makes the group durable as it is now.

    Parked requests and deadlines end with its coordinator. PreparingRebalance is never saved: a new
    coordinator goes on with the generation before.
    """
    assert not state.is_preparing
    snapshot = GroupSnapshot(
        group_id=state.group_id,
        group_type=GroupType.CLASSIC,
        state=state.state,
        protocol_type=state.protocol_type,
        generation_id=state.generation_id,
        member_count=len(state.members),
        document=_document(
            state.members.leader_id,
            state.protocol_name,
            [_member_document(member) for member in state.members.values()],
        ),
    )
    return Save(group=snapshot)


def restored_state(snapshot: GroupSnapshot, config: GroupConfig, now_ms: int) -> ClassicState:
    """Return the group that was saved, with a full session for every member.

    A generation whose assignment was not saved yet waits for SyncGroup of its members anew.
    """
    document = json.loads(snapshot.document.text)
    members = ClassicMembers(
        (_member(entry) for entry in document["members"]), leader_id=document["leader"]
    )
    for member in members.values():
        member.heard(now_ms)
    state = ClassicState(
        group_id=snapshot.group_id,
        config=config,
        state=snapshot.state,
        generation_id=snapshot.generation_id,
        protocol_type=snapshot.protocol_type,
        protocol_name=document["protocol"],
        members=members,
    )
    if state.is_completing:
        state.unsynced = set(members)
        state.sync_deadline_ms = now_ms + max(members.rebalance_timeout_ms, 0)
    return state


def _document(
    leader_id: str | None, protocol_name: str | None, members: list[dict[str, object]]
) -> Document:
    document = {"leader": leader_id, "protocol": protocol_name, "members": members}
    written = partial(json.dumps, document, sort_keys=True, separators=(",", ":"), default=_text)
    return Document(written)


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _member_document(member: ClassicMember) -> dict[str, object]:
    return {
        "id": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [[protocol.name, protocol.metadata] for protocol in member.protocols],
        "assignment": member.assignment,
    }


def _member(entry: dict[str, Any]) -> ClassicMember:
    return ClassicMember(
        member_id=entry["id"],
        instance_id=entry["instance"],
        client_id=entry["client"],
        client_host=entry["host"],
        session_timeout_ms=entry["session_timeout_ms"],
        rebalance_timeout_ms=entry["rebalance_timeout_ms"],
        protocols=tuple(
            Protocol(name=name, metadata=b64decode(metadata))
            for name, metadata in entry["protocols"]
        ),
        assignment=b64decode(entry["assignment"]),
    )
