"""What CreatePartitions and DeleteTopics ask for, checked before anything is done.

Pure functions over plain values, like broker/topic_requests.py.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from broker.requests import DENIED_MESSAGE
from broker.topic_requests import (
    MAX_PARTITIONS_PER_REQUEST,
    Assignment,
    check_allowed,
    check_assignments,
    check_budget,
    check_named_once,
    repeated_names,
)
from storage.metadata.topics import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """One topic of a CreatePartitions request.

    Attributes:
        partition_count: the new one, not the difference.
        assignments: of the new partitions, in order; None if the broker chooses.
    """

    name: str
    partition_count: int
    assignments: Sequence[Assignment] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAccess:
    """What ACLs keep from a client that wants to delete topics.

    Attributes:
        hidden: names of topics that it may not know of, whether or not they exist.
        kept: names of topics that it may not delete.
    """

    hidden: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    def __or__(self, other: "TopicAccess") -> "TopicAccess":
        return TopicAccess(hidden=self.hidden | other.hidden, kept=self.kept | other.kept)


ALL_ACCESS: Final = TopicAccess()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """One line of a DeleteTopics request, and its answer: a topic to delete, or why it is not."""

    name: str | None
    topic_id: UUID | None
    outcome: Topic | Refusal


def plan_partitions(
    requests: Sequence[MorePartitions],
    topics: Mapping[str, Topic],
    shown: Mapping[str, int],
    denied: Collection[str] = (),
) -> dict[str, Topic | Refusal]:
    """Return, by name in the order of the request, each topic that can grow as asked for.

    Args:
        requests: as asked for.
        topics: those of them that exist.
        shown: of those with assignments, how many replicas clients are told of. Tools assign as
            many to each new partition; as many as the topic was made with are right, too.
        denied: names of topics that the client may not alter, whether or not they exist.
    """
    plans: dict[str, Topic | Refusal] = {}
    repeated = repeated_names(request.name for request in requests)
    partitions_left = MAX_PARTITIONS_PER_REQUEST
    for request in requests:
        try:
            check_named_once(request.name, repeated)
            check_allowed(request.name, denied)
            topic = _named(request.name, topics)
            added = _check_growth(request, topic, shown)
            check_budget(added, partitions_left)
        except Refusal as refusal:
            plans[request.name] = refusal.with_traceback(None)  # its frames have the plans, and it
        else:
            plans[request.name] = topic
            partitions_left -= added
    return plans


def choose_deleted(
    choices: Sequence[tuple[str | None, UUID | None]],
    by_name: Mapping[str, Topic],
    by_id: Mapping[UUID, Topic],
    access: TopicAccess = ALL_ACCESS,
) -> list[TopicChoice]:
    """Return each topic that a DeleteTopics request names, or why it is not deleted.

    Of each choice, (name, topic id), one half shall be None. Of a hidden topic nothing is told but
    what the client said.
    """
    outcomes: list[TopicChoice] = []
    denied = access.hidden | access.kept
    repeated = {choice for choice, count in Counter(choices).items() if count > 1}
    names = (_name_of(choice, by_id) for choice in dict.fromkeys(choices))
    named_both_ways = repeated_names(name for name in names if name not in denied) - {""}
    for choice in dict.fromkeys(choices):
        name, topic_id = choice
        try:
            _check_chosen_once(choice, repeated)
            topic = _chosen(name, topic_id, by_name, by_id, access.hidden)
            check_named_once(topic.name, named_both_ways)
        except Refusal as refusal:
            told = refusal.with_traceback(None)  # without its frames, which have the outcomes
            outcomes.append(TopicChoice(name=name, topic_id=topic_id, outcome=told))
            continue
        if topic.name not in access.kept:
            outcomes.append(TopicChoice(name=topic.name, topic_id=topic.topic_id, outcome=topic))
            continue
        denial = Refusal(ErrorCode.topic_authorization_failed, DENIED_MESSAGE)
        outcomes.append(TopicChoice(name=topic.name, topic_id=topic_id, outcome=denial))
    return outcomes


def _check_growth(request: MorePartitions, topic: Topic, shown: Mapping[str, int]) -> int:
    """Return how many partitions come to the topic."""
    added = request.partition_count - topic.partition_count
    if added < 1:
        raise Refusal(
            ErrorCode.invalid_partitions,
            f"Topic {topic.name} has {topic.partition_count} partition(s) already;"
            f" {request.partition_count} would not be more.",
        )
    if request.assignments is not None:
        if len(request.assignments) != added:
            raise Refusal(
                ErrorCode.invalid_replica_assignment,
                f"{added} partition(s) would be added, {len(request.assignments)} are assigned.",
            )
        made_with = topic.replication_factor
        replica_counts = {made_with, shown.get(topic.name, made_with)}
        check_assignments(request.assignments, replica_counts)
    return added


def _name_of(choice: tuple[str | None, UUID | None], by_id: Mapping[UUID, Topic]) -> str:
    """Return the name of the topic that is meant, whichever way; empty if nobody knows."""
    name, topic_id = choice
    if name is None and topic_id is not None and topic_id in by_id:
        return by_id[topic_id].name
    return name or ""


def _check_chosen_once(
    choice: tuple[str | None, UUID | None], repeated: Collection[tuple[str | None, UUID | None]]
) -> None:
    """Refuse a topic that is chosen twice in the same way; nobody has looked whether it exists."""
    if choice in repeated:
        message = f"The request names topic {choice[0] or choice[1]} more than once."
        raise Refusal(ErrorCode.invalid_request, message)


def _chosen(
    name: str | None,
    topic_id: UUID | None,
    by_name: Mapping[str, Topic],
    by_id: Mapping[UUID, Topic],
    hidden: Collection[str],
) -> Topic:
    if name is not None and topic_id is not None:
        raise Refusal(ErrorCode.invalid_request, "Give the topic's name or its id, not both.")
    if name is not None:
        check_allowed(name, hidden)
        return _named(name, by_name)
    if topic_id is None:
        raise Refusal(ErrorCode.invalid_request, "Give the topic's name or its id.")
    topic = by_id.get(topic_id)
    if topic is None:
        raise Refusal(ErrorCode.unknown_topic_id, f"There is no topic with id {topic_id}.")
    check_allowed(topic.name, hidden)
    return topic


def _named(name: str, topics: Mapping[str, Topic]) -> Topic:
    topic = topics.get(name)
    if topic is None:
        raise Refusal(ErrorCode.unknown_topic_or_partition, f"Topic '{name}' does not exist.")
    return topic
