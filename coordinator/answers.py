"""What members are told. Handlers in broker/apis give these the shape of a wire version."""

from collections.abc import Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from protocol.ids import Partition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader of the group sees it, with the metadata of the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """To JoinGroup.

    Attributes:
        members: only for the leader, who assigns; empty for everybody else.
        skip_assignment: the leader came back and its old assignment stands (KIP-814).
    """

    error_code: ErrorCode = ErrorCode.none
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    member_id: str = ""
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """To SyncGroup."""

    error_code: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """To Heartbeat of the classic protocol."""

    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """What became of one who wanted to leave."""

    member_id: str
    instance_id: str | None
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """To LeaveGroup; one entry for each member named, in order."""

    members: Sequence[LeftMember]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswer:
    """To ConsumerGroupHeartbeat (KIP-848).

    Attributes:
        assignment: what the member may hold now; None if it did not change.
    """

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Sequence[Partition] | None = None


Answer = JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer | ConsumerHeartbeatAnswer
