"""DescribeQuorum, UpdateFeatures and UnregisterBroker over the wire."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.admin.questions import create
from tests.broker.admin.wire import TIMEOUT, Api, Wire

DESCRIBE_QUORUM = 55
UPDATE_FEATURES = 57
UNREGISTER_BROKER = 64
METADATA = "__cluster_metadata"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def quorum(wire: Wire, *asked: tuple[str, Sequence[int]], version: int = 2) -> Any:
    api = Api(DESCRIBE_QUORUM, version)
    topics = tuple(
        api.part(
            "TopicData",
            topic_name=name,
            partitions=tuple(api.part("PartitionData", partition_index=index) for index in indexes),
        )
        for name, indexes in asked
    )
    answer = wire.ask(api.request(topics=topics))
    assert answer.error_code is ErrorCode.none
    return answer


def end_offset(answer: Any) -> int:
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert {voter.log_end_offset for voter in partition.current_voters} == {
        partition.high_watermark
    }
    return int(partition.high_watermark)


@pytest.mark.parametrize("version", range(3))
def test_live_brokers_are_voters_who_know_it_all(wire: Wire, name: str, version: int) -> None:
    # When the quorum is described, and again after a change of the metadata
    before = quorum(wire, (METADATA, (0,)), version=version)
    create(wire, name)
    after = quorum(wire, (METADATA, (0,)), version=version)

    # Then the broker leads it, and its log has grown
    ((partition,),) = (topic.partitions for topic in after.topics)
    assert (partition.error_code, partition.leader_id) == (ErrorCode.none, 0)
    assert [voter.replica_id for voter in partition.current_voters] == [0]
    assert partition.observers == ()
    assert end_offset(after) > end_offset(before) >= 0
    if version >= 1:
        (voter,) = partition.current_voters
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp
        assert abs(voter.last_fetch_timestamp - time.time() * 1000) < 60_000
    if version >= 2:
        ((listener,),) = (node.listeners for node in after.nodes)
        assert (listener.host, listener.port) == (wire.host, wire.port)


@pytest.mark.parametrize(
    "asked",
    [[("other", (0,))], [(METADATA, (1,))], [(METADATA, (0, 1))], [(METADATA, (0,)), ("a", (0,))]],
)
def test_nothing_else_has_a_quorum(wire: Wire, asked: list[tuple[str, Sequence[int]]]) -> None:
    answer = quorum(wire, *asked)
    assert answer.nodes == ()
    assert {each.error_code for topic in answer.topics for each in topic.partitions} == {
        ErrorCode.unknown_topic_or_partition
    }


def update(wire: Wire, *asked: tuple[str, int, int], version: int = 2, check: bool = False) -> Any:
    api = Api(UPDATE_FEATURES, version)
    updates = tuple(
        api.part(
            "FeatureUpdateKey",
            feature=feature,
            max_version_level=level,
            upgrade_type=kind,
            allow_downgrade=kind != UPGRADE,
        )
        for feature, level, kind in asked
    )
    return wire.ask(api.request(timeout=TIMEOUT, feature_updates=updates, validate_only=check))


@pytest.mark.parametrize("version", range(3))
def test_a_feature_can_be_what_it_is(wire: Wire, version: int) -> None:
    for kind in (UPGRADE, SAFE_DOWNGRADE):
        answer = update(wire, ("group.version", 1, kind), version=version)
        assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
        if version < 2:
            (result,) = answer.results
            assert (result.feature, result.error_code) == ("group.version", ErrorCode.none)
    assert update(wire, version=version).error_code is ErrorCode.none


@pytest.mark.parametrize(
    "asked",
    [
        ("group.version", 2, UPGRADE),
        ("group.version", 0, SAFE_DOWNGRADE),
        ("transaction.version", 1, UNSAFE_DOWNGRADE),
        ("metadata.version", 29, UNSAFE_DOWNGRADE),
        ("group.version", 1, 7),
        ("share.version", 1, UPGRADE),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_a_feature_stays_what_it_is(wire: Wire, asked: tuple[str, int, int], check: bool) -> None:
    answer = update(wire, ("transaction.version", 2, UPGRADE), asked, check=check)
    assert answer.error_code is ErrorCode.invalid_update_version
    assert asked[0] in answer.error_message


@pytest.mark.parametrize(
    ("node_id", "code"),
    [
        (0, ErrorCode.invalid_request),
        (99, ErrorCode.broker_id_not_registered),
        (-5, ErrorCode.broker_id_not_registered),
    ],
)
def test_only_a_broker_that_is_gone_can_be_forgotten(
    wire: Wire, node_id: int, code: ErrorCode
) -> None:
    answer = wire.ask(Api(UNREGISTER_BROKER, 0).request(broker_id=node_id))
    assert answer.error_code is code
    assert str(node_id) in answer.error_message
