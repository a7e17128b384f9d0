"""What CreateTopics asks for, checked before anything is done.

Pure functions over plain values: for every topic of a request its plan, or the Refusal that answers
it. The order of checks is that of Apache Kafka 4.3, so that a request wrong twice gets its code.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from broker.configs.broker_configs import BrokerConfig
from broker.configs.config_changes import Setting, created_configs
from broker.configs.config_rules import TopicRules
from broker.refusals import Refusal
from broker.requests import DENIED_MESSAGE
from protocol.topics import collision_key, name_problem

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""A request for more is refused (POLICY_VIOLATION), as Kafka's controller does."""

METADATA_LOG: Final = "__cluster_metadata"
"""Tools take a topic of this name for the controllers' own log."""

_DEFAULT = -1

Assignment = Sequence[int]
"""The brokers that a client wants a partition on; accepted, and counted as replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """One topic of a CreateTopics request.

    Attributes:
        partition_count, replication_factor: -1 for the broker's default, or where assigned.
        assignments: (partition index, brokers) in any order; empty if the broker chooses.
    """

    name: str
    partition_count: int
    replication_factor: int
    assignments: Sequence[tuple[int, Assignment]] = ()
    configs: Sequence[Setting] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic that can be created just so."""

    name: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


def plan_topics(
    topics: Sequence[NewTopic],
    existing: Collection[str],
    broker: BrokerConfig,
    denied: Collection[str] = (),
) -> dict[str, TopicPlan | Refusal]:
    """Return the plan of each topic, by name, in the order of the request.

    Topics planned before count as existing: two topics of one request cannot collide, either. All
    are refused together if they would have too many partitions, whatever else is wrong with them.

    Args:
        topics: as asked for.
        existing: names of topics; of all, or of those that one of these could collide with.
        broker: its defaults.
        denied: names of topics that the client may not create, whether or not they exist.
    """
    plans: dict[str, TopicPlan | Refusal] = {}
    repeated = repeated_names(topic.name for topic in topics)
    taken = {collision_key(name): name for name in existing}
    not_looked_at = {METADATA_LOG, *repeated, *denied}
    wanted = (_wanted_count(topic, broker) for topic in topics if topic.name not in not_looked_at)
    try:
        check_budget(sum(wanted), MAX_PARTITIONS_PER_REQUEST)
    except Refusal as refusal:
        return dict.fromkeys((topic.name for topic in topics), refusal.with_traceback(None))
    for topic in topics:
        try:
            check_named_once(topic.name, repeated)
            _check_no_log(topic.name)
            check_allowed(topic.name, denied)
            _check_name(topic.name, existing, taken)
            plan = _plan_topic(topic, broker)
        except Refusal as refusal:
            plans[topic.name] = refusal.with_traceback(None)  # its frames have the plans, and it
        else:
            plans[topic.name] = plan
            taken[collision_key(plan.name)] = plan.name
    return plans


def repeated_names(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def check_named_once(name: str, repeated: Collection[str]) -> None:
    """Refuse all mentions of a topic that a request names more than once."""
    if name in repeated:
        raise Refusal(ErrorCode.invalid_request, f"The request names topic {name} more than once.")


def check_allowed(name: str, denied: Collection[str]) -> None:
    """Refuse a topic that ACLs keep from the client, before anything tells whether it exists."""
    if name in denied:
        raise Refusal(ErrorCode.topic_authorization_failed, DENIED_MESSAGE)


def check_budget(partition_count: int, left: int) -> None:
    """Refuse what would make the request create more than MAX_PARTITIONS_PER_REQUEST."""
    if partition_count > left:
        raise Refusal(
            ErrorCode.policy_violation,
            f"One request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most.",
        )


def check_assignments(assignments: Sequence[Assignment], replica_counts: Collection[int]) -> None:
    """Refuse assignments that no cluster could keep; whether the brokers live is not looked at.

    Each shall have one of `replica_counts`.
    """
    for brokers in assignments:
        if not brokers or len(brokers) not in replica_counts:
            needed = " or ".join(str(max(count, 1)) for count in sorted(replica_counts))
            raise Refusal(
                ErrorCode.invalid_replica_assignment,
                f"Each partition needs {needed} replica(s), one has {len(brokers)}.",
            )
        if len(set(brokers)) != len(brokers) or min(brokers) < 0:
            raise Refusal(
                ErrorCode.invalid_replica_assignment,
                f"Replicas need different brokers, numbered from 0 on: {list(brokers)}.",
            )


def _wanted_count(topic: NewTopic, broker: BrokerConfig) -> int:
    """Return how many partitions a topic would have, as far as that makes sense."""
    if topic.assignments:
        return len(topic.assignments)
    if topic.partition_count == _DEFAULT:
        return broker.num_partitions
    return max(topic.partition_count, 0)


def _check_no_log(name: str) -> None:
    if name == METADATA_LOG:
        raise Refusal(ErrorCode.invalid_request, f"{name} is the name of Kafka's metadata log.")


def _check_name(name: str, existing: Collection[str], taken: Mapping[str, str]) -> None:
    problem = name_problem(name)
    if problem:
        raise Refusal(ErrorCode.invalid_topic_exception, f"Invalid topic: {problem}.")
    if name in existing:
        raise Refusal(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    other = taken.get(collision_key(name))
    if other is not None:
        raise Refusal(
            ErrorCode.invalid_topic_exception,
            f"Topic {name} would collide with topic {other}: metrics write '.' as '_'.",
        )


def _plan_topic(topic: NewTopic, broker: BrokerConfig) -> TopicPlan:
    configs = created_configs(topic.configs, TopicRules(broker.topic_values))
    partition_count, replication_factor = topic.partition_count, topic.replication_factor
    if topic.assignments:
        partition_count, replication_factor = _assigned(topic)
    if partition_count == _DEFAULT:
        partition_count = broker.num_partitions
    if partition_count < 1:
        raise Refusal(
            ErrorCode.invalid_partitions,
            f"The partition count must be at least 1, or -1 for the default: {partition_count}.",
        )
    if replication_factor == _DEFAULT:
        replication_factor = broker.default_replication_factor
    if replication_factor < 1:
        raise Refusal(
            ErrorCode.invalid_replication_factor,
            "The replication factor must be at least 1, or -1 for the default:"
            f" {replication_factor}.",
        )
    return TopicPlan(
        name=topic.name,
        partition_count=partition_count,
        replication_factor=replication_factor,
        configs=configs,
    )


def _assigned(topic: NewTopic) -> tuple[int, int]:
    """Return the partition count and replication factor that manual assignments come to."""
    if (topic.partition_count, topic.replication_factor) != (_DEFAULT, _DEFAULT):
        raise Refusal(
            ErrorCode.invalid_request,
            "With manual assignments, partition count and replication factor must be -1.",
        )
    if sorted(index for index, _ in topic.assignments) != list(range(len(topic.assignments))):
        raise Refusal(
            ErrorCode.invalid_replica_assignment,
            "Manual assignments must name each partition from 0 on once.",
        )
    replication_factor = len(topic.assignments[0][1])
    check_assignments([brokers for _, brokers in topic.assignments], {replication_factor})
    return len(topic.assignments), replication_factor
