"""What DescribeGroups and ConsumerGroupDescribe show."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.snapshots import GroupState
from protocol.ids import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberDescription:
    """Attributes: metadata and assignment are empty unless the group is Stable (as in Kafka)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicDescription:
    """Attributes: protocol_name is empty unless the group is Stable (as in Kafka)."""

    state: GroupState
    protocol_type: str
    protocol_name: str
    members: Sequence[ClassicMemberDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberDescription:
    """One member of a consumer group.

    Its sets are the group's own, and members share them: to put them in order takes long.

    Attributes:
        assignment: what it holds; target_assignment: what it shall hold.
        is_classic: it speaks the classic protocol (an upgrade is under way).
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str | None
    assignment: frozenset[Partition]
    target_assignment: frozenset[Partition]
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDescription:
    """A consumer group (KIP-848)."""

    state: GroupState
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: Sequence[ConsumerMemberDescription]


GroupDescription = ClassicDescription | ConsumerDescription
