"""Groups whose coordinator goes while another broker is there to take over."""

import asyncio
import time
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.groups.conftest import coordinator
from tests.support.broker import BrokerProcess
from tests.support.group_members import Member, stable
from tests.support.group_wire import committed, fetch_request
from tests.support.host import Stopwatch
from tests.support.wire import WireClient

NONE = ErrorCode.none
PATIENCE_S = 30.0
GROUPS = 8
MOVED = {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available}


async def until_taken_over(member: Member) -> float:
    """Heartbeat until somebody answers for the group; return how long that took."""
    began_s = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while (code := await member.heartbeat()) in MOVED:
            await asyncio.sleep(0.01)
    assert code == NONE
    return time.monotonic() - began_s


async def started(
    brokers: list[BrokerProcess], clients: dict[int, WireClient]
) -> tuple[dict[str, Member], dict[str, int]]:
    """Make stable groups of one, each with an offset; return the members and the coordinators."""
    first = clients[brokers[0].port]
    await first.create_topic("t")
    members, ports = {}, {}
    for number in range(GROUPS):
        group = f"g{number}"
        async with asyncio.timeout(PATIENCE_S):  # until both brokers know of each other
            while len({await coordinator(client, group) for client in clients.values()}) > 1:
                await asyncio.sleep(0.01)
        ports[group] = await coordinator(first, group)
        members[group] = Member(clients[ports[group]], group)
        await stable(members[group])
        assert await members[group].commit("t", {0: number}) == [NONE]
    return members, ports


@pytest.mark.parametrize("ending", ["kill", "stop"])
async def test_another_broker_goes_on_with_the_same_generation(
    pair: list[BrokerProcess], ending: str
) -> None:
    async with (
        await WireClient.connect(pair[0].bootstrap) as one,
        await WireClient.connect(pair[1].bootstrap) as two,
    ):
        # Given groups at both brokers
        clients = {pair[0].port: one, pair[1].port: two}
        members, ports = await started(pair, clients)
        moving = [group for group, port in ports.items() if port == pair[0].port]
        assert moving
        assert len(moving) < GROUPS

        # Then who joins at the wrong one is sent away; what was committed any broker can tell
        stranger = Member(two, moving[0])
        assert (await stranger.join()).error_code is ErrorCode.not_coordinator
        elsewhere: Any = await two.ask(fetch_request(moving[0], None))
        assert committed(elsewhere) == {"t": {0: (int(moving[0][1:]), "")}}

        # When one broker is killed, or stops
        await asyncio.to_thread(getattr(pair[0], ending))
        stopwatch = Stopwatch()

        # Then the other takes its groups over, with generation, assignment and offset
        for group in moving:
            member = members[group]
            member.client = two
            took_s = await until_taken_over(member)
            assert took_s < (6.0 if ending == "kill" else 3.0) + stopwatch.waited_s()
            synced = await member.sync()
            assert (synced.error_code, synced.assignment) == (NONE, member.member_id.encode())
            assert await coordinator(two, group) == pair[1].port
        for number, group in enumerate(members):
            answer: Any = await two.ask(fetch_request(group, None))
            assert committed(answer) == {"t": {0: (number, "")}}
            assert await members[group].commit("t", {0: 100}) == [NONE]
