"""Requests of groups with plain values, over one connection, in any version."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from tests.support.wire import build, milliseconds, request_entities

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
DELETE_GROUPS: Final = 42
OFFSET_DELETE: Final = 47
CONSUMER_GROUP_HEARTBEAT: Final = 68
CONSUMER_GROUP_DESCRIBE: Final = 69
PATIENT_MS: Final = 120_000
"""Longer than a test waits for an answer: what it is about must not come by this being over."""


Offsets = Mapping[int, int] | Mapping[int, tuple[int, str]]
"""What to commit, by partition: the offset, or the offset and a note."""


def subscription(*topics: str) -> bytes:
    """Return the metadata of a member of protocol type "consumer" (its v0)."""
    names = b"".join(len(name).to_bytes(2) + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff"


def join_request(
    group: str,
    member_id: str = "",
    *,
    version: int = 9,
    instance_id: str | None = None,
    session_timeout_ms: int = PATIENT_MS,
    rebalance_timeout_ms: int = PATIENT_MS,
    protocol_type: str = "consumer",
    protocols: Mapping[str, bytes] | None = None,
) -> Any:
    module = request_entities(JOIN_GROUP, version)
    wanted = {"range": subscription()} if protocols is None else protocols
    return build(
        module,
        "JoinGroupRequest",
        group_id=group,
        session_timeout=milliseconds(session_timeout_ms),
        rebalance_timeout=milliseconds(rebalance_timeout_ms),
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=tuple(
            module.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in wanted.items()
        ),
        reason="a test",
    )


def sync_request(
    group: str,
    member_id: str,
    generation_id: int,
    assignments: Mapping[str, bytes] | None = None,
    *,
    version: int = 5,
    instance_id: str | None = None,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
) -> Any:
    module = request_entities(SYNC_GROUP, version)
    return build(
        module,
        "SyncGroupRequest",
        group_id=group,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=tuple(
            module.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assignments or {}).items()
        ),
    )


def heartbeat_request(
    group: str,
    member_id: str,
    generation_id: int,
    *,
    version: int = 4,
    instance_id: str | None = None,
) -> Any:
    return build(
        request_entities(HEARTBEAT, version),
        "HeartbeatRequest",
        group_id=group,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
    )


def leave_request(group: str, *members: tuple[str, str | None], version: int = 5) -> Any:
    """Each of `members` is a member id and an instance id; before v3 there is one member."""
    module = request_entities(LEAVE_GROUP, version)
    if version < 3:
        ((member_id, _),) = members
        return module.LeaveGroupRequest(group_id=group, member_id=member_id)
    return module.LeaveGroupRequest(
        group_id=group,
        members=tuple(
            build(
                module,
                "MemberIdentity",
                member_id=member_id,
                group_instance_id=instance_id,
                reason="done",
            )
            for member_id, instance_id in members
        ),
    )


def commit_request(
    group: str,
    topics: Mapping[str | UUID, Offsets],
    *,
    version: int = 9,
    member_id: str = "",
    generation_id: int = -1,
    instance_id: str | None = None,
    **others: object,
) -> Any:
    module = request_entities(OFFSET_COMMIT, version)
    asked = []
    for topic, offsets in topics.items():
        partitions = []
        for index, wanted in offsets.items():
            offset, note = wanted if isinstance(wanted, tuple) else (wanted, "")
            partitions.append(
                build(
                    module,
                    "OffsetCommitRequestPartition",
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=7,
                    committed_metadata=note,
                )
            )
        asked.append(
            build(
                module,
                "OffsetCommitRequestTopic",
                name=topic,
                topic_id=topic,
                partitions=tuple(partitions),
            )
        )
    return build(
        module,
        "OffsetCommitRequest",
        group_id=group,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=tuple(asked),
        **({"retention_time": milliseconds(-1)} | others),
    )


def fetch_request(
    group: str,
    topics: Mapping[str | UUID, Sequence[int]] | None,
    *,
    version: int = 9,
    member_id: str | None = None,
    member_epoch: int = -1,
    stable: bool = True,
) -> Any:
    """Ask for one group's committed offsets."""
    module = request_entities(OFFSET_FETCH, version)
    kind = "OffsetFetchRequestTopic" if version < 8 else "OffsetFetchRequestTopics"
    asked = topics and tuple(
        build(module, kind, name=topic, topic_id=topic, partition_indexes=tuple(indexes))
        for topic, indexes in topics.items()
    )
    if version < 8:
        return build(
            module, "OffsetFetchRequest", group_id=group, topics=asked, require_stable=stable
        )
    one = build(
        module,
        "OffsetFetchRequestGroup",
        group_id=group,
        topics=asked,
        member_id=member_id,
        member_epoch=member_epoch,
    )
    return module.OffsetFetchRequest(groups=(one,), require_stable=stable)


def consumer_heartbeat_request(
    group: str, member_id: str, member_epoch: int, *, version: int = 1, **said: object
) -> Any:
    """Send what is `said`; a member that joins says all that it has to."""
    values: dict[str, Any] = {
        "group_id": group,
        "member_id": member_id,
        "member_epoch": member_epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": milliseconds(PATIENT_MS if member_epoch == 0 else -1),
        "subscribed_topic_names": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": () if member_epoch == 0 else None,
    }
    module = request_entities(CONSUMER_GROUP_HEARTBEAT, version)
    owned = said.pop("owned", None)
    if isinstance(owned, Mapping):
        values["topic_partitions"] = tuple(
            module.TopicPartitions(topic_id=topic_id, partitions=tuple(indexes))
            for topic_id, indexes in owned.items()
        )
    return build(module, "ConsumerGroupHeartbeatRequest", **(values | said))


def named(api_key: int, version: int, **values: object) -> Any:
    """Build the request of an API from its fields."""
    module = request_entities(api_key, version)
    (name,) = (name for name in dir(module) if name.endswith("Request"))
    return build(module, name, **values)


def codes(response: Any) -> list[int]:
    """Return the error codes of all partitions of a response, in order."""
    return [
        int(partition.error_code) for topic in response.topics for partition in topic.partitions
    ]


def committed(response: Any) -> dict[str | UUID, dict[int, tuple[int, str]]]:
    """Return what the only group of an OffsetFetch response has committed."""
    group = response.groups[0] if hasattr(response, "groups") else response
    return {
        getattr(topic, "name", None) or topic.topic_id: {
            one.partition_index: (one.committed_offset, one.metadata) for one in topic.partitions
        }
        for topic in group.topics
    }


def new_member_id() -> str:
    """Return an id as clients of consumer groups make it from v1 on."""
    return str(uuid4())
