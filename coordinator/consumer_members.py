"""The members of a consumer group, and who may hold which partition."""

from collections.abc import Iterator

from coordinator.consumer_document import write_member
from coordinator.consumer_member import Member
from coordinator.consumer_said import Said
from coordinator.subscriptions import Subscription
from protocol.ids import Partition


class Members:
    """Members by id, in the order in which they came; each partition has one owner at most."""

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._by_instance: dict[str, str] = {}
        self._owners: dict[Partition, str] = {}
        self._documents: dict[str, str] = {}
        self._said = Said()
        self.classic_count = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def by_instance(self, instance_id: str) -> Member | None:
        """Return the static member with this group.instance.id (KIP-345)."""
        member_id = self._by_instance.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def owner_of(self, partition: Partition) -> str | None:
        """Return who may hold the partition, or has yet to give it up."""
        return self._owners.get(partition)

    def has_room(self, member: Member, before: Member | None) -> bool:
        """Whether a member, in place of what it was or a new one, may say this of itself."""
        return self._said.has_room(member, before)

    def put(self, member: Member) -> None:
        """Add a member, or change the one with its id."""
        before = self._by_id.get(member.member_id)
        member = self._said.add(member)
        if before is not None:
            self._forget(before, keep_owned=_owned_alike(before, member))
        if before is None or not _owned_alike(before, member):
            for partitions in (member.assigned, member.pending_revocation):
                for partition in partitions:
                    owner = self._owners.setdefault(partition, member.member_id)
                    assert owner == member.member_id
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member.member_id
        self.classic_count += member.classic is not None

    def remove(self, member_id: str) -> None:
        """Take a member out; what it may hold is free."""
        self._forget(self._by_id.pop(member_id), keep_owned=False)

    def subscriptions(self) -> set[Subscription]:
        return {member.subscription for member in self}

    def document(self, member: Member) -> str:
        """Return one of the members, as it is or was, as JSON; those who stay are written once."""
        if self._by_id.get(member.member_id) is not member:
            return write_member(member)
        document = self._documents.get(member.member_id)
        if document is None:
            document = self._documents[member.member_id] = write_member(member)
        return document

    def _forget(self, member: Member, *, keep_owned: bool) -> None:
        self._documents.pop(member.member_id, None)
        self._said.remove(member)
        self.classic_count -= member.classic is not None
        if self._by_instance.get(member.instance_id or "") == member.member_id:
            del self._by_instance[member.instance_id or ""]
        if not keep_owned:
            for partitions in (member.assigned, member.pending_revocation):
                for partition in partitions:
                    del self._owners[partition]


def _owned_alike(one: Member, other: Member) -> bool:
    return one.assigned is other.assigned and one.pending_revocation is other.pending_revocation
