"""What a cluster says about its groups, as plain values."""

from dataclasses import dataclass

PartitionName = tuple[str, int]  # topic, partition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group of the list.

    Attributes:
        type: Classic or Consumer (KIP-848).
        state: Kafka's name; None for one that the client library has no word for.
    """

    group_id: str
    type: str
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a group.

    Attributes:
        instance_id: of a static member (KIP-345).
        host: as the broker sees it.
        partitions: what it owns now, sorted.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[PartitionName]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The broker that keeps a group."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group as its coordinator describes it.

    Attributes:
        type: Classic or Consumer (KIP-848).
        state: Kafka's name; None for one that the client library has no word for.
        assignor: who divides the partitions; None while nobody does.
        members: by client id and member id.
    """

    group_id: str
    type: str
    state: str | None
    assignor: str | None
    coordinator: Coordinator | None
    members: list[Member]
