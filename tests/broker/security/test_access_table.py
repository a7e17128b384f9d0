"""Every API, asked by clients without an ACL, with just what it needs, and with a denial of that.

The table is access_table.py: an API that has no row there fails a test.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from broker.api_table import APIS, Access
from protocol.acl import Operation, ResourceType
from tests.broker.security.access_rows import NO_CODE, Need, Row
from tests.broker.security.access_table import OPEN_ROWS, ROWS, TOKEN_ROWS
from tests.broker.security.row_client import (
    ALLOWED,
    FIRST_DENIED,
    NO_ACL,
    Answered,
    RowClient,
    at,
    codes_of,
    prepare_all,
)
from tests.support.access import AUTHORIZER
from tests.support.broker import BrokerProcess, running_broker

Clients = Mapping[Row, RowClient]

RESTRICTED: Final = [row for row in ROWS if row.needs]
REFUSALS: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.delegation_token_authorization_failed,
    }
)
CODE_AT: Final = slice(5, 7)
"""Where answers about tokens, which the codec does not read, have their error code."""


@pytest.fixture(scope="module", name="secured")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = AUTHORIZER | {"group.initial.rebalance.delay.ms": "0"}
    arguments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    with running_broker(tmp_path_factory.mktemp("access-table"), *arguments) as running:
        yield running


@pytest.fixture(scope="module")
def clients(secured: BrokerProcess) -> Clients:
    found = {row: RowClient(secured.bootstrap, row, number) for number, row in enumerate(ROWS)}
    asyncio.run(prepare_all(secured.bootstrap, list(found.values())))
    return found


def test_every_api_has_a_row() -> None:
    assert {row.api_key for row in ROWS} == APIS.keys()


def test_the_table_and_dispatch_agree_about_access() -> None:
    for row in RESTRICTED:
        access = APIS[row.api_key].access
        assert access is not Access.OPEN
        if isinstance(access, Operation):
            first = row.needs[0]
            assert (first.operation, first.resource_type) == (access, ResourceType.CLUSTER)
    assert {row.api_key for row in OPEN_ROWS} == {
        key for key, api in APIS.items() if api.access is Access.OPEN
    }


@pytest.mark.parametrize("row", RESTRICTED, ids=str)
async def test_a_request_needs_its_acls(row: Row, clients: Clients) -> None:
    client, version = clients[row], row.version or APIS[row.api_key].high
    before = await client.state()

    # Given a client without any ACL, when it asks
    answer = await client.ask(NO_ACL, version)

    # Then it is refused for the first ACL that is asked for
    assert is_denied(answer, row.needs[0], client), answer.response

    for index, need in enumerate(row.needs):
        # Given one that has all ACLs, and one that denies what one of them allows, when it asks
        answer = await client.ask(FIRST_DENIED + index, version)

        # Then it is refused for that
        assert is_denied(answer, need, client), answer.response

    # And nothing was done
    assert await client.state() == before

    # Given one that has just the ACLs, when it asks
    answer = await client.ask(ALLOWED, version)

    # Then nothing is refused, and it is done
    assert not REFUSALS.intersection(codes_of(answer.response)), answer.response
    assert not any(is_denied(answer, need, client) for need in row.needs), answer.response
    assert (await client.state() != before) is row.changes


@pytest.mark.parametrize("row", OPEN_ROWS, ids=str)
async def test_anybody_may_ask_what_needs_no_acl(row: Row, clients: Clients) -> None:
    answer = await clients[row].ask(NO_ACL, APIS[row.api_key].high)
    assert not REFUSALS.intersection(codes_of(answer.response))


@pytest.mark.parametrize("row", TOKEN_ROWS, ids=str)
async def test_nobody_gets_a_token(row: Row, clients: Clients) -> None:
    frame = await clients[row].send(NO_ACL, APIS[row.api_key].high)
    code = ErrorCode(int.from_bytes(frame[CODE_AT]))
    assert code is ErrorCode.delegation_token_request_not_allowed


def is_denied(answer: Answered, need: Need, client: RowClient) -> bool:
    """Whether an answer is what somebody gets without one of the ACLs."""
    if not need.at:
        return client.memory.resolve(need.name).encode() not in answer.frame
    if need.code is NO_CODE:
        return bool(at(answer.response, need.at) == need.hidden)
    return bool(at(answer.response, need.at) == need.code)
