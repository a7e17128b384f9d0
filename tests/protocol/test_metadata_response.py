"""Our Metadata responses against the generic codec, every version."""

from operator import mul
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.serial import entity_reader
from kio.static.constants import EntityType

from protocol.metadata_response import (
    FIRST_FLEXIBLE,
    BrokerAnswer,
    MetadataAnswer,
    PartitionAnswer,
    Placement,
    TopicAnswer,
    encode_metadata,
)
from protocol.throttle_time import throttle_time

VERSIONS = range(14)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=200)
NODES = st.lists(INT32, max_size=3).map(tuple)
PLACES = st.builds(Placement, INT32, INT32, NODES, NODES)
COUNTS = st.sampled_from([126, 127, 300])  # a length of one byte, and of two
PARTITIONS = st.builds(PartitionAnswer, st.sampled_from([0, 5, 72]), INT32, PLACES)
TOPICS = st.builds(
    TopicAnswer,
    error_code=st.sampled_from([0, 3, 100]),
    name=TEXT | st.none(),
    topic_id=st.uuids() | st.none(),
    partitions=st.lists(PARTITIONS, max_size=3) | st.builds(mul, st.tuples(PARTITIONS), COUNTS),
    operations=INT32,
)
BROKERS = st.builds(
    BrokerAnswer, node_id=INT32, host=TEXT, port=INT32, rack=st.none() | st.just("a")
)
ANSWERS = st.builds(
    MetadataAnswer,
    brokers=st.lists(BROKERS, max_size=3),
    cluster_id=TEXT | st.none(),
    controller_id=INT32,
    topics=st.lists(TOPICS, max_size=3),
    operations=INT32,
    error_code=st.sampled_from([0, 31]),
    throttle_ms=st.sampled_from([0, 1_000]),
)


@pytest.mark.parametrize("version", VERSIONS)
@given(answer=ANSWERS)
def test_a_response_is_read_by_the_generic_codec(version: int, answer: MetadataAnswer) -> None:
    # When the frame is put together
    frame = encode_metadata(77, version, answer)

    # Then the generic codec reads the same, to the last byte
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == 77
    module: Any = load_payload_module(3, version, EntityType.response)
    body = 9 if version >= FIRST_FLEXIBLE else 8
    read, size = entity_reader(module.MetadataResponse)(frame, body)
    assert body + size == len(frame)
    assert version < 3 or read.throttle_time == throttle_time(answer.throttle_ms)
    for broker, seen in zip(answer.brokers, read.brokers, strict=True):
        assert (seen.node_id, seen.host, seen.port) == (broker.node_id, broker.host, broker.port)
        assert version < 1 or seen.rack == broker.rack
    assert version < 2 or read.cluster_id == answer.cluster_id
    assert version < 1 or read.controller_id == answer.controller_id
    assert not 8 <= version <= 10 or read.cluster_authorized_operations == answer.operations
    assert version < 13 or read.error_code == answer.error_code
    for topic, seen in zip(answer.topics, read.topics, strict=True):
        check_topic(version, topic, seen)


def check_topic(version: int, topic: TopicAnswer, seen: Any) -> None:
    assert seen.error_code == topic.error_code
    assert seen.name == (topic.name if version >= 12 else topic.name or "")
    assert version < 10 or seen.topic_id == topic.topic_id
    assert version < 1 or seen.is_internal is False
    assert version < 8 or seen.topic_authorized_operations == topic.operations
    for partition, found in zip(topic.partitions, seen.partitions, strict=True):
        place = partition.placement
        assert (found.error_code, found.partition_index) == partition[:2]
        assert found.leader_id == place.leader_id
        assert version < 7 or found.leader_epoch == place.leader_epoch
        offline = () if version == 0 else place.offline  # its clients know no other brokers
        assert found.replica_nodes == place.in_sync + offline
        assert found.isr_nodes == place.in_sync
        assert version < 5 or found.offline_replicas == place.offline
