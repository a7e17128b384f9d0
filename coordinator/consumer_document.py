"""A consumer group as a snapshot, and back."""

import base64
import hashlib
import json
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from coordinator.consumer_member import ClassicMemberMetadata, Member, MemberState
from coordinator.events import Protocol
from coordinator.subscriptions import Subscription
from protocol.ids import Partition

MANY_NAMES: Final = 100
"""A set of more names is written down once for all members that have it in common. (Fewer are with
each member, where older versions look for them.)"""


class ConsumerDocument(NamedTuple):
    """What the document of a consumer group says.

    Attributes:
        topics: fingerprint of the topics that the members subscribe to.
    """

    assignment_epoch: int
    topics: str
    members: Sequence[Member]


def write_group(group: ConsumerDocument, write: Callable[[Member], str]) -> str:
    """Write a group down.

    "visible" has the sets of topics that members know by their digests, for their names or for what
    is visible to them: older versions, which wrote the names of each member, look for it there.

    Args:
        group: as it was when its members were these.
        write: `write_member`, or what remembers its texts.
    """
    documents = ",".join(map(write, group.members))
    shared = set[frozenset[str]]().union(*(_shared_sets(one.subscription) for one in group.members))
    sets = {_digest_of(names): sorted(names) for names in shared}
    return (
        f'{{"assignment_epoch":{group.assignment_epoch},"topics":"{group.topics}"'
        f',"visible":{json.dumps(sets, sort_keys=True)},"members":[{documents}]}}'
    )


def read_group(text: str) -> ConsumerDocument:
    """Read what `write_group` wrote."""
    document = json.loads(text)
    sets = {digest: frozenset(names) for digest, names in document.get("visible", {}).items()}
    return ConsumerDocument(
        assignment_epoch=document["assignment_epoch"],
        topics=document["topics"],
        members=[_read_member(member, sets) for member in document["members"]],
    )


def write_member(member: Member) -> str:
    """Write a member down; equal members give equal texts."""
    subscription, visible = member.subscription, member.subscription.visible
    has_many = len(subscription.names) > MANY_NAMES
    document = {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "principal": member.principal,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscribed_topic_names": None if has_many else sorted(subscription.names),
        "subscribed_topics": _digest_of(subscription.names) if has_many else None,
        "subscribed_topic_regex": subscription.pattern,
        "visible_topics": None if visible is None else _digest_of(visible),
        "server_assignor": member.server_assignor,
        "classic": None if member.classic is None else _write_classic(member.classic),
        "state": member.state,
        "member_epoch": member.member_epoch,
        "previous_epoch": member.previous_epoch,
        "assigned": _write_partitions(member.assigned),
        "pending_revocation": _write_partitions(member.pending_revocation),
        "target": _write_partitions(member.target),
    }
    return json.dumps(document, separators=(",", ":"))


def _read_member(document: Mapping[str, Any], sets: Mapping[str, frozenset[str]]) -> Member:
    """Read a member, who names sets of topics by their digests."""
    classic, visible = document["classic"], document.get("visible_topics")
    names = document["subscribed_topic_names"]
    return Member(
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
            None if visible is None else sets[visible],
        ),
        server_assignor=document["server_assignor"],
        classic=None if classic is None else _read_classic(classic),
        state=MemberState(document["state"]),
        member_epoch=document["member_epoch"],
        previous_epoch=document["previous_epoch"],
        assigned=_read_partitions(document["assigned"]),
        pending_revocation=_read_partitions(document["pending_revocation"]),
        target=_read_partitions(document["target"]),
    )


def _shared_sets(subscription: Subscription) -> Iterator[frozenset[str]]:
    """Yield the sets of topics that are written down once for all members."""
    if len(subscription.names) > MANY_NAMES:
        yield subscription.names
    if subscription.visible is not None:
        yield subscription.visible


def _digest_of(names: frozenset[str]) -> str:
    """Return what stands for a set of topics; computed once, while that is there."""
    digest = _DIGESTS.get(names)
    if digest is None:
        written = json.dumps(sorted(names)).encode()
        digest = _DIGESTS[names] = hashlib.blake2b(written, digest_size=8).hexdigest()
    return digest


_DIGESTS: Final = weakref.WeakKeyDictionary[frozenset[str], str]()


def _write_classic(classic: ClassicMemberMetadata) -> dict[str, Any]:
    return {
        "session_timeout_ms": classic.session_timeout_ms,
        "protocols": [
            [protocol.name, base64.b64encode(protocol.metadata).decode()]
            for protocol in classic.protocols
        ],
    }


def _read_classic(document: Mapping[str, Any]) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=document["session_timeout_ms"],
        protocols=tuple(
            Protocol(name=name, metadata=base64.b64decode(metadata))
            for name, metadata in document["protocols"]
        ),
    )


def _write_partitions(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    indexes = defaultdict[UUID, list[int]](list)
    for topic_id, index in partitions:
        indexes[topic_id].append(index)
    return {str(topic_id): sorted(indexes[topic_id]) for topic_id in sorted(indexes)}


def _read_partitions(document: Mapping[str, list[int]]) -> frozenset[Partition]:
    return frozenset(
        Partition(UUID(topic_id), index)
        for topic_id, indexes in document.items()
        for index in indexes
    )
