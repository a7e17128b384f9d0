"""What happens to a group. Times are milliseconds of one clock that never goes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.catalog import Catalog
from protocol.ids import Partition

Token = object
"""Names the request that an event came with; a `Reply` carries it back. Machines only keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One protocol that a classic member can follow (an assignor), and what it says about itself.

    Attributes:
        metadata: opaque, but for subscribed topics of protocol type "consumer".
    """

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """JoinGroup.

    Attributes:
        member_id: empty for one who is new.
        instance_id: group.instance.id of a static member (KIP-345), else None.
        session_timeout_ms: within the broker's limits, which no group needs to know.
        rebalance_timeout_ms: how long the others wait for it to join again.
        needs_member_id: a new dynamic member is first told its id and has to come again with it
            (v4 and later, KIP-394).
        skips_assignment: understands the answer's skip_assignment (v9 and later, KIP-814).
    """

    token: Token
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[Protocol]
    needs_member_id: bool
    skips_assignment: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """SyncGroup.

    Attributes:
        protocol_type, protocol_name: None before v5; else they must be the group's (KIP-559).
        assignments: from the leader, by member id; empty from everybody else.
    """

    token: Token
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Heartbeat of a classic member."""

    token: Token
    generation_id: int
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """One who leaves: by member id, or a static member by its instance id alone."""

    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """LeaveGroup, of one or several members (an admin client removes static ones, KIP-345)."""

    token: Token
    members: Sequence[LeavingMember]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat (KIP-848).

    Attributes:
        member_id: made by the client from v1 on; a v0 client that joins sends none and gets one.
        member_epoch: 0 to join, -1 to leave, -2 for a static member that will be back.
        principal: the user who sends it.
        rebalance_timeout_ms: -1 if it did not change since the last heartbeat.
        subscribed_topic_names, subscribed_topic_regex, server_assignor, rack_id: None if unchanged.
        owned_partitions: what the member holds; None if unchanged.
        catalog: all topics, as they are now.
    """

    token: Token
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    principal: str
    rebalance_timeout_ms: int
    subscribed_topic_names: Sequence[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    owned_partitions: Sequence[Partition] | None
    catalog: Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """Topics were created, deleted or got more partitions."""

    catalog: Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """The deadline of the last `ArmTimer` has come."""


ClassicEvent = Join | Sync | Heartbeat | Leave | TimerFired
ConsumerEvent = ConsumerHeartbeat | TopicsChanged | TimerFired
