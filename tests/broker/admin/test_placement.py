"""ElectLeaders and the reassignment of partitions: nothing moves, and tools are told so."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.admin.questions import create
from tests.broker.admin.wire import TIMEOUT, Api, Wire

ELECT_LEADERS = 43
ALTER_REASSIGNMENTS = 45
LIST_REASSIGNMENTS = 46
PREFERRED, UNCLEAN = 0, 1
UNKNOWN = ErrorCode.unknown_topic_or_partition


def elect(
    wire: Wire, asked: Iterable[tuple[str, Sequence[int]]] | None, *, kind: int, version: int = 2
) -> Any:
    api = Api(ELECT_LEADERS, version)
    partitions = None
    if asked is not None:
        partitions = tuple(
            api.part("TopicPartitions", topic=name, partitions=tuple(indexes))
            for name, indexes in asked
        )
    return wire.ask(api.request(election_type=kind, topic_partitions=partitions, timeout=TIMEOUT))


def codes(answer: Any) -> dict[str, dict[int, ErrorCode]]:
    return {
        topic.topic: {each.partition_id: each.error_code for each in topic.partition_result}
        for topic in answer.replica_election_results
    }


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
@pytest.mark.parametrize("version", range(3))
def test_no_election_is_needed(wire: Wire, name: str, version: int, kind: int) -> None:
    create(wire, name, partitions=2)
    answer = elect(wire, [(name, (0, 1, 2)), ("no-such", (0,))], kind=kind, version=version)
    needless = ErrorCode.election_not_needed
    assert codes(answer) == {name: {0: needless, 1: needless, 2: UNKNOWN}, "no-such": {0: UNKNOWN}}
    assert all(
        each.error_message
        for topic in answer.replica_election_results
        for each in topic.partition_result
    )
    assert version == 0 or answer.error_code is ErrorCode.none


def test_of_all_partitions_only_topics_are_named(wire: Wire, name: str) -> None:
    create(wire, name, partitions=2)
    assert codes(elect(wire, None, kind=PREFERRED))[name] == {}
    assert codes(elect(wire, [], kind=PREFERRED)) == {}


def test_an_election_of_no_kind_is_refused(wire: Wire, name: str) -> None:
    create(wire, name)
    answer = elect(wire, [(name, (0,))], kind=7)
    assert answer.error_code is ErrorCode.invalid_request
    assert codes(answer) == {name: {0: ErrorCode.invalid_request}}
    of_all = elect(wire, None, kind=7)
    assert (of_all.error_code, codes(of_all)) == (ErrorCode.invalid_request, {})


def reassign(
    wire: Wire,
    name: str,
    replicas: Sequence[int] | None,
    *,
    partition: int = 0,
    version: int = 1,
    may_change_count: bool = True,
) -> Any:
    """Return the partition's part of the answer."""
    api = Api(ALTER_REASSIGNMENTS, version)
    wanted = None if replicas is None else tuple(replicas)
    one = api.part("ReassignablePartition", partition_index=partition, replicas=wanted)
    answer = wire.ask(
        api.request(
            timeout=TIMEOUT,
            allow_replication_factor_change=may_change_count,
            topics=(api.part("ReassignableTopic", name=name, partitions=(one,)),),
        )
    )
    assert answer.error_code is ErrorCode.none
    assert version == 0 or answer.allow_replication_factor_change is may_change_count
    ((result,),) = (topic.partitions for topic in answer.responses)
    assert (result.error_message is None) == (result.error_code is ErrorCode.none)
    return result


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_so_already_is_done(wire: Wire, name: str, version: int) -> None:
    create(wire, name, replicas=2)  # there is but one broker
    assert reassign(wire, name, [0], version=version).error_code is ErrorCode.none


@pytest.mark.parametrize(
    "replicas", [[7], [0, 7], [0, 0], [-1], []], ids=["other", "more", "twice", "negative", "none"]
)
def test_what_cannot_be_is_refused(wire: Wire, name: str, replicas: list[int]) -> None:
    create(wire, name)
    assert reassign(wire, name, replicas).error_code is ErrorCode.invalid_replica_assignment


def test_what_is_not_there_is_not_reassigned(wire: Wire, name: str) -> None:
    create(wire, name)
    assert reassign(wire, name, [0], partition=1).error_code is UNKNOWN
    assert reassign(wire, "no-such-topic", [0]).error_code is UNKNOWN
    assert reassign(wire, "no-such-topic", None).error_code is UNKNOWN


def test_nothing_is_on_its_way(wire: Wire, name: str) -> None:
    # Given a partition that was reassigned
    create(wire, name)
    assert reassign(wire, name, [0]).error_code is ErrorCode.none

    # Then there is nothing to cancel, and nothing to list
    assert reassign(wire, name, None).error_code is ErrorCode.no_reassignment_in_progress
    api = Api(LIST_REASSIGNMENTS, 0)
    named = api.part("ListPartitionReassignmentsTopics", name=name, partition_indexes=(0, 9))
    for topics in (None, (), (named,)):
        answer = wire.ask(api.request(timeout=TIMEOUT, topics=topics))
        assert (answer.error_code, answer.topics) == (ErrorCode.none, ())
