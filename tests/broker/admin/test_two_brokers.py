"""What tools are told by several brokers, together and after one of them has gone."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.broker.admin.pair import Pair
from tests.broker.admin.questions import (
    APPEND,
    BROKER,
    DESCRIBE_CLUSTER,
    SET,
    TOPIC,
    add_partitions,
    change,
    create,
    partitions_of,
)
from tests.broker.admin.questions import describe as describe_configs
from tests.broker.admin.test_log_dirs import describe, sizes
from tests.broker.admin.test_placement import reassign
from tests.broker.admin.test_quorum import METADATA, UNREGISTER_BROKER, quorum
from tests.broker.admin.wire import Api, Wire
from tests.support.wire import WireClient

PARTITIONS: Final = 8
METADATA_API: Final = 3
DEFAULT_CONFIG: Final = 5
SEEN_S: Final = 20.0
GLANCE_S: Final = 0.05


@pytest.mark.parametrize(
    ("kind", "config"), [(TOPIC, "leader.replication.throttled.replicas"), (16, "metrics")]
)
def test_items_that_are_appended_at_a_time_are_all_there(
    pair: Pair, kind: int, config: str
) -> None:
    # Given a topic, and a subscription
    wires, name = pair.wires, f"appended-{kind}"
    assert kind != TOPIC or create(wires[0], name).error_code is ErrorCode.none

    # When clients of both brokers append items to a list at the same time
    def append(item: int) -> ErrorCode:
        code: ErrorCode = change(
            wires[item % 2], name, (config, APPEND, f"{item}:0"), kind=kind
        ).error_code
        return code

    with ThreadPoolExecutor(8) as clients:
        codes = list(clients.map(append, range(40)))

    # Then all that was answered without an error is there, whichever broker is asked
    assert set(codes) == {ErrorCode.none}
    for wire in wires:
        (found,) = describe_configs(wire, name, kind=kind, keys=(config,)).configs
        assert set(found.value.split(",")) == {f"{item}:0" for item in range(40)}


def _create(pair: Pair, topic: str, partitions: int = 1) -> None:
    """Create a topic of two replicas at one broker."""
    assert create(pair.wires[0], topic, partitions=partitions, replicas=2).error_code == 0


async def test_each_byte_is_told_of_once(pair: Pair, topic: str) -> None:
    # Given a topic of two replicas on two brokers, each partition with a batch
    one, other = pair.wires
    _create(pair, topic, PARTITIONS)
    ((described,), _) = partitions_of(one, topic)
    leaders = {each.partition_index: each.leader_id for each in described.partitions}
    assert set(leaders.values()) == {0, 1}
    batch = build_batch([Record(offset_delta=0, value=b"value")])
    async with await WireClient.connect(pair.brokers[0].bootstrap) as client:
        for index in range(PARTITIONS):
            assert (await client.produce(topic, batch, partition=index)).error_code == 0

    # When both are asked for their log directories
    told = [sizes(describe(wire, [(topic, range(PARTITIONS))]))[topic] for wire in (one, other)]

    # Then each tells of those that it leads
    assert told == [
        {index: len(batch) for index, leader in leaders.items() if leader == node_id}
        for node_id in (0, 1)
    ]
    assert describe(one, None).log_dir == describe(other, None).log_dir


def test_a_partition_stays_where_the_brokers_agree_that_it_is(pair: Pair, topic: str) -> None:
    # Given a partition and its replicas, as all tools see them
    one, other = pair.wires
    _create(pair, topic)
    ((described,), _) = partitions_of(one, topic)
    replicas = described.partitions[0].replica_nodes
    assert sorted(replicas) == [0, 1]

    # When it is to be where it is, then that is done
    for wire in (one, other):
        assert reassign(wire, topic, replicas).error_code is ErrorCode.none

    # When it is to be elsewhere, then tools are told that it stays
    for wanted in (replicas[::-1], replicas[:1], replicas[1:]):
        refused = reassign(other, topic, wanted)
        assert refused.error_code is ErrorCode.invalid_replica_assignment
        assert f"stays on {list(replicas)}" in refused.error_message
    fewer = reassign(one, topic, replicas[:1], may_change_count=False)
    assert fewer.error_code is ErrorCode.invalid_replication_factor
    ((unmoved,), _) = partitions_of(one, topic)
    assert unmoved.partitions[0].replica_nodes == replicas


async def test_a_broker_that_is_gone_is_fenced_until_it_is_forgotten(
    pair: Pair, topic: str
) -> None:
    # Given two brokers in a quorum, the second of which has stopped, and a topic made for more
    one, other = pair.wires
    assert create(one, topic, replicas=3).error_code == 0
    assert voters(one) == [0, 1]
    small = ("message.max.bytes", SET, "5000")
    assert change(other, "1", small, kind=BROKER).error_code is ErrorCode.none
    assert pair.brokers.pop().stop() == 0
    async with asyncio.timeout(SEEN_S):
        while voters(one) != [0]:
            await asyncio.sleep(GLANCE_S)

    # Then who asks for fenced brokers sees it
    assert fenced(one, asked=True) == {0: False, 1: True}
    assert fenced(one, asked=False) == {0: False}

    # And topics keep their replicas, of which tools hear that one is offline
    assert replicas(one, topic) == {((0, 1), (0,), (1,))}
    assert reassign(one, topic, (0, 1)).error_code is ErrorCode.none
    assert reassign(one, topic, (0,)).error_code is ErrorCode.invalid_replica_assignment
    assert add_partitions(one, topic, 2, assignments=[(0, 1)]).error_code is ErrorCode.none

    # When it is unregistered, then it is gone for good
    unregister = Api(UNREGISTER_BROKER, 0).request(broker_id=1)
    assert one.ask(unregister).error_code is ErrorCode.none
    assert fenced(one, asked=True) == {0: False}
    assert one.ask(unregister).error_code is ErrorCode.broker_id_not_registered
    async with asyncio.timeout(SEEN_S):
        while replicas(one, topic) != {((0,), (0,), ())}:
            await asyncio.sleep(GLANCE_S)

    # And another broker that gets its node id has none of the configs that were set of it
    await pair.start("c")
    (config,) = describe_configs(pair.wires[1], "1", kind=BROKER, keys=small[:1]).configs
    assert config.config_source == DEFAULT_CONFIG


def voters(wire: Wire) -> list[int]:
    answer: Any = quorum(wire, (METADATA, (0,)))
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert [node.node_id for node in answer.nodes] == [
        voter.replica_id for voter in partition.current_voters
    ]
    return [voter.replica_id for voter in partition.current_voters]


def replicas(wire: Wire, topic: str) -> set[tuple[Any, ...]]:
    """Return all replicas, those in sync and those that are offline, as any partition has them."""
    ((described,), _) = partitions_of(wire, topic)
    partitions = list(described.partitions)
    for version in (5, 13):
        partitions += metadata(wire, topic, version)
    offline = {one.offline_replicas for one in partitions}
    partitions += metadata(wire, topic, 4)  # has none to tell of them
    return {(one.replica_nodes, one.isr_nodes, gone) for one in partitions for gone in offline}


def metadata(wire: Wire, topic: str, version: int) -> Sequence[Any]:
    """Return the partitions of a topic."""
    api = Api(METADATA_API, version)
    asked = (api.part("MetadataRequestTopic", topic_id=None, name=topic),)
    request = api.request(
        topics=asked,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    partitions: Sequence[Any] = wire.ask(request).topics[0].partitions
    return partitions


def fenced(wire: Wire, *, asked: bool) -> dict[int, bool]:
    """Return the brokers of the cluster, and whether each is fenced."""
    request = Api(DESCRIBE_CLUSTER, 2).request(
        include_cluster_authorized_operations=False,
        endpoint_type=1,
        include_fenced_brokers=asked,
    )
    return {broker.broker_id: broker.is_fenced for broker in wire.ask(request).brokers}
