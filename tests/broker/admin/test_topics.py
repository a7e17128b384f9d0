"""CreateTopics, CreatePartitions and DeleteTopics over the wire, in all their versions."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.admin.questions import (
    CREATE_TOPICS,
    add_partitions,
    check_topic_configs,
    creatable,
    create,
    delete,
    delete_by_id,
    partitions_of,
    set_configs,
)
from tests.broker.admin.wire import TIMEOUT, Api, Wire


def partition_count(wire: Wire, name: str) -> int:
    ((topic,), _) = partitions_of(wire, name)
    return len(topic.partitions)


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_there_when_its_creation_is_answered(
    wire: Wire, name: str, version: int
) -> None:
    # When a topic is created with a config of its own
    configs = {"retention.ms": "2592000000"}
    result = create(wire, name, version=version, partitions=5, replicas=3, configs=configs)

    # Then it is there, as it was asked for
    assert (result.error_code, result.error_message) == (ErrorCode.none, None)
    assert partition_count(wire, name) == 5
    assert set_configs(wire, name) == configs
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (5, 3)
        answered = {config.name: config for config in result.configs}
        check_topic_configs(answered)
        assert (answered["retention.ms"].value, answered["retention.ms"].config_source) == (
            "2592000000",
            1,
        )
        assert (answered["segment.ms"].value, answered["segment.ms"].config_source) == (
            "604800000",
            5,
        )
    if version >= 7:
        ((topic,), _) = partitions_of(wire, name)
        assert result.topic_id == topic.topic_id


def test_counts_of_minus_one_are_the_brokers_defaults(wire: Wire, name: str) -> None:
    result = create(wire, name, partitions=-1, replicas=-1)
    assert (result.num_partitions, result.replication_factor) == (3, 2)


def test_assigned_partitions_are_counted(wire: Wire, name: str) -> None:
    assignments = {1: (0, 5), 0: (5, 0)}
    result = create(wire, name, partitions=-1, replicas=-1, assignments=assignments)
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert partition_count(wire, name) == 2


def test_a_checked_topic_is_not_created(wire: Wire, name: str) -> None:
    result = create(wire, name, check=True, partitions=5)
    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 5)
    ((topic,), _) = partitions_of(wire, name)
    assert topic.error_code is ErrorCode.unknown_topic_or_partition


def test_each_topic_of_a_request_answers_for_itself(wire: Wire, name: str) -> None:
    # Given a topic
    create(wire, f"{name}.there")
    api = Api(CREATE_TOPICS, 7)
    asked: list[tuple[ErrorCode, Any]] = [
        (ErrorCode.none, creatable(api, f"{name}-new")),
        (ErrorCode.topic_already_exists, creatable(api, f"{name}.there")),
        (ErrorCode.invalid_topic_exception, creatable(api, f"{name}_there")),
        (ErrorCode.invalid_topic_exception, creatable(api, f"{name} blank")),
        (ErrorCode.invalid_partitions, creatable(api, f"{name}-p", partitions=0)),
        (ErrorCode.invalid_replication_factor, creatable(api, f"{name}-r", replicas=0)),
        (
            ErrorCode.invalid_replica_assignment,
            creatable(api, f"{name}-a", partitions=-1, replicas=-1, assignments={1: (0,)}),
        ),
        (ErrorCode.invalid_config, creatable(api, f"{name}-c", configs={"retention.ms": "soon"})),
    ]

    # When one request asks for a new one, and for all that is wrong
    request = api.request(topics=tuple(topic for _, topic in asked), timeout=TIMEOUT)
    results = wire.ask(request).topics

    # Then every one has its answer, in order, and those refused say why
    assert [(result.name, result.error_code) for result in results] == [
        (topic.name, code) for code, topic in asked
    ]
    assert all(result.error_message for result in results[1:])
    assert "retention.ms" in results[7].error_message
    assert partition_count(wire, f"{name}-new") == 1


def test_with_too_many_partitions_no_topic_of_a_request_is_created(wire: Wire, name: str) -> None:
    api = Api(CREATE_TOPICS, 7)
    counts = {f"{name}-one": 1, f"{name}-half": 5_000, f"{name}-rest": 5_000}
    topics = tuple(creatable(api, each, partitions=count) for each, count in counts.items())
    results = wire.ask(api.request(topics=topics, timeout=TIMEOUT)).topics
    refused = ErrorCode.policy_violation
    assert [(one.name, one.error_code) for one in results] == [(each, refused) for each in counts]
    assert create(wire, f"{name}-one").error_code is ErrorCode.none  # it was not there


def test_a_topic_named_twice_is_refused_once(wire: Wire, name: str) -> None:
    api = Api(CREATE_TOPICS, 7)
    twice = creatable(api, name)
    response = wire.ask(api.request(topics=(twice, twice), timeout=TIMEOUT))
    assert [result.error_code for result in response.topics] == [ErrorCode.invalid_request]


def test_of_many_creators_one_succeeds(wire: Wire, name: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: create(wire, name), range(8)))
    codes = sorted(result.error_code for result in results)
    assert codes == [ErrorCode.none] + [ErrorCode.topic_already_exists] * 7


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(wire: Wire, name: str, version: int) -> None:
    create(wire, name, partitions=2)

    checked = add_partitions(wire, name, 9, version=version, check=True)
    assert checked.error_code is ErrorCode.none
    assert partition_count(wire, name) == 2

    added = add_partitions(wire, name, 4, version=version)
    assert (added.name, added.error_code, added.error_message) == (name, ErrorCode.none, None)
    assert partition_count(wire, name) == 4

    fewer = add_partitions(wire, name, 3, version=version)
    assert fewer.error_code is ErrorCode.invalid_partitions
    assert fewer.error_message

    nowhere = add_partitions(wire, f"{name}-not", 3, version=version)
    assert nowhere.error_code is ErrorCode.unknown_topic_or_partition


def test_a_topic_grows_by_the_replicas_that_it_shows(wire: Wire, name: str) -> None:
    # Given a topic of which fewer replicas are shown than it was made with: there is but one broker
    create(wire, name, replicas=3)
    ((described,), _) = partitions_of(wire, name)
    shown = described.partitions[0].replica_nodes
    assert shown == (0,)

    # When it grows by as many, or by as many as it was made with, then it does
    assert add_partitions(wire, name, 2, assignments=[shown]).error_code is ErrorCode.none
    assert add_partitions(wire, name, 3, assignments=[(0, 1, 2)]).error_code is ErrorCode.none
    assert partition_count(wire, name) == 3

    # When it is to grow by another number, then tools are told which it can be
    refused = add_partitions(wire, name, 4, assignments=[(0, 1)])
    assert refused.error_code is ErrorCode.invalid_replica_assignment
    assert "1 or 3 replica(s)" in refused.error_message


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_gone_when_its_deletion_is_answered(wire: Wire, name: str, version: int) -> None:
    create(wire, name)

    results = delete(wire, name, f"{name}-not", version=version)

    assert [(result.name, result.error_code) for result in results] == [
        (name, ErrorCode.none),
        (f"{name}-not", ErrorCode.unknown_topic_or_partition),
    ]
    (again,) = delete(wire, name, version=version)
    assert again.error_code is ErrorCode.unknown_topic_or_partition


def test_a_topic_made_again_has_another_id(wire: Wire, name: str) -> None:
    first = create(wire, name).topic_id
    deleted = delete_by_id(wire, first)
    assert (deleted.name, deleted.topic_id, deleted.error_code) == (name, first, ErrorCode.none)

    second = create(wire, name).topic_id

    assert second != first
    assert delete_by_id(wire, first).error_code is ErrorCode.unknown_topic_id
    assert partition_count(wire, name) == 1


def test_an_id_that_nobody_has_is_unknown(wire: Wire) -> None:
    assert delete_by_id(wire, uuid4()).error_code is ErrorCode.unknown_topic_id
