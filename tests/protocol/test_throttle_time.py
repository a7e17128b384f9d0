"""The throttle time that is put into an answer that is encoded already."""

from typing import Any
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from protocol.fetch_response import PartitionAnswer, TopicAnswer, encode_fetch
from protocol.leader_hints import CurrentLeader
from protocol.metadata_response import BrokerAnswer
from protocol.produce import TopicData
from protocol.produce_response import FIRST_HINTED, PartitionResult, encode_produce
from protocol.throttle_time import put_throttle_time, throttle_time
from tests.protocol.leader_hints import whole

PRODUCE, FETCH = 0, 1
TOPIC_ID = UUID(int=7)


def decoded(api_key: int, version: int, frame: bytes) -> Any:
    kind: Any = load_response_schema(api_key, version)
    start = 9 if kind.__flexible__ else 8
    response, size = entity_reader(kind)(frame, start)
    assert start + size == len(frame)
    return response


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_has_it_at_the_end(version: int) -> None:
    topic_id = TOPIC_ID if version >= 13 else None
    topics = [(TopicData("a", topic_id, []), [PartitionResult(3)])]
    frame = whole(encode_produce(1, version, topics))
    throttled = b"".join(put_throttle_time(PRODUCE, version, frame, 1234))
    before, after = (decoded(PRODUCE, version, one) for one in (frame, throttled))
    assert after.throttle_time == throttle_time(1234)
    assert after.responses == before.responses
    assert throttled[:8] == frame[:8]


@pytest.mark.parametrize("version", range(FIRST_HINTED, 14))
def test_produce_has_it_before_the_leaders_that_it_names(version: int) -> None:
    topic_id = TOPIC_ID if version >= 13 else None
    result = PartitionResult(3, leader=CurrentLeader(1, 2))
    nodes = [BrokerAnswer(node_id=1, host="h", port=9092, rack=None)]
    frame = encode_produce(1, version, [(TopicData("a", topic_id, []), [result])], nodes)
    throttled = b"".join(put_throttle_time(PRODUCE, version, frame, 1234))
    before, after = (decoded(PRODUCE, version, one) for one in (whole(frame), throttled))
    assert after.throttle_time == throttle_time(1234)
    assert after.responses == before.responses
    assert after.node_endpoints == before.node_endpoints


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_has_it_at_the_beginning(version: int) -> None:
    records = PartitionAnswer(3, records=[memoryview(b"records")], size=7)
    topics = [TopicAnswer("a", TOPIC_ID, [records])]
    frame = encode_fetch(1, version, topics)
    throttled = put_throttle_time(FETCH, version, frame, 2**31 - 1)
    before, after = (decoded(FETCH, version, b"".join(one)) for one in (frame, throttled))
    assert after.throttle_time == throttle_time(2**31 - 1)
    assert after.responses == before.responses


def test_an_answer_without_the_field_stays_as_it_is() -> None:
    assert put_throttle_time(3, 2, b"metadata", 5) == [b"metadata"]
