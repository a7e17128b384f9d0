"""Long answers are encoded by a thread: the event loop is everybody's."""

import threading
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker import encoding
from broker.requests import NOT_THROTTLED
from protocol.codec import ResponseTypes, encode_response


def described_configs(topics: int) -> Payload:
    types: Any = ResponseTypes(32, 4)
    config = types.DescribeConfigsResourceResult(
        name="retention.ms",
        value="1",
        read_only=False,
        config_source=5,
        is_sensitive=False,
        synonyms=(types.DescribeConfigsSynonym(name="log.retention.ms", value="1", source=5),),
        config_type=5,
        documentation=None,
    )
    result = types.DescribeConfigsResult(
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=2,
        resource_name="orders",
        configs=(config,) * 30,
    )
    response: Payload = types.DescribeConfigsResponse(
        throttle_time=NOT_THROTTLED, results=(result,) * topics
    )
    return response


def described_group(partitions: int) -> Payload:
    types: Any = ResponseTypes(69, 1)
    nothing = types.Assignment(topic_partitions=())
    held = types.TopicPartitions(
        topic_id=None, topic_name="orders", partitions=tuple(range(partitions))
    )
    member = types.Member(
        member_id="m",
        instance_id=None,
        rack_id=None,
        member_epoch=1,
        client_id="c",
        client_host="h",
        subscribed_topic_names=("orders",),
        subscribed_topic_regex="",
        assignment=nothing,
        target_assignment=types.Assignment(topic_partitions=(held,)),
        member_type=1,
    )
    group = types.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id="g",
        group_state="Stable",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="uniform",
        members=(member,),
        authorized_operations=0,
    )
    response: Payload = types.ConsumerGroupDescribeResponse(
        throttle_time=NOT_THROTTLED, groups=(group,)
    )
    return response


@pytest.mark.parametrize(
    ("response", "is_long"),
    [
        (described_configs(1), False),
        (described_configs(8), False),
        (described_configs(9), True),
        (described_configs(1_000), True),
        (described_group(400), False),
        (described_group(600), True),
    ],
)
async def test_a_thread_encodes_what_is_long_however_it_is_nested(
    response: Payload, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given who tells where an answer is encoded
    places: list[bool] = []

    def encode(correlation_id: int, response: Payload) -> bytes:
        places.append(threading.current_thread() is not threading.main_thread())
        return encode_response(correlation_id, response)

    monkeypatch.setattr(encoding, "encode_response", encode)

    # When it is encoded, then a thread does it if it has many entries
    frame = await encoding.encoded(7, response)
    assert places == [is_long]
    assert frame == encode_response(7, response)
