"""CreateTopics, CreatePartitions and DeleteTopics before anything is done: plans and refusals."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from broker.configs.broker_configs import read_broker_config
from broker.refusals import Refusal
from broker.topic_changes import MorePartitions, choose_deleted, plan_partitions
from broker.topic_requests import NewTopic, TopicPlan, plan_topics
from storage.metadata.topics import Topic

BROKER = read_broker_config({"num.partitions": "4", "default.replication.factor": "3"})


def automatic(
    name: str,
    *,
    configs: Sequence[tuple[str, str | None]] = (),
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
) -> NewTopic:
    """Return a topic that leaves both counts to the broker."""
    return NewTopic(
        name=name,
        partition_count=-1,
        replication_factor=-1,
        configs=configs,
        assignments=assignments,
    )


def planned(*topics: NewTopic, existing: tuple[str, ...] = ()) -> dict[str, TopicPlan | ErrorCode]:
    plans = plan_topics(topics, existing, BROKER)
    return {name: p.code if isinstance(p, Refusal) else p for name, p in plans.items()}


def code_of(topic: NewTopic, existing: tuple[str, ...] = ()) -> ErrorCode:
    (result,) = planned(topic, existing=existing).values()
    return ErrorCode.none if isinstance(result, TopicPlan) else result


def topic(name: str, partition_count: int = 3, replication_factor: int = 2) -> Topic:
    return Topic(
        topic_id=uuid4(),
        name=name,
        partition_count=partition_count,
        replication_factor=replication_factor,
        configs={},
    )


def test_a_topic_gets_what_it_asks_for_or_the_brokers_defaults() -> None:
    asked = NewTopic(name="asked", partition_count=7, replication_factor=5)
    configured = automatic("default", configs=[("retention.ms", " 5 ")])
    assert planned(asked, configured) == {
        "asked": TopicPlan(name="asked", partition_count=7, replication_factor=5, configs={}),
        "default": TopicPlan(
            name="default", partition_count=4, replication_factor=3, configs={"retention.ms": "5"}
        ),
    }


@pytest.mark.parametrize(
    ("partition_count", "replication_factor", "code"),
    [
        (0, 1, ErrorCode.invalid_partitions),
        (-2, 1, ErrorCode.invalid_partitions),
        (1, 0, ErrorCode.invalid_replication_factor),
        (1, -2, ErrorCode.invalid_replication_factor),
        (0, 0, ErrorCode.invalid_partitions),
        (10_001, 1, ErrorCode.policy_violation),
        (10_000, 2**15 - 1, ErrorCode.none),
    ],
)
def test_counts_that_make_no_sense_are_refused(
    partition_count: int, replication_factor: int, code: ErrorCode
) -> None:
    asked = NewTopic(
        name="t", partition_count=partition_count, replication_factor=replication_factor
    )
    assert code_of(asked) is code


def test_a_wrong_config_is_told_before_a_wrong_count() -> None:
    asked = NewTopic(name="t", partition_count=0, replication_factor=0, configs=[("x", "y")])
    assert code_of(asked) is ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a b", ErrorCode.invalid_topic_exception),
        ("there.already", ErrorCode.topic_already_exists),
        ("there_already", ErrorCode.invalid_topic_exception),
        ("there-already", ErrorCode.none),
    ],
)
def test_names_that_cannot_be_taken(name: str, code: ErrorCode) -> None:
    assert code_of(automatic(name), existing=("there.already",)) is code


def test_topics_of_one_request_cannot_collide_either() -> None:
    results = planned(automatic("a.b"), automatic("a_b"))
    assert isinstance(results["a.b"], TopicPlan)
    assert results["a_b"] is ErrorCode.invalid_topic_exception


def test_a_topic_named_twice_is_not_created_and_the_others_are() -> None:
    twice, once = automatic("twice"), automatic("once")
    results = planned(twice, once, twice)
    assert results["twice"] is ErrorCode.invalid_request
    assert isinstance(results["once"], TopicPlan)


def of_partitions(name: str, partition_count: int) -> NewTopic:
    return NewTopic(name=name, partition_count=partition_count, replication_factor=1)


@pytest.mark.parametrize(
    "last",
    [
        of_partitions("last", 2),
        of_partitions("there", 2),
        of_partitions("a b", 2),
        automatic("last"),
        automatic("last", assignments=[(1, [0]), (2, [0])]),
    ],
    ids=["good", "known", "not a name", "of as many as topics have", "assigned badly"],
)
def test_of_too_many_partitions_nothing_is_created(last: NewTopic) -> None:
    # A topic that could not be created counts, too
    results = planned(
        of_partitions("x", 5_000), of_partitions("y", 4_999), last, existing=("there",)
    )
    assert results == dict.fromkeys(("x", "y", last.name), ErrorCode.policy_violation)


@pytest.mark.parametrize("name", ["refused", "__cluster_metadata", "x"])
def test_topics_that_are_not_looked_at_have_no_partitions(name: str) -> None:
    asked = [of_partitions("x", 5_000), of_partitions("y", 5_000), of_partitions(name, 1)]
    results = plan_topics(asked, (), BROKER, denied={"refused"})
    assert isinstance(results["y"], TopicPlan)
    assert isinstance(results[name], Refusal)


def test_a_count_that_makes_no_sense_takes_no_room() -> None:
    results = planned(of_partitions("x", 10_000), of_partitions("y", -5), of_partitions("z", 0))
    assert isinstance(results["x"], TopicPlan)
    assert results["y"] is results["z"] is ErrorCode.invalid_partitions


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        ([(0, [0]), (1, [0])], ErrorCode.none),
        ([(1, [5, 6]), (0, [7, 5])], ErrorCode.none),
        ([(0, [0]), (2, [0])], ErrorCode.invalid_replica_assignment),
        ([(1, [0]), (2, [0])], ErrorCode.invalid_replica_assignment),
        ([(0, [0]), (0, [0])], ErrorCode.invalid_replica_assignment),
        ([(0, [])], ErrorCode.invalid_replica_assignment),
        ([(0, [1, 1])], ErrorCode.invalid_replica_assignment),
        ([(0, [-1])], ErrorCode.invalid_replica_assignment),
        ([(0, [0]), (1, [0, 1])], ErrorCode.invalid_replica_assignment),
    ],
)
def test_manual_assignments_must_be_whole(
    assignments: list[tuple[int, list[int]]], code: ErrorCode
) -> None:
    assert code_of(automatic("t", assignments=assignments)) is code


def test_manual_assignments_say_how_many_partitions_and_replicas() -> None:
    assigned = automatic("t", assignments=[(1, [5, 6]), (0, [7, 5])])
    (plan,) = planned(assigned).values()
    assert isinstance(plan, TopicPlan)
    assert (plan.partition_count, plan.replication_factor) == (2, 2)
    both = NewTopic(name="t", partition_count=1, replication_factor=-1, assignments=[(0, [1])])
    assert code_of(both) is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("partition_count", "assignments", "code"),
    [
        (4, None, None),
        (5, [[0, 1], [1, 0]], None),
        (3, None, ErrorCode.invalid_partitions),
        (2, None, ErrorCode.invalid_partitions),
        (-1, None, ErrorCode.invalid_partitions),
        (20_000, None, ErrorCode.policy_violation),
        (5, [[0, 1]], ErrorCode.invalid_replica_assignment),
        (4, [], ErrorCode.invalid_replica_assignment),
        (4, [[]], ErrorCode.invalid_replica_assignment),
        (4, [[0]], ErrorCode.invalid_replica_assignment),
        (4, [[1, 1]], ErrorCode.invalid_replica_assignment),
        (5, [[0, 1, 2, 3], [7, 8]], None),
        (4, [[0, 1, 2]], ErrorCode.invalid_replica_assignment),
    ],
)
def test_partitions_can_only_be_added(
    partition_count: int, assignments: list[list[int]] | None, code: ErrorCode | None
) -> None:
    orders = topic("orders", partition_count=3, replication_factor=2)
    request = MorePartitions(
        name="orders", partition_count=partition_count, assignments=assignments
    )
    plan = plan_partitions([request], {"orders": orders}, {"orders": 4})["orders"]
    assert (plan.code if isinstance(plan, Refusal) else None) is code
    assert code is not None or plan is orders


def test_partitions_of_unknown_or_repeated_topics_are_refused() -> None:
    orders = topic("orders")
    more = MorePartitions(name="orders", partition_count=9)
    nowhere = MorePartitions(name="nowhere", partition_count=9)
    plans = plan_partitions([more, nowhere, more], {"orders": orders}, {})
    codes = {name: plan.code for name, plan in plans.items() if isinstance(plan, Refusal)}
    assert codes == {
        "orders": ErrorCode.invalid_request,
        "nowhere": ErrorCode.unknown_topic_or_partition,
    }


def test_topics_are_deleted_by_name_or_id() -> None:
    one, two = topic("one"), topic("two")
    choices = choose_deleted(
        [("one", None), (None, two.topic_id)],
        {"one": one, "two": two},
        {one.topic_id: one, two.topic_id: two},
    )
    assert [(choice.name, choice.topic_id, choice.outcome) for choice in choices] == [
        ("one", one.topic_id, one),
        ("two", two.topic_id, two),
    ]


def test_what_cannot_be_deleted_is_told_for_each() -> None:
    here, stranger = topic("here"), uuid4()
    wrong: list[tuple[str | None, UUID | None, ErrorCode]] = [
        ("gone", None, ErrorCode.unknown_topic_or_partition),
        (None, stranger, ErrorCode.unknown_topic_id),
        (None, None, ErrorCode.invalid_request),
        ("either", stranger, ErrorCode.invalid_request),
        ("here", None, ErrorCode.none),
    ]
    choices = choose_deleted(
        [(name, topic_id) for name, topic_id, _ in wrong], {"here": here}, {here.topic_id: here}
    )
    codes = [c.outcome.code if isinstance(c.outcome, Refusal) else ErrorCode.none for c in choices]
    assert codes == [code for _, _, code in wrong]


def test_a_topic_chosen_twice_is_not_deleted() -> None:
    here = topic("here")
    by_name, by_id = {"here": here}, {here.topic_id: here}
    twice = choose_deleted([("here", None), ("here", None)], by_name, by_id)
    assert [isinstance(choice.outcome, Refusal) for choice in twice] == [True]
    both_ways = choose_deleted([("here", None), (None, here.topic_id)], by_name, by_id)
    assert all(isinstance(choice.outcome, Refusal) for choice in both_ways)
    gone_twice = choose_deleted([("gone", None), ("gone", None)], by_name, by_id)
    assert [c.outcome.code for c in gone_twice if isinstance(c.outcome, Refusal)] == [
        ErrorCode.invalid_request
    ]


def test_a_refusal_does_not_hold_on_to_what_led_to_it() -> None:
    plans = plan_topics([automatic("a", configs=[("retention.ms", "x")])], (), BROKER)
    assert isinstance(plans["a"], Refusal)
    assert plans["a"].__traceback__ is None  # else a hundred would be work for the collector

    grown = plan_partitions([MorePartitions(name="gone", partition_count=2)], {}, {})
    assert isinstance(grown["gone"], Refusal)
    assert grown["gone"].__traceback__ is None
    (choice,) = choose_deleted([("gone", None)], {}, {})
    assert isinstance(choice.outcome, Refusal)
    assert choice.outcome.__traceback__ is None
