"""A group as it is kept between brokers."""

from dataclasses import dataclass
from enum import StrEnum


class GroupType(StrEnum):
    """Kafka's names, as ListGroups has them."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"


class GroupState(StrEnum):
    """Kafka's names. Consumer groups have ASSIGNING and RECONCILING instead of REBALANCEs."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """All that a coordinator needs to go on with a group that another one began.

    Attributes:
        protocol_type: of its members ("consumer", "connect"); empty while it never had any.
        generation_id: generation of a classic group, group epoch of a consumer group.
        document: members, assignments and the rest as JSON; machines write and read it, and
            nobody else looks inside. A snapshot that is restored and saved again is equal.
    """

    group_id: str
    group_type: GroupType
    state: GroupState
    protocol_type: str
    generation_id: int
    member_count: int
    document: str
