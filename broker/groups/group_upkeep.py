"""What keeps the groups right without being asked: takeover, changed topics, idleness, expiry."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import shuffle
from typing import Final

import structlog
from kio.schema.errors import ErrorCode

from broker.groups.group_catalog import GroupCatalog
from broker.groups.group_table import HELD_AT_MOST, GroupTable
from broker.groups.group_timer import loop_ms
from broker.groups.group_transactions import TransactionalCommits
from broker.groups.group_writes import GroupWrites
from coordinator.events import TopicsChanged
from coordinator.snapshots import GroupState
from storage.backoff import Backoff
from storage.errors import MetadataUnavailable, RowsHeld
from storage.metadata.groups import GroupStore

EXPIRY_KEY: Final = "__expire_offsets"
"""Its coordinator expires the offsets of all groups; nobody asks for a group of this name."""

TAKEN_TOGETHER: Final = 100
TOPICS_SETTLE_S: Final = 0.1
IDLE_MS: Final = 600_000
LOOK_FOR_IDLE_S: Final = 60.0
RETRY_AT_MOST_S: Final = 2.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryConfig:
    """How long offsets are kept (offsets.retention.minutes), and how often that is looked at."""

    retention_ms: int
    check_interval_ms: int


class GroupUpkeep:
    """Runs beside the groups.

    Args:
        coordinates: whether this broker is the coordinator of a group id.
        takeover_due: set when groups were lost that are ours, and may have members.
    """

    def __init__(
        self,
        *,
        store: GroupStore,
        table: GroupTable,
        writes: GroupWrites,
        commits: TransactionalCommits,
        catalog: GroupCatalog,
        coordinates: Callable[[str], bool],
        takeover_due: asyncio.Event,
        expiry: ExpiryConfig,
    ) -> None:
        self._store = store
        self._table = table
        self._writes = writes
        self._commits = commits
        self._catalog = catalog
        self._coordinates = coordinates
        self._expiry = expiry
        self._generation = -1
        self._takeover_due = takeover_due
        self._takeover_due.set()
        self._topics_changed = asyncio.Event()

    def membership_changed(self, generation: int) -> None:
        """Take note that groups came or went: the ones gone are answered for at once.

        If this broker missed a generation of the cluster (it was paused, and called dead), another
        one may have had any of its groups meanwhile, so it takes all of them again.
        """
        missed = generation > self._generation + 1
        self._generation = generation
        self._table.membership_changed(missed=missed)
        self._takeover_due.set()

    def topics_changed(self) -> None:
        """Take note that topics were created, deleted or altered."""
        self._topics_changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._writes.run())
            tasks.create_task(self._take_over())
            tasks.create_task(self._spread_topics())
            tasks.create_task(self._forget_idle())
            tasks.create_task(self._expire())

    def close(self) -> None:
        """Answer everybody who waits for a group, and take no more requests."""
        self._table.close()
        self._commits.close()

    async def _take_over(self) -> None:
        """After every change load the groups that have become ours and have members.

        Else members that died together with their coordinator would never be missed.
        """
        while True:
            await self._takeover_due.wait()
            self._takeover_due.clear()
            backoff = Backoff(most_s=RETRY_AT_MOST_S)
            while not await self._load_ours():
                await backoff.wait()

    async def _load_ours(self) -> bool:
        """Return whether all of them are loaded, but for those that will be due again soon."""
        try:
            ours = [
                one.group_id
                async for one in self._store.list_groups()
                if one.member_count and self._coordinates(one.group_id)
            ]
            shuffle(ours)  # no group is always behind those that are held
            held_count = 0
            for at in range(0, len(ours), TAKEN_TOGETHER):
                held_count += not await self._load_together(ours[at : at + TAKEN_TOGETHER])
                if held_count > HELD_AT_MOST:
                    break
        except MetadataUnavailable as error:
            log.warning("groups not taken over yet", reason=str(error))
            return False
        return not held_count

    async def _load_together(self, group_ids: Sequence[str]) -> bool:
        try:
            await self._table.take_over(group_ids)
        except RowsHeld as error:  # which need not keep anybody from the others
            log.warning("groups not taken over yet", reason=str(error))
            return False
        return True

    async def _spread_topics(self) -> None:
        """Tell consumer groups of changed topics; changes that come together are told at once."""
        loop = asyncio.get_running_loop()
        while True:
            await self._topics_changed.wait()
            await asyncio.sleep(TOPICS_SETTLE_S)
            self._topics_changed.clear()
            event = TopicsChanged(catalog=self._catalog.current())
            for runner in self._table.running():
                if runner.machine.needs_catalog:
                    loop.call_soon(runner.handle, event)
                    await asyncio.sleep(0)  # others have their turn between any two groups

    async def _forget_idle(self) -> None:
        """Drop groups without members from memory that nobody has asked for anything."""
        while True:
            await asyncio.sleep(LOOK_FOR_IDLE_S)
            before_ms = loop_ms() - IDLE_MS
            for runner in self._table.running():
                if runner.idle and runner.used_ms < before_ms:
                    self._table.lose(runner, ErrorCode.not_coordinator)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self._expiry.check_interval_ms / 1000)
            gone = await self._expire_left_topics()
            if self._coordinates(EXPIRY_KEY):
                try:
                    gone += await self._store.expire_offsets(self._expiry.retention_ms)
                except MetadataUnavailable as error:
                    log.warning("offsets not expired yet", reason=str(error))
            if gone:
                log.info("offsets expired", offsets_and_groups=gone)

    async def _expire_left_topics(self) -> int:
        """Forget what our groups have of topics that they read no longer; return how many offsets.

        Only the machine of a stable group knows what that is.
        """
        gone = 0
        for runner in self._table.running():
            if runner.machine.state is not GroupState.STABLE:
                continue
            subscribed = runner.machine.subscribed_topics()
            if subscribed is None:
                continue
            try:
                gone += await self._store.expire_left_topics(
                    runner.group_id, runner.owner_epoch, subscribed, self._expiry.retention_ms
                )
            except MetadataUnavailable as error:
                log.warning("offsets not expired yet", group_id=runner.group_id, reason=str(error))
            except Exception:  # of what one group says; it must not end the upkeep of all others
                log.exception("bug in the expiry of offsets", group_id=runner.group_id)
        return gone
