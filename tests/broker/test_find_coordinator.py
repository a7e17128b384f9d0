"""FindCoordinator, every version and key type."""

from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.broker import BrokerProcess
from tests.support.wire import WireClient, build, request_entities

GROUP, TRANSACTION, SHARE = 0, 1, 2


async def find(
    wire: WireClient, version: int, key_type: int = GROUP, keys: Sequence[str] = ("g", "h")
) -> list[Any]:
    module = request_entities(10, version)
    request = build(
        module,
        "FindCoordinatorRequest",
        key=keys[0],
        key_type=key_type,
        coordinator_keys=tuple(keys),
    )
    response = await wire.ask(request)
    return list(response.coordinators) if version >= 4 else [response]


@pytest.mark.parametrize("version", range(7))
async def test_a_group_has_a_coordinator(
    broker: BrokerProcess, wire: WireClient, version: int
) -> None:
    for answer in await find(wire, version):
        assert answer.error_code == ErrorCode.none
        assert (answer.node_id, f"{answer.host}:{answer.port}") == (0, broker.bootstrap)


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_transactional_id_has_one(wire: WireClient, version: int) -> None:
    answers = await find(wire, version, TRANSACTION)
    assert {(answer.error_code, answer.node_id) for answer in answers} == {(ErrorCode.none, 0)}


async def test_several_keys_are_answered_in_order(wire: WireClient) -> None:
    assert [answer.key for answer in await find(wire, 6)] == ["g", "h"]


async def test_a_key_that_is_named_twice_is_answered_once(wire: WireClient) -> None:
    answers = await find(wire, 6, keys=["h", "g", "h"])
    assert [answer.key for answer in answers] == ["h", "g"]


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize("key_type", [SHARE, 7])
async def test_nothing_else_has_one(wire: WireClient, version: int, key_type: int) -> None:
    answers = await find(wire, version, key_type)
    assert {(answer.error_code, answer.node_id) for answer in answers} == {
        (ErrorCode.invalid_request, -1)
    }
