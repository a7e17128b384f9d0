"""Groups change their protocol while members are there (KIP-848, online migration)."""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from coordinator.catalog import Catalog
from coordinator.classic import ClassicGroup
from coordinator.classic_members import ClassicMember
from coordinator.classic_subscription import CONSUMER_PROTOCOL, UnreadableSubscription
from coordinator.config import GroupConfig
from coordinator.consumer_core import ConsumerCore
from coordinator.consumer_member import ClassicMemberMetadata, Member
from coordinator.consumer_protocol import (
    read_assignment,
    read_subscription,
    to_partitions,
    write_assignment,
)
from coordinator.effects import Effect
from coordinator.refused import Refused
from coordinator.subscriptions import Subscription
from protocol.ids import Partition


def upgraded(
    classic: ClassicGroup, catalog: Catalog, config: GroupConfig, now_ms: int
) -> ConsumerCore:
    """Return a consumer group with the members of a classic one.

    They keep what they were assigned, and their generation becomes the epoch; the join that caused
    this begins the next one.

    Raises:
        Refused: GROUP_ID_NOT_FOUND: they are no consumers, or too many, or their assignor needs
            data of its own, which nobody would keep for it.
    """
    core = ConsumerCore(classic.group_id, config)
    core.subscriptions.see(catalog)
    if not classic.member_count:
        return core
    if classic.protocol_type != CONSUMER_PROTOCOL:
        raise _not_upgradable(classic, "it does not use the consumer embedded protocol")
    if classic.member_count > config.consumer.max_size:
        raise _not_upgradable(classic, "it exceeds the consumer group maximum size")
    try:
        holdings = _holdings(classic, catalog)
        members = [
            _to_member(known, classic.generation_id, holdings[known.member_id])
            for known in classic.members.values()
        ]
    except UnreadableSubscription as unreadable:
        raise _not_upgradable(classic, str(unreadable)) from unreadable
    for member in members:
        core.members.put(member)
        core.extend_session(member, now_ms)
    core.begin_at(classic.generation_id)
    return core


def _not_upgradable(classic: ClassicGroup, reason: str) -> Refused:
    return Refused(
        ErrorCode.group_id_not_found,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _holdings(classic: ClassicGroup, catalog: Catalog) -> dict[str, frozenset[Partition]]:
    """Return what each member may be holding; no partition is in two of them.

    That is what it was assigned, and of what a cooperative member (KIP-429) said it owned when it
    joined last, all that nobody was assigned: it may not have got round to giving that up yet.
    """
    taken = set[Partition]()
    holdings: dict[str, frozenset[Partition]] = {}
    for known in classic.members.values():
        by_name, assignor_data = read_assignment(known.assignment)
        if assignor_data:
            raise UnreadableSubscription("an unsupported custom assignor is in use")
        holdings[known.member_id] = to_partitions(by_name, catalog) - taken
        taken |= holdings[known.member_id]
    for known in classic.members.values():
        owned = read_subscription(known.protocols[0].metadata).owned
        holdings[known.member_id] |= to_partitions(owned, catalog) - taken
        taken |= holdings[known.member_id]
    return holdings


def _to_member(known: ClassicMember, generation_id: int, held: frozenset[Partition]) -> Member:
    says = read_subscription(known.protocols[0].metadata)
    return Member(
        member_id=known.member_id,
        instance_id=known.instance_id,
        rack_id=says.rack_id,
        client_id=known.client_id,
        client_host=known.client_host,
        rebalance_timeout_ms=max(known.rebalance_timeout_ms, 0),
        subscription=Subscription(says.topics),
        classic=ClassicMemberMetadata(
            session_timeout_ms=known.session_timeout_ms, protocols=tuple(known.protocols)
        ),
        member_epoch=generation_id,
        previous_epoch=generation_id,
        assigned=held,
        target=held,
    )


def may_be_downgraded(core: ConsumerCore) -> bool:
    """Whether only classic members are left, and a classic group would take them."""
    return (
        0 < len(core.members) == core.members.classic_count
        and len(core.members) <= core.config.classic.max_size
        and core.subscriptions.catalog is not None
    )


def downgraded(core: ConsumerCore, now_ms: int) -> tuple[ClassicGroup, Sequence[Effect]]:
    """Return the classic group of the members that are left, and what to do: all join again.

    Until they have, the consumer group is what is saved: who takes that over comes here again. As a
    classic group that is stable it would look as if nobody had gone.
    """
    catalog = core.subscriptions.catalog
    assert catalog is not None
    members = [
        ClassicMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.classic.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=member.classic.protocols,
            assignment=write_assignment(member.assigned, catalog),
        )
        for member in core.members
        if member.classic is not None
    ]
    group = ClassicGroup.of_members(
        core.group_id,
        core.config,
        # as of the last one who joined, so that the others need not lose what they hold
        generation_id=max(member.member_epoch for member in core.members),
        protocol_type=CONSUMER_PROTOCOL,
        members=members,
        now_ms=now_ms,
    )
    return group, group.rebalance(now_ms=now_ms)
