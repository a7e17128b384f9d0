"""Members of consumer groups that speak over the wire (KIP-848)."""

import asyncio
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tests.support.group_wire import consumer_heartbeat_request, new_member_id
from tests.support.wire import TIMEOUT_S, WireClient


def assigned(answer: Any) -> dict[UUID, list[int]] | None:
    if answer.assignment is None:
        return None
    return {one.topic_id: list(one.partitions) for one in answer.assignment.topic_partitions}


class ConsumerMember:
    """A member that takes what it is assigned, and gives up what it shall not have any more."""

    def __init__(
        self, client: WireClient, group: str, *topics: str, pattern: str | None = None
    ) -> None:
        self._client = client
        self._group = group
        self._subscribed = {"subscribed_topic_names": topics, "subscribed_topic_regex": pattern}
        self.member_id = new_member_id()
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}

    async def beat(self) -> Any:
        """Heartbeat once; the first one joins."""
        said: dict[str, Any] = {"owned": self.owned}
        if self.epoch == 0:
            said = dict(self._subscribed)
        answer = await self._ask(self.epoch, **said)
        assert answer.error_code is ErrorCode.none, answer
        self.epoch = answer.member_epoch
        self.owned = self.owned if answer.assignment is None else assigned(answer) or {}
        return answer

    async def leave(self) -> Any:
        return await self._ask(-1)

    async def _ask(self, epoch: int, **said: Any) -> Any:
        request = consumer_heartbeat_request(self._group, self.member_id, epoch, **said)
        return await self._client.ask(request)


async def settled(*members: ConsumerMember) -> None:
    """Send heartbeats until two rounds change nothing."""
    async with asyncio.timeout(TIMEOUT_S):
        before, calm = None, 0
        while calm < 2:
            for one in members:
                await one.beat()
            now = [(one.epoch, one.owned) for one in members]
            calm = calm + 1 if now == before else 0
            before = now
