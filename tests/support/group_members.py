"""A member of a classic group that speaks the wire protocol, and how several come to terms."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tests.support.group_wire import (
    Offsets,
    codes,
    commit_request,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.support.wire import TIMEOUT_S, WireClient

REBALANCE_IN_PROGRESS: Final = 27


class Member:
    """A member of a classic group, with a connection of its own.

    Attributes:
        member_id, generation_id: as the coordinator gave them.
        assignment: of the last SyncGroup.
    """

    def __init__(self, client: WireClient, group: str, **joining: Any) -> None:
        self.client = client
        self.group = group
        self._joining = joining
        self.member_id = ""
        self.generation_id = -1
        self.assignment = b""
        self.instance_id: str | None = joining.get("instance_id")

    async def join(self) -> Any:
        """Join, a second time if a member id is required first; return the answer."""
        answer = await self._join()
        if answer.error_code == 79:
            self.member_id = answer.member_id
            answer = await self._join()
        if answer.error_code == 0:
            self.member_id, self.generation_id = answer.member_id, answer.generation_id
        return answer

    async def sync(self, assignments: Mapping[str, bytes] | None = None) -> Any:
        request = sync_request(
            self.group,
            self.member_id,
            self.generation_id,
            assignments,
            instance_id=self.instance_id,
            protocol_type=self._joining.get("protocol_type", "consumer"),
        )
        answer = await self.client.ask(request)
        self.assignment = answer.assignment
        return answer

    async def heartbeat(self) -> int:
        """Return the error code."""
        request = heartbeat_request(
            self.group, self.member_id, self.generation_id, instance_id=self.instance_id
        )
        return int((await self.client.ask(request)).error_code)

    async def leave(self) -> Any:
        return await self.client.ask(leave_request(self.group, (self.member_id, self.instance_id)))

    async def commit(self, topic: str, offsets: Offsets) -> list[int]:
        """Return the error codes of the partitions."""
        request = commit_request(
            self.group,
            {topic: offsets},
            member_id=self.member_id,
            generation_id=self.generation_id,
            instance_id=self.instance_id,
        )
        return codes(await self.client.ask(request))

    async def _join(self) -> Any:
        request = join_request(self.group, self.member_id, **self._joining)
        return await self.client.ask(request)


async def stable(*members: Member) -> Member:
    """Bring members to one generation, each with its own id as assignment; return the leader."""
    present: list[Member] = []
    leader = members[0]
    for newcomer in members:
        joining = asyncio.create_task(newcomer.join())
        for one in present:
            await until_rebalance(one)
        answers = await asyncio.gather(joining, *(one.join() for one in present))
        assert [answer.error_code for answer in answers] == [0] * len(answers)
        present.append(newcomer)
        plan = {one.member_id: one.member_id.encode() for one in present}
        leader = next(one for one in present if one.member_id == answers[0].leader)
        synced = await asyncio.gather(
            *(one.sync(plan if one is leader else None) for one in present)
        )
        assert [answer.error_code for answer in synced] == [0] * len(present)
    return leader


async def until_rebalance(member: Member) -> None:
    """Send heartbeats until the answer is REBALANCE_IN_PROGRESS."""
    async with asyncio.timeout(TIMEOUT_S):
        while (code := await member.heartbeat()) != REBALANCE_IN_PROGRESS:
            assert code == 0
            await asyncio.sleep(0.005)
