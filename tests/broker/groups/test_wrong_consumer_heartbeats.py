"""ConsumerGroupHeartbeats that do not say what they have to (KIP-848)."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from coordinator.config import MAX_MEMBER_BYTES
from tests.support.group_wire import CONSUMER_GROUP_DESCRIBE, consumer_heartbeat_request, named
from tests.support.wire import WireClient, milliseconds

INVALID = ErrorCode.invalid_request
LONG_NAMES = tuple(f"{number:032000}" for number in range(MAX_MEMBER_BYTES // 32_000 + 1))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"group": ""}, INVALID),
        ({"member_id": " "}, INVALID),
        ({"member_id": "", "version": 0, "epoch": 1}, INVALID),
        ({"member_id": "", "version": 0, "epoch": -1}, INVALID),
        ({"instance_id": ""}, INVALID),
        ({"rack_id": ""}, INVALID),
        ({"epoch": -3}, INVALID),
        ({"epoch": -2}, INVALID),  # a static member that will be back has an instance id
        ({"rebalance_timeout": milliseconds(-1)}, INVALID),
        ({"topic_partitions": None}, INVALID),
        ({"owned": {UUID(int=1): [0]}}, INVALID),
        ({"subscribed_topic_names": None}, INVALID),
        ({"subscribed_topic_names": LONG_NAMES}, INVALID),
        ({"server_assignor": "sticky"}, ErrorCode.unsupported_assignor),
        ({"subscribed_topic_regex": "("}, ErrorCode.invalid_regular_expression),
        ({"epoch": 5}, ErrorCode.group_id_not_found),
        ({"epoch": -1}, ErrorCode.group_id_not_found),
    ],
)
async def test_a_wrong_heartbeat_is_told_why(
    client: WireClient, group: str, wrong: dict[str, Any], code: ErrorCode
) -> None:
    values: dict[str, Any] = {"subscribed_topic_names": ("t",), **wrong}
    request = consumer_heartbeat_request(
        values.pop("group", group),
        values.pop("member_id", "me"),
        values.pop("epoch", 0),
        version=values.pop("version", 1),
        **values,
    )
    answer = await client.ask(request)
    assert answer.error_code is code
    assert answer.error_message
    # and nothing came of it
    request = named(
        CONSUMER_GROUP_DESCRIBE, 1, group_ids=(group,), include_authorized_operations=False
    )
    (described,) = (await client.ask(request)).groups
    assert described.error_message == f"Group {group} not found."
