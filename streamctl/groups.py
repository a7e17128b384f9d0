"""Questions to a cluster about its groups, and changes to them."""

import shlex
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    Node,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    ConsumerGroupDescription,
    MemberDescription,
)

from streamctl.errors import Failure, refusal, refused_with
from streamctl.group_state import Coordinator, GroupListing, GroupState, Member, PartitionName
from streamctl.output import counted
from streamctl.requests import REQUEST_TIMEOUT_S, Requests

_STATES: Final = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}
_DESCRIBED_AT_ONCE: Final = 1000  # groups; so many are told long before a request's timeout
# What brokers answer to a change by no member while there are members.
_IN_USE: Final = frozenset({"NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"})


class UnknownGroup(Failure):
    """The cluster has no group of that name."""

    def __init__(self, group_id: str, existing: Iterable[str]) -> None:
        near = get_close_matches(group_id, existing, n=3)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        super().__init__(
            f"group {group_id!r} does not exist", fix=f"{meant}streamctl group list shows all"
        )


class GroupInUse(Failure):
    """A group has members, so nobody else may change it."""

    def __init__(self, group_id: str, members: Iterable[Member]) -> None:
        present = sorted({f"{member.client_id} at {member.host}" for member in members})
        named = f": {', '.join(present)}" if present else ""
        super().__init__(
            f"group {group_id!r} has members{named}",
            fix="stop them first, and wait until the session timeout of those that crashed; "
            f"streamctl group describe {group_id} --members shows who is left",
        )


