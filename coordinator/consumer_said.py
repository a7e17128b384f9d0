"""What the members of a consumer group say of themselves: it is kept, and saved as a whole.

Consumers that match a pattern themselves name all topics that they find, each of them the same
thousands: such a set is in memory once, and counts once. What a classic member names is part of its
protocols, and counts with them.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from coordinator.classic_members import said_bytes
from coordinator.config import MAX_SAID_BYTES
from coordinator.consumer_member import NO_SUBSCRIPTION, Member


class Said:
    """Counts what is said."""

    def __init__(self) -> None:
        self._bytes = 0
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._users = Counter[frozenset[str]]()

    def has_room(self, member: Member, before: Member | None) -> bool:
        """Whether a member, or a new one, may say this, beside what the others say."""
        names, more = _names(member), _own_bytes(member)
        if names not in self._users:
            more += bytes_of(names)
        if before is not None:
            said = _names(before)
            more -= _own_bytes(before)
            if said != names and self._users[said] == 1:
                more -= bytes_of(said)
        return more <= max(MAX_SAID_BYTES - self._bytes, 0)

    def add(self, member: Member) -> Member:
        """Count a member in; return it with the same set of names as others who say it."""
        names = self._sets.setdefault(_names(member), _names(member))
        if names not in self._users:
            self._bytes += bytes_of(names)
        self._users[names] += 1
        self._bytes += _own_bytes(member)
        if member.classic is not None or names is member.subscription.names:
            return member
        return replace(member, subscription=replace(member.subscription, names=names))

    def remove(self, member: Member) -> None:
        """Count a member out."""
        names = _names(member)
        self._bytes -= _own_bytes(member)
        self._users[names] -= 1
        if not self._users[names]:
            self._bytes -= bytes_of(names)
            del self._users[names], self._sets[names]


def bytes_of(texts: Iterable[str]) -> int:
    """Return how long texts are on the wire."""
    return len("".join(texts).encode())


def _names(member: Member) -> frozenset[str]:
    """Return what a member names beside what counts as its own."""
    return NO_SUBSCRIPTION.names if member.classic is not None else member.subscription.names


def _own_bytes(member: Member) -> int:
    says = (
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.subscription.pattern,
    )
    protocols = () if member.classic is None else member.classic.protocols
    return bytes_of(text for text in says if text is not None) + said_bytes(protocols)
