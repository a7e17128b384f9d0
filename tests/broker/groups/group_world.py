"""The groups of one broker over a store at the test's mercy; no sockets, no processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry

from broker.groups.group_catalog import GroupCatalog
from broker.groups.group_commits import Committer, GroupCommits
from broker.groups.group_metrics import GroupMetrics
from broker.groups.group_retake import GroupRetake
from broker.groups.group_table import GroupTable
from broker.groups.group_transactions import TransactionalCommits
from broker.groups.group_upkeep import ExpiryConfig, GroupUpkeep
from broker.groups.group_writes import GroupWrites
from broker.groups.groups import Groups
from broker.refusals import Refusal
from broker.topics import Topics
from coordinator.config import ClassicConfig, ConsumerConfig, GroupConfig
from coordinator.events import ConsumerHeartbeat, Heartbeat, Join, Protocol, Sync, Token
from protocol.ids import Partition
from storage.metadata.groups import CommittedOffset, CommittedOffsets
from storage.metadata.transactions import Producer
from tests.support.held_groups import HeldGroups

_ids = count(1)

PATIENCE_S = 20.0


class _NoTopics:
    """Stands for broker.topics.Topics where no topic matters.

    Attributes:
        waiting: how many wait for news of topics.
    """

    def __init__(self) -> None:
        self.change_count = 0
        self.waiting = 0
        self._open = asyncio.Event()
        self._open.set()

    def all(self) -> tuple[()]:
        return ()

    def hold(self) -> None:
        """Let those wait who ask for news from now on."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def refresh(self) -> None:
        """There is no news."""
        self.waiting += 1
        await self._open.wait()
        self.waiting -= 1


@dataclass(slots=True)
class World:
    """Attributes:
    ours: group ids that this broker coordinates; all, if None.
    topics: what the catalog is made of.
    """

    store: HeldGroups
    groups: Groups
    table: GroupTable
    upkeep: GroupUpkeep
    metrics: GroupMetrics
    topics: _NoTopics
    ours: set[str] | None = field(default=None)

    def join(self, group_id: str, member_id: str = "", **values: Any) -> "asyncio.Future[Any]":
        """Let a member join; one who is new gets its id at once."""
        said: dict[str, Any] = {
            "instance_id": None,
            "client_id": "test",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [Protocol(name="range", metadata=b"")],
            "needs_member_id": False,
            "skips_assignment": False,
        }

        def event(token: Token) -> Join:
            return Join(token=token, member_id=member_id, **(said | values))

        return asyncio.ensure_future(self.groups.handle(group_id, event, create=not member_id))

    def sync(self, group_id: str, member_id: str, generation_id: int) -> "asyncio.Future[Any]":
        def event(token: Token) -> Sync:
            return Sync(
                token=token,
                generation_id=generation_id,
                member_id=member_id,
                instance_id=None,
                protocol_type=None,
                protocol_name=None,
                assignments={member_id: b"all"},
            )

        return asyncio.ensure_future(self.groups.handle(group_id, event))

    def beat(self, group_id: str, member_id: str, generation_id: int) -> "asyncio.Future[Any]":
        def event(token: Token) -> Heartbeat:
            return Heartbeat(
                token=token, generation_id=generation_id, member_id=member_id, instance_id=None
            )

        return asyncio.ensure_future(self.groups.handle(group_id, event, overtakes=True))

    def consumer_beat(
        self, group_id: str, member_id: str, member_epoch: int
    ) -> "asyncio.Future[Any]":
        """Let a member of a consumer group join (epoch 0), or heartbeat."""
        joins = member_epoch == 0

        def event(token: Token) -> ConsumerHeartbeat:
            return ConsumerHeartbeat(
                token=token,
                member_id=member_id,
                member_epoch=member_epoch,
                instance_id=None,
                rack_id=None,
                client_id="test",
                client_host="/127.0.0.1",
                principal="ANONYMOUS",
                rebalance_timeout_ms=10_000 if joins else -1,
                subscribed_topic_names=["any"] if joins else None,
                subscribed_topic_regex=None,
                server_assignor=None,
                owned_partitions=[] if joins else None,
                catalog=self.groups.catalog.current(),
            )

        return asyncio.ensure_future(self.groups.handle(group_id, event, create=joins))

    def commit(
        self,
        group_id: str,
        offsets: Mapping[Partition, CommittedOffset],
        *,
        member_id: str = "",
        generation_id: int = -1,
    ) -> "asyncio.Future[Any]":
        committer = Committer(member_id=member_id, instance_id=None, generation_id=generation_id)
        return asyncio.ensure_future(self.groups.commit(group_id, committer, offsets))

    def transact(
        self,
        producer: Producer,
        group_id: str,
        offsets: Mapping[Partition, CommittedOffset],
        member: tuple[str, int] = ("", -1),
    ) -> "asyncio.Future[Any]":
        """Commit offsets in a transaction that the group joins by that; `member` is as it says."""
        committer = Committer(member_id=member[0], instance_id=None, generation_id=member[1])
        commit = self.groups.commit_in_transaction
        return asyncio.ensure_future(commit(group_id, committer, producer, offsets, joins=True))

    async def fetched(self, group_id: str) -> CommittedOffsets:
        """Do what OffsetFetch does for all partitions."""
        await self.groups.may_fetch(group_id, member_id=None, member_epoch=-1)
        return await self.groups.committed(group_id, None)

    async def stable(self, group_id: str, **joining: Any) -> str:
        """Make a stable group of one, in its first generation; return the member's id."""
        joined = await self.join(group_id, **joining)
        synced = await self.sync(group_id, joined.member_id, joined.generation_id)
        assert (synced.error_code, synced.assignment) == (0, b"all")
        return str(joined.member_id)


@asynccontextmanager
async def world(
    store: HeldGroups, *, consumer_session_ms: int = 45_000, **expiry: int
) -> AsyncIterator[World]:
    """Run a broker's groups; a second one on the same store is another broker."""
    metrics = GroupMetrics(CollectorRegistry())
    writes = GroupWrites(store, metrics)
    commits = TransactionalCommits(store)
    topics = _NoTopics()
    catalog = GroupCatalog(cast("Topics", topics))

    def coordinates(group_id: str) -> bool:
        return made.ours is None or group_id in made.ours

    config = GroupConfig(
        classic=ClassicConfig(initial_rebalance_delay_ms=0),
        consumer=ConsumerConfig(session_timeout_ms=consumer_session_ms),
        new_uuid=lambda: f"uuid-{next(_ids)}",
    )
    takeover_due = asyncio.Event()
    table = GroupTable(
        store=store,
        writes=writes,
        catalog=catalog,
        coordinates=coordinates,
        config_of=lambda _: config,
        retake=GroupRetake(takeover_due),
        metrics=metrics,
    )
    upkeep = GroupUpkeep(
        store=store,
        table=table,
        writes=writes,
        commits=commits,
        catalog=catalog,
        coordinates=coordinates,
        takeover_due=takeover_due,
        expiry=ExpiryConfig(**({"retention_ms": 60_000, "check_interval_ms": 60_000} | expiry)),
    )
    groups = Groups(
        store=store,
        table=table,
        commits=GroupCommits(writes, commits, metrics),
        catalog=catalog,
        coordinates=coordinates,
    )
    made = World(store, groups, table, upkeep, metrics, topics)
    running = asyncio.create_task(upkeep.run())
    try:
        yield made
    finally:
        upkeep.close()
        running.cancel()
        await asyncio.wait([running])


async def refusal(answer: Awaitable[object]) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        await answer
    return refused.value.code


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)
