"""A large request whose client has gone before its turn came is not begun."""

import asyncio
from contextlib import AsyncExitStack
from typing import cast

import pytest

from broker import large_requests
from broker.large_requests import LARGEST, LargeRequests
from broker.network.client_session import ClientSession
from broker.network.refused_connections import CloseConnection
from broker.requests import Request
from broker.services import Services
from protocol.codec import RequestHeader
from protocol.errors import RequestTooLarge

LIST_OFFSETS = 2


@pytest.mark.parametrize(("turns", "places"), [("_decoding", 1), ("_largest", LARGEST)])
async def test_who_has_gone_has_no_turn(
    monkeypatch: pytest.MonkeyPatch, turns: str, places: int
) -> None:
    # Given others that have all turns, and a large request that waits for one
    decoded: list[int | None] = []

    async def decode(_: Request, largest_bytes: int | None) -> None:
        decoded.append(largest_bytes)
        raise RequestTooLarge("more than that")

    async def handle(_: Request) -> bytes:
        raise RequestTooLarge("much")

    monkeypatch.setattr(large_requests, "_decode", decode)
    large, session = LargeRequests(), ClientSession()
    async with AsyncExitStack() as others:
        for _ in range(places):
            await others.enter_async_context(getattr(large, turns).of("10.0.0.2"))
        waiting = asyncio.create_task(large.handle(request_of(session), handle))
        await asyncio.sleep(0.01)
        before = list(decoded)

        # When its client goes, and a turn comes
        session.end()

    # Then it is not begun
    with pytest.raises(CloseConnection):
        await waiting
    assert decoded == before


def request_of(session: ClientSession) -> Request:
    return Request(
        header=RequestHeader(
            api_key=LIST_OFFSETS, api_version=1, correlation_id=1, client_id="", body=0
        ),
        frame=bytearray(),
        services=cast("Services", None),
        peer="10.0.0.1:1",
        session=session,
        give_back=lambda: None,
    )
