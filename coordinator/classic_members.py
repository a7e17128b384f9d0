"""The members of a classic group: who they are, what they support, who leads."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from coordinator.config import MAX_SAID_BYTES
from coordinator.events import Join, Protocol, Sync
from coordinator.voting import select_protocol


def said_bytes(protocols: Iterable[Protocol]) -> int:
    """Return how much a member says of itself with these protocols."""
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols)


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """One member. It changes in place; only the group's own functions may change it.

    Attributes:
        instance_id: group.instance.id of a static member (KIP-345), else None.
        protocols: best first, as its last JoinGroup had them.
        assignment: what the leader gave it in the last generation that became Stable; opaque.
        expires_ms: when its session ends, unless it is heard of before.
        is_new: its first JoinGroup is parked: it may not even know its member id, so it cannot
            send heartbeats, and if its connection broke it will come again as somebody else.
        parked_join, parked_sync: requests that wait for the others; None if there is none.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Sequence[Protocol]
    assignment: bytes = b""
    expires_ms: int = 0
    is_new: bool = False
    parked_join: Join | None = None
    parked_sync: Sync | None = None

    @property
    def protocol_names(self) -> list[str]:
        return [protocol.name for protocol in self.protocols]

    @property
    def may_expire(self) -> bool:
        """One with a parked request waits for us and not we for it, unless it is new."""
        return self.is_new or (self.parked_join is None and self.parked_sync is None)

    def metadata(self, protocol_name: str) -> bytes:
        """Return what it says under a protocol; empty if it does not support it."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def supports_the_same(self, protocols: Sequence[Protocol]) -> bool:
        """Whether these are its protocols, with the same metadata in the same order."""
        return tuple(self.protocols) == tuple(protocols)

    def heard(self, now_ms: int) -> None:
        """Give it another session; never makes its end earlier."""
        self.expires_ms = max(self.expires_ms, now_ms + self.session_timeout_ms)


class ClassicMembers(Mapping[str, ClassicMember]):
    """The members by member id, in the order in which they joined."""

    def __init__(self, members: Iterable[ClassicMember] = (), leader_id: str | None = None) -> None:
        self._by_id: dict[str, ClassicMember] = {}
        self._id_of_instance: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        self._said_bytes = 0
        self.leader_id = leader_id
        for member in members:
            self.add(member)

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._by_id[member_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def id_of_instance(self, instance_id: str | None) -> str | None:
        """Return the member id of a static member; None if there is no such member."""
        return None if instance_id is None else self._id_of_instance.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Tell whether a request may speak for a member (KIP-345).

        Returns:
            none, fenced_instance_id if another process took the instance id over, or
            unknown_member_id.
        """
        if instance_id is not None:
            current_id = self._id_of_instance.get(instance_id)
            if current_id is not None and current_id != member_id:
                return ErrorCode.fenced_instance_id
            if current_id is None:
                return ErrorCode.unknown_member_id
        return ErrorCode.none if member_id in self._by_id else ErrorCode.unknown_member_id

    def supported_by_all(self, protocols: Iterable[Protocol]) -> bool:
        """Whether every member supports at least one of these protocols."""
        return any(self._supporters[protocol.name] == len(self) for protocol in protocols)

    def may_say(self, protocols: Sequence[Protocol], member: ClassicMember | None) -> bool:
        """Whether a member, or a new one, may say this of itself, beside what the others say."""
        before = 0 if member is None else said_bytes(member.protocols)
        return self._said_bytes - before + said_bytes(protocols) <= MAX_SAID_BYTES

    def add(self, member: ClassicMember) -> None:
        """Add one; the first becomes the leader."""
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._id_of_instance[member.instance_id] = member.member_id
        self._count_protocols(member)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> ClassicMember:
        """Remove one; if it was the leader, the one who has been here longest leads."""
        member = self._by_id.pop(member_id)
        if member.instance_id is not None:
            del self._id_of_instance[member.instance_id]
        self._forget_protocols(member)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._by_id), None)
        return member

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Give a static member another id; it keeps its place, its assignment and the lead."""
        old_id, member.member_id = member.member_id, member_id
        self._by_id = {other.member_id: other for other in self._by_id.values()}
        assert member.instance_id is not None
        self._id_of_instance[member.instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id

    def set_protocols(self, member: ClassicMember, protocols: Sequence[Protocol]) -> None:
        self._forget_protocols(member)
        member.protocols = tuple(protocols)
        self._count_protocols(member)

    def _count_protocols(self, member: ClassicMember) -> None:
        self._said_bytes += said_bytes(member.protocols)
        self._supporters.update(set(member.protocol_names))

    def _forget_protocols(self, member: ClassicMember) -> None:
        self._said_bytes -= said_bytes(member.protocols)
        self._supporters.subtract(set(member.protocol_names))
        self._supporters = +self._supporters  # names come from the wire: keep none without members

    def elect_joined_leader(self) -> bool:
        """Keep the leader if its JoinGroup is parked, else take the first whose is.

        Returns:
            False if nobody joined.
        """
        if self.leader_id is not None and self._by_id[self.leader_id].parked_join is not None:
            return True
        joined = (key for key, member in self._by_id.items() if member.parked_join is not None)
        leader_id = next(joined, None)
        if leader_id is None:
            return False
        self.leader_id = leader_id
        return True

    def select_protocol(self) -> str:
        """Return the protocol that most of them prefer; there has to be a member."""
        return select_protocol([member.protocol_names for member in self._by_id.values()])

    @property
    def joined_count(self) -> int:
        """How many wait with a parked JoinGroup."""
        return sum(member.parked_join is not None for member in self._by_id.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of all members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)