class Groups:
    """Questions about groups; every method raises Failure when refused."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._client = requests.client

    def listing(self) -> tuple[list[GroupListing], list[str]]:
        """Return the groups by id, and why some brokers did not tell theirs."""
        asked = self._client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S)
        answer = self._requests.wait(asked, "groups")
        groups = [
            GroupListing(
                group_id=group.group_id, type=_type_name(group.type), state=_STATES.get(group.state)
            )
            for group in sorted(answer.valid, key=lambda group: str(group.group_id))
        ]
        return groups, [str(error) for error in answer.errors]

    def ids(self) -> list[str]:
        """Return the ids of all groups, sorted."""
        return [group.group_id for group in self.listing()[0]]

    def states(self, group_ids: Iterable[str]) -> dict[str, GroupState]:
        """Return those of these groups that exist."""
        described, refused = self.states_told(group_ids)
        if refused:
            raise next(iter(refused.values()))
        return described

    def states_told(
        self, group_ids: Iterable[str]
    ) -> tuple[dict[str, GroupState], dict[str, Failure]]:
        """Return those of these groups that exist and are told, and why others are not."""
        described: dict[str, GroupState] = {}
        refused: dict[str, Failure] = {}
        listed = list(dict.fromkeys(group_ids))
        for begin in range(0, len(listed), _DESCRIBED_AT_ONCE):
            wanted = listed[begin : begin + _DESCRIBED_AT_ONCE]
            asked = self._client.describe_consumer_groups(wanted, request_timeout=REQUEST_TIMEOUT_S)
            for group_id in wanted:
                needs = group_needs("describe", group_id)
                try:
                    answer = self._requests.wait(
                        asked[group_id], f"group {group_id!r}", needs=needs
                    )
                except Failure as failure:
                    refused[group_id] = failure
                    continue
                state = _group_state(answer)
                if state.state != "Dead":  # that is how DescribeGroups names a group it has not
                    described[group_id] = state
        return described, refused

    def existing(self, group_ids: Iterable[str]) -> list[GroupState]:
        """Return these groups in their order. Raises UnknownGroup if one does not exist."""
        wanted = list(group_ids)
        states = self.states(wanted)
        for group_id in wanted:
            if group_id not in states:
                raise UnknownGroup(group_id, self.ids())
        return [states[group_id] for group_id in wanted]

    def committed(self, group_id: str) -> dict[PartitionName, int]:
        """Return the committed offsets of a group, sorted; empty for one that does not exist."""
        asked = self._client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id)], request_timeout=REQUEST_TIMEOUT_S
        )
        needs = group_needs("describe", group_id)
        answer = self._requests.wait(asked[group_id], f"offsets of group {group_id!r}", needs=needs)
        offsets = {}
        for at in answer.topic_partitions:
            if at.error is not None:
                raise refusal(
                    *(f"offset of {at.topic!r} partition {at.partition}", at.error),
                    needs=f"describe --topic {at.topic}",
                )
            if at.offset >= 0:
                offsets[at.topic, at.partition] = at.offset
        return dict(sorted(offsets.items()))

    def alter(self, group_id: str, offsets: Mapping[PartitionName, int]) -> None:
        """Commit offsets for a group without members; one that does not exist comes to be.

        Raises:
            GroupInUse: it has members.
            Failure: some offsets were refused; the message tells how many and why.
        """
        wanted = [TopicPartition(topic, at, offset) for (topic, at), offset in offsets.items()]
        asked = self._client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id, wanted)], request_timeout=REQUEST_TIMEOUT_S
        )
        needs = group_needs("read", group_id)
        answer = self._requests.wait(asked[group_id], f"group {group_id!r}", needs=needs)
        refused = [at for at in answer.topic_partitions if at.error is not None]
        if not refused:
            return
        if any(at.error.name() in _IN_USE for at in refused):
            raise self._in_use(group_id)
        first = refused[0]
        if first.error.name() == "TOPIC_AUTHORIZATION_FAILED":
            needs = f"read --topic {first.topic}"
        reason = refusal(f"{first.topic}[{first.partition}]", first.error, needs=needs)
        raise Failure(
            f"{len(refused)} of {counted(len(wanted), 'offset')} not changed: {reason.message}",
            fix=reason.fix,
        )

    def delete(self, group_id: str) -> None:
        """Delete a group with its offsets.

        Raises:
            GroupInUse: it has members.
            UnknownGroup: it does not exist.
        """
        asked = self._client.delete_consumer_groups([group_id], request_timeout=REQUEST_TIMEOUT_S)
        try:
            needs = group_needs("delete", group_id)
            self._requests.wait(asked[group_id], f"group {group_id!r}", needs=needs)
        except Failure as failure:
            if refused_with(failure, KafkaError.NON_EMPTY_GROUP):
                raise self._in_use(group_id) from failure
            if refused_with(failure, KafkaError.GROUP_ID_NOT_FOUND):
                raise UnknownGroup(group_id, self.ids()) from failure
            raise

    def _in_use(self, group_id: str) -> GroupInUse:
        state = self.states([group_id]).get(group_id)
        return GroupInUse(group_id, state.members if state else ())


def group_needs(operation: str, group_id: str) -> str:
    """Return what an ACL would have to allow, as `refusal` takes it."""
    return f"{operation} --group {shlex.quote(group_id)}"


def _group_state(described: ConsumerGroupDescription) -> GroupState:
    return GroupState(
        group_id=described.group_id,
        type=_type_name(ConsumerGroupType(described.type)),
        state=_STATES.get(ConsumerGroupState(described.state)),
        assignor=described.partition_assignor or None,
        coordinator=_coordinator(described.coordinator),
        members=sorted(
            map(_member, described.members),
            key=lambda member: (member.client_id, member.member_id),
        ),
    )


def _member(described: MemberDescription) -> Member:
    return Member(
        member_id=described.member_id,
        instance_id=described.group_instance_id,
        client_id=described.client_id,
        host=described.host.removeprefix("/"),  # how Java prints an address without a name
        partitions=sorted((at.topic, at.partition) for at in described.assignment.topic_partitions),
    )


def _coordinator(node: Node | None) -> Coordinator | None:
    if node is None or node.id < 0:
        return None
    return Coordinator(node_id=node.id, host=node.host, port=node.port)


def _type_name(group_type: ConsumerGroupType) -> str:
    # brokers before ListGroups v5 have no types, and only classic groups
    return "Consumer" if group_type is ConsumerGroupType.CONSUMER else "Classic"
