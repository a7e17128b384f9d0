"""A member of a consumer group (KIP-848), and how it is written down."""

import base64
import hashlib
import json
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self
from uuid import UUID

from coordinator.events import Protocol
from coordinator.subscriptions import Subscription
from protocol.ids import Partition

JOINING_EPOCH: Final = 0
LEAVING_STATIC_EPOCH: Final = -2

MANY_NAMES: Final = 100
"""A set of more names is written down once for all members that have it in common. (Fewer are with
each member, where older versions look for them.)"""

NO_SUBSCRIPTION: Final = Subscription()
NO_PARTITIONS: Final[frozenset[Partition]] = frozenset()


class MemberState(StrEnum):
    """How far a member is on the way to its target."""

    STABLE = "stable"
    UNREVOKED_PARTITIONS = "unrevoked"
    """It was told to give up partitions and did not say yet that it did."""
    UNRELEASED_PARTITIONS = "unreleased"
    """It waits for partitions that others have not given up yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What is known of a member that speaks the classic protocol in a consumer group.

    Attributes:
        protocols: as in its last JoinGroup; their metadata are ConsumerProtocolSubscriptions.
    """

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """All that must survive a change of coordinator.

    Attributes:
        rebalance_timeout_ms: how long it may take to give up partitions.
        server_assignor: the assignor it asks for, if any.
        classic: None if it speaks the consumer protocol.
        principal: the user whose rights decide what a pattern gives it; None if nobody wrote down
            who that is.
        member_epoch: of the target that it has reached; -2 while a static member is away.
        previous_epoch: the one before; a member whose answer got lost comes back with it.
        assigned: what it may hold; pending_revocation: what it has yet to give up. Nobody else
            gets any of these.
        target: what it shall hold.
        held: of what it may hold, that which it has held since its previous epoch. Not written
            down: after a change of coordinator it counts as held since the present one.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    principal: str | None = None
    rebalance_timeout_ms: int = -1
    subscription: Subscription = NO_SUBSCRIPTION
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    state: MemberState = MemberState.STABLE
    member_epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    assigned: frozenset[Partition] = NO_PARTITIONS
    pending_revocation: frozenset[Partition] = NO_PARTITIONS
    target: frozenset[Partition] = NO_PARTITIONS
    held: frozenset[Partition] = field(default=NO_PARTITIONS, compare=False)

    def may_believe_in(self, epoch: int) -> bool:
        """Whether it was at that epoch last, and may not have heard of its present one yet."""
        return JOINING_EPOCH < epoch == self.previous_epoch < self.member_epoch

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def replaced_by(self, member_id: str) -> Self:
        """Return a static member's new incarnation: it has all that the old one had, but joins."""
        return replace(
            self, member_id=member_id, member_epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH
        )

    def to_json(self) -> str:
        """Write it down; equal members give equal texts."""
        subscription, visible = self.subscription, self.subscription.visible
        has_many = len(subscription.names) > MANY_NAMES
        document = {
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "rack_id": self.rack_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "principal": self.principal,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": None if has_many else sorted(subscription.names),
            "subscribed_topics": digest_of(subscription.names) if has_many else None,
            "subscribed_topic_regex": subscription.pattern,
            "visible_topics": None if visible is None else digest_of(visible),
            "server_assignor": self.server_assignor,
            "classic": None if self.classic is None else _classic_to_json(self.classic),
            "state": self.state,
            "member_epoch": self.member_epoch,
            "previous_epoch": self.previous_epoch,
            "assigned": _partitions_to_json(self.assigned),
            "pending_revocation": _partitions_to_json(self.pending_revocation),
            "target": _partitions_to_json(self.target),
        }
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, document: Mapping[str, Any], sets: Mapping[str, frozenset[str]]) -> Self:
        """Read what `to_json` wrote, which names `shared_sets` by `digest_of`."""
        classic, seen = document["classic"], document.get("visible_topics")
        names = document["subscribed_topic_names"]
        return cls(
            member_id=document["member_id"],
            instance_id=document["instance_id"],
            rack_id=document["rack_id"],
            client_id=document["client_id"],
            client_host=document["client_host"],
            principal=document.get("principal"),
            rebalance_timeout_ms=document["rebalance_timeout_ms"],
            subscription=Subscription(
                sets[document["subscribed_topics"]] if names is None else frozenset(names),
                document["subscribed_topic_regex"],
                None if seen is None else sets[seen],
            ),
            server_assignor=document["server_assignor"],
            classic=None if classic is None else _classic_from_json(classic),
            state=MemberState(document["state"]),
            member_epoch=document["member_epoch"],
            previous_epoch=document["previous_epoch"],
            assigned=_partitions_from_json(document["assigned"]),
            pending_revocation=_partitions_from_json(document["pending_revocation"]),
            target=_partitions_from_json(document["target"]),
        )


def shared_sets(subscription: Subscription) -> Iterator[frozenset[str]]:
    """Yield the sets of topics that are written down once for all members."""
    if len(subscription.names) > MANY_NAMES:
        yield subscription.names
    if subscription.visible is not None:
        yield subscription.visible


def digest_of(names: frozenset[str]) -> str:
    """Return what stands for a set of topics; computed once, while that is there."""
    digest = _DIGESTS.get(names)
    if digest is None:
        written = json.dumps(sorted(names)).encode()
        digest = _DIGESTS[names] = hashlib.blake2b(written, digest_size=8).hexdigest()
    return digest


_DIGESTS: Final = weakref.WeakKeyDictionary[frozenset[str], str]()


def _classic_to_json(classic: ClassicMemberMetadata) -> dict[str, Any]:
    return {
        "session_timeout_ms": classic.session_timeout_ms,
        "protocols": [
            [protocol.name, base64.b64encode(protocol.metadata).decode()]
            for protocol in classic.protocols
        ],
    }


def _classic_from_json(document: Mapping[str, Any]) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=document["session_timeout_ms"],
        protocols=tuple(
            Protocol(name=name, metadata=base64.b64decode(metadata))
            for name, metadata in document["protocols"]
        ),
    )


def _partitions_to_json(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    indexes = defaultdict[UUID, list[int]](list)
    for topic_id, index in partitions:
        indexes[topic_id].append(index)
    return {str(topic_id): sorted(indexes[topic_id]) for topic_id in sorted(indexes)}


def _partitions_from_json(document: Mapping[str, list[int]]) -> frozenset[Partition]:
    return frozenset(
        Partition(UUID(topic_id), index)
        for topic_id, indexes in document.items()
        for index in indexes
    )
