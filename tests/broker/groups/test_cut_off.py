"""Brokers that hear nothing from Postgres any more: one of two, and both."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.groups.conftest import SETTINGS, coordinator
from tests.support.group_members import Member, stable
from tests.support.host import Stopwatch
from tests.support.lossy_proxy import LossyProxy
from tests.support.postgres import create_empty_database
from tests.support.proxied_brokers import ProxiedBroker, proxied_broker
from tests.support.wire import WireClient

NONE = ErrorCode.none
GROUP = "g"
PATIENCE_S = 30.0
SESSION_MS = 6_000
SENT_AWAY_S = 7.0
"""Before another broker misses a member of the shortest session that stays here: 2.2 s and 6 s."""


@dataclass(slots=True)
class Seat:
    """A broker, and a member of the group that is its client."""

    proxied: ProxiedBroker
    member: Member

    @property
    def client(self) -> WireClient:
        return self.proxied.client

    @property
    def postgres(self) -> LossyProxy:
        return self.proxied.postgres


@asynccontextmanager
async def seat(home: Path, dsn: str, store: str) -> AsyncIterator[Seat]:
    async with proxied_broker(home, dsn, store, *SETTINGS) as proxied:
        yield Seat(proxied, Member(proxied.client, GROUP, session_timeout_ms=SESSION_MS))


@pytest.fixture
async def seats(tmp_path: Path) -> AsyncIterator[tuple[Seat, Seat]]:
    """Return that of the broker that coordinates the group, and the other one."""
    dsn = await create_empty_database()
    store = f"file://{tmp_path / 'objects'}"
    async with seat(tmp_path / "one", dsn, store) as one, seat(tmp_path / "two", dsn, store) as two:
        async with asyncio.timeout(PATIENCE_S):
            while await coordinator(one.client, GROUP) != await coordinator(two.client, GROUP):
                await asyncio.sleep(0.01)
        is_first = await coordinator(one.client, GROUP) == one.proxied.broker.port
        yield (one, two) if is_first else (two, one)


async def heartbeats_until(member: Member, code: ErrorCode) -> float:
    """Heartbeat until that is the answer, NONE or NOT_COORDINATOR before; return when that was."""
    answer = -1
    async with asyncio.timeout(PATIENCE_S):
        while answer != code:
            await asyncio.sleep(0.05)
            answer = await member.heartbeat()
            assert answer in {NONE, ErrorCode.not_coordinator, code}
    return time.monotonic()


async def test_who_alone_is_cut_off_sends_members_to_who_took_over(
    seats: tuple[Seat, Seat],
) -> None:
    # Given a member that commits nothing
    here, there = seats
    await stable(here.member)

    # When its coordinator alone hears nothing from Postgres any more
    here.postgres.lose_answers()
    stopwatch, began_s = Stopwatch(), time.monotonic()

    # Then it is sent away, in time, and goes on with the other broker in its generation
    took_s = await heartbeats_until(here.member, ErrorCode.not_coordinator) - began_s
    assert took_s < SENT_AWAY_S + stopwatch.waited_s()
    here.member.client = there.client
    await heartbeats_until(here.member, NONE)

    # And once Postgres answers, it goes on where it was
    here.postgres.cut()
    await heartbeats_until(here.member, ErrorCode.not_coordinator)
    here.member.client = here.client
    await heartbeats_until(here.member, NONE)
    assert here.member.generation_id == 1


async def test_while_postgres_is_away_for_everybody_no_member_is_missed(
    seats: tuple[Seat, Seat],
) -> None:
    # Given a member with a short session
    here, _ = seats
    await stable(here.member)

    # When no broker hears from Postgres, until the session is over that began last
    for one in seats:
        one.postgres.lose_answers()
    sent_away_s = await heartbeats_until(here.member, ErrorCode.not_coordinator)
    await asyncio.sleep(sent_away_s + SESSION_MS / 1000 - time.monotonic())
    assert await here.member.heartbeat() == ErrorCode.not_coordinator
    for one in seats:
        one.postgres.cut()

    # Then it goes on in its generation
    async with asyncio.timeout(PATIENCE_S):
        while await here.member.heartbeat() != NONE:
            await asyncio.sleep(0.05)
    assert here.member.generation_id == 1
