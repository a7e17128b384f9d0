"""Deletes of many groups leave room for others, and none costs more than itself."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from broker.groups import group_deletions, group_table
from broker.groups.group_deletions import DELETES_AT_A_TIME
from storage.metadata.groups import GroupListing
from tests.broker.groups.group_world import World, refusal, until, world
from tests.support.held_groups import HeldGroups, at

NONE: Final = ErrorCode.none


class CountedGroups(HeldGroups):
    """Attributes:
    deletes: calls of delete_group that are under way.
    most_deletes: at a time.
    listings: calls of list_groups.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deletes = self.most_deletes = self.listings = 0

    async def delete_group(self, group_id: str, owner_epoch: int) -> bool:
        self.deletes += 1
        self.most_deletes = max(self.most_deletes, self.deletes)
        try:
            await self._answerable()
            return await super().delete_group(group_id, owner_epoch)
        finally:
            self.deletes -= 1

    async def list_groups(self) -> AsyncIterator[GroupListing]:
        self.listings += 1
        async for listing in super().list_groups():
            yield listing


@pytest.fixture
def store() -> CountedGroups:
    """What `here` is over."""
    return CountedGroups()


async def made(here: World, store: CountedGroups, count: int) -> list[str]:
    """Make groups that are in memory, and have an offset each; return their ids."""
    topic_id = await store.topic()
    names = [f"g{number}" for number in range(count)]
    await asyncio.gather(*(here.commit(name, at(topic_id, p0=1)) for name in names))
    return names


async def test_few_groups_are_deleted_at_a_time(here: World, store: CountedGroups) -> None:
    # Given many groups in memory, and a store that is slow
    names = await made(here, store, 100)
    store.hold()

    # When all are deleted at once, then others have their sessions with Postgres meanwhile
    deleting = [asyncio.ensure_future(here.groups.delete(name)) for name in names]
    await until(lambda: store.deletes == DELETES_AT_A_TIME)
    store.release()
    assert await asyncio.gather(*deleting) == [NONE] * len(names)
    assert store.most_deletes == DELETES_AT_A_TIME
    assert not store._groups


async def test_who_has_waited_for_long_to_be_deleted_is_asked_for_again(
    here: World, store: CountedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given groups whose deletes a slow store keeps waiting, and one behind them
    names = await made(here, store, DELETES_AT_A_TIME + 1)
    monkeypatch.setattr(group_deletions, "WAIT_AT_MOST_S", 0.01)
    store.hold()
    *held, late = [asyncio.ensure_future(here.groups.delete(name)) for name in names]

    # When its turn does not come, then the client may try again, and others have the group
    assert await refusal(late) is ErrorCode.coordinator_not_available
    store.release()
    assert await asyncio.gather(*held) == [NONE] * len(held)
    assert (await here.join(names[-1])).generation_id == 1
    assert await store.offsets(names[-1]) == {0: 1}


async def test_after_a_delete_nobody_looks_through_all_groups(
    store: CountedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a broker that takes groups again which it has lost, in no time
    monkeypatch.setattr(group_table, "TAKE_AGAIN_AFTER_S", 0.001)
    async with world(store) as here:
        (name,) = await made(here, store, 1)
        listings = store.listings

        # When a group is deleted, then it is not lost
        assert await here.groups.delete(name) is NONE
        await asyncio.sleep(0.05)
        assert store.listings == listings

        # But one whose delete got no answer may be there, with members
        await made(here, store, 1)
        store.go_away()
        assert await refusal(here.groups.delete(name)) is ErrorCode.coordinator_not_available
        store.come_back()
        await until(lambda: store.listings > listings)
