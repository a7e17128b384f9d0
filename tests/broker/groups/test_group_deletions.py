"""Deletes of many groups leave room for others, and none costs more than itself."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from broker.groups import deletes_in_turn, group_retake
from broker.groups.deletes_in_turn import DELETES_AT_A_TIME, DeletesInTurn
from broker.refusals import Refusal
from storage.errors import MetadataUnavailable, NothingWritten, RowsHeld
from storage.metadata.groups import GroupListing
from tests.broker.groups.group_world import World, refusal, until, world
from tests.support.held_groups import HeldGroups, at

NONE: Final = ErrorCode.none


class CountedGroups(HeldGroups):
    """Attributes:
    deletes: calls of delete_groups that are under way.
    most_deletes: at a time.
    deleted: how many groups each of them named.
    held: a group that somebody else holds.
    large: a group that no statement comes to the end of; those with it get no answer.
    is_deaf: several groups are deleted without an answer.
    refuses: Postgres has no session for anybody.
    listings: calls of list_groups.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deletes = self.most_deletes = self.listings = 0
        self.deleted: list[int] = []
        self.held = self.large = ""
        self.refuses = self.is_deaf = False

    async def delete_groups(self, owned: Mapping[str, int]) -> dict[str, bool]:
        self.deletes += 1
        self.most_deletes = max(self.most_deletes, self.deletes)
        self.deleted.append(len(owned))
        try:
            await self._answerable()
            if self.refuses:
                raise NothingWritten("cannot connect")
            if self.large in owned:
                raise MetadataUnavailable("statement_timeout")
            if next(iter(owned)) == self.held:
                raise RowsHeld("held")
            free = {group_id: owned[group_id] for group_id in owned if group_id != self.held}
            gone = await super().delete_groups(free)
            if self.is_deaf and len(owned) > 1:
                raise MetadataUnavailable("connection lost")
            return gone
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

    # And those that waited for that went together
    assert store.deleted == [1] * DELETES_AT_A_TIME + [len(names) - DELETES_AT_A_TIME]


async def test_each_of_many_groups_that_are_deleted_has_its_own_answer(
    here: World, store: CountedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given many groups, of which somebody holds one, and another broker has taken one
    monkeypatch.setattr(deletes_in_turn, "GROUPS_PER_DELETE", 30)
    names = await made(here, store, 100)
    store.held, taken = names[50], names[70]
    await store.take_elsewhere(taken)

    # When all are deleted at once, then these two are refused, and no other
    outcomes = await asyncio.gather(*map(here.groups.delete, names), return_exceptions=True)
    codes = {
        name: one.code
        for name, one in zip(names, outcomes, strict=True)
        if isinstance(one, Refusal)
    }
    assert codes == {
        taken: ErrorCode.not_coordinator,
        store.held: ErrorCode.coordinator_not_available,
    }
    assert outcomes.count(NONE) == len(names) - 2
    assert store._groups.keys() == codes.keys()
    assert max(store.deleted) == 30


async def test_no_group_is_asked_for_again_while_postgres_refuses(
    here: World, store: CountedGroups
) -> None:
    # Given a Postgres that is away
    names = await made(here, store, 100)
    store.refuses = True

    # When many groups are deleted at once
    outcomes = await asyncio.gather(*map(refusal, map(here.groups.delete, names)))

    # Then those are refused, too, that others have taken along
    assert outcomes == [ErrorCode.coordinator_not_available] * len(names)
    assert store.deleted == [1] * DELETES_AT_A_TIME + [len(names) - DELETES_AT_A_TIME]


async def test_a_group_that_is_too_large_to_be_deleted_fails_few_others(
    here: World, store: CountedGroups
) -> None:
    # Given many groups, one of which has more offsets than can be deleted in time, and another
    # broker has taken one
    names = await made(here, store, 100)
    store.large, taken = names[50], names[70]
    await store.take_elsewhere(taken)

    # When all are deleted at once, then those that were taken along by the same are deleted alone
    outcomes = await asyncio.gather(*map(here.groups.delete, names), return_exceptions=True)
    codes = {
        name: one.code
        for name, one in zip(names, outcomes, strict=True)
        if isinstance(one, Refusal)
    }
    unknown = ErrorCode.coordinator_not_available
    first = names[DELETES_AT_A_TIME]
    assert codes == {
        first: unknown,
        store.large: unknown,
        taken: ErrorCode.not_coordinator,
    }
    assert outcomes.count(NONE) == len(names) - len(codes)
    assert store._groups.keys() == codes.keys()
    together = len(names) - DELETES_AT_A_TIME
    assert store.deleted == [1] * DELETES_AT_A_TIME + [together] + [1] * (together - 1)


async def test_groups_that_were_deleted_without_an_answer_are_told_to_be_gone(
    here: World, store: CountedGroups
) -> None:
    # Given a connection that is lost when Postgres has deleted several groups
    names = await made(here, store, 20)
    store.is_deaf = True

    # When all are deleted at once, then they are found to be gone
    assert await asyncio.gather(*map(here.groups.delete, names)) == [NONE] * len(names)
    assert not store._groups


async def test_who_is_asked_for_again_waits_no_longer_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a store that says after 5 s that the first group is held
    loop = asyncio.get_running_loop()
    real_time, late_s, calls = loop.time, 0.0, 0
    monkeypatch.setattr(loop, "time", lambda: real_time() + late_s)

    class Held(CountedGroups):
        async def delete_groups(self, owned: Mapping[str, int]) -> dict[str, bool]:
            nonlocal late_s, calls
            calls += 1
            await asyncio.sleep(0)
            late_s += 5
            raise RowsHeld("held")

    # When many groups are deleted at once
    deletes = DeletesInTurn(Held())
    deleting = (deletes.delete(f"g{number}", 1) for number in range(100))
    outcomes = await asyncio.gather(*deleting, return_exceptions=True)

    # Then all are told in the time that one may wait for a turn, or one statement later
    assert {type(one) for one in outcomes} == {RowsHeld, MetadataUnavailable}
    assert calls <= 3 * DELETES_AT_A_TIME


async def test_who_has_waited_for_long_to_be_deleted_is_asked_for_again(
    here: World, store: CountedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given groups whose deletes a slow store keeps waiting, and one behind them
    names = await made(here, store, DELETES_AT_A_TIME + 1)
    monkeypatch.setattr(deletes_in_turn, "WAIT_AT_MOST_S", 0.01)
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
    monkeypatch.setattr(group_retake, "TAKE_AGAIN_AFTER_S", 0.001)
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

        # And one that another broker has had meanwhile may be there as well
        await made(here, store, 1)
        await store.take_elsewhere(name)
        listings = store.listings
        assert await refusal(here.groups.delete(name)) is ErrorCode.not_coordinator
        await until(lambda: store.listings > listings)
