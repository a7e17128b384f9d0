"""What the broker has to do after an event, in this order."""

from dataclasses import dataclass

from coordinator.answers import Answer
from coordinator.events import Token
from coordinator.snapshots import GroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """Write the group; what follows waits until that is durable. A later save holds all of it."""

    group: GroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer a request, of this event or parked by an earlier one. Each is answered once."""

    token: Token
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTimer:
    """Send `TimerFired` at `deadline_ms`; it replaces the deadline before it. None: no timer."""

    deadline_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Tell the log that a member was removed, since it did not do something in time."""

    member_id: str
    reason: str


Effect = Save | Reply | ArmTimer | Expired
