"""Deadlines of a group and its members, behind the group's single timer."""

from enum import Enum
from typing import Final

from coordinator.effects import ArmTimer

THE_GROUP: Final = ""
"""Stands for a member id in deadlines of the group itself."""


class Deadline(Enum):
    """What a member has to do in time; or the group, if it is THE_GROUP's."""

    SESSION = "the session timed out"
    REBALANCE = "partitions were not revoked within the rebalance timeout"
    JOIN = "a classic member did not join again within the rebalance timeout"
    SYNC = "a classic member did not sync within the rebalance timeout"
    ASSIGNMENT = "the group may be assigned anew"


class Deadlines:
    """Moving one deadline costs nothing: the timer stays where it is and finds out when it fires.

    The timer is armed anew only for an earlier deadline, so heartbeats need no effect. When it
    fires, it looks through all members; that is about once in a session timeout.
    """

    def __init__(self) -> None:
        self._at_ms: dict[tuple[str, Deadline], int] = {}
        self._armed_ms: int | None = None
        self._stale = False

    def set(self, member_id: str, deadline: Deadline, at_ms: int) -> None:
        self._at_ms[member_id, deadline] = at_ms
        if self._armed_ms is None or at_ms < self._armed_ms:
            self._armed_ms = at_ms
            self._stale = True

    def is_set(self, member_id: str, deadline: Deadline) -> bool:
        return (member_id, deadline) in self._at_ms

    def cancel(self, member_id: str, deadline: Deadline) -> None:
        self._at_ms.pop((member_id, deadline), None)

    def forget(self, member_id: str) -> None:
        """Cancel all deadlines of a member."""
        for deadline in Deadline:
            self.cancel(member_id, deadline)
        if not self._at_ms and self._armed_ms is not None:
            self._armed_ms = None
            self._stale = True

    def fired(self, now_ms: int) -> list[tuple[str, Deadline]]:
        """Return what has passed, and forget it; the timer is to be armed anew."""
        passed = [key for key, at_ms in self._at_ms.items() if at_ms <= now_ms]
        for key in passed:
            del self._at_ms[key]
        self._armed_ms = min(self._at_ms.values(), default=None)
        self._stale = True
        return passed

    def arm(self) -> list[ArmTimer]:
        """Return the effect that sets the timer, if it is not set right already."""
        if not self._stale:
            return []
        self._stale = False
        return [ArmTimer(deadline_ms=self._armed_ms)]
