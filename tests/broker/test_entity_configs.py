"""The broker's copy of what is set of brokers, groups ...: what changes it, and who is told."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from broker.configs.entity_configs import MAX_CHANGES, TAKEN_AT_ONCE, EntityConfigs
from broker.refusals import Refusal
from storage.errors import ConfigsChanged, MetadataUnavailable
from storage.metadata.entity_configs import (
    Entity,
    EntityChange,
    EntityChanges,
    EntityConfigValues,
    EntityKind,
)
from tests.support.fakes.metadata import MemoryMetadata

GROUP = Entity(EntityKind.GROUP, "analytics")


def change(entity: Entity, **changes: str | None) -> EntityChange:
    return EntityChange(entity=entity, changes=changes)


@pytest.fixture
def store() -> MemoryMetadata:
    return MemoryMetadata(Random(7))


async def test_a_change_made_here_is_known_and_told_at_once(store: MemoryMetadata) -> None:
    # Given a copy with watchers of two kinds
    configs, told = EntityConfigs(store), list[list[str]]()
    configs.watch(EntityKind.GROUP, lambda names: told.append(list(names)))
    configs.watch(EntityKind.BROKER, lambda _: told.append(["not of this kind"]))

    # When a group is altered, then it is known, and the watcher of groups has been told
    await configs.alter([change(GROUP, a="1")])
    assert configs.get(GROUP.kind, GROUP.name) == {"a": "1"}
    assert configs.all(EntityKind.GROUP) == {"analytics": {"a": "1"}}
    assert told == [["analytics"]]

    # And what changed nothing is not told again
    await configs.alter([change(GROUP, a="1")])
    assert told == [["analytics"]]


async def test_changes_of_other_brokers_come_with_a_refresh(store: MemoryMetadata) -> None:
    # Given two brokers
    here, there = EntityConfigs(store), EntityConfigs(store)
    await there.alter([change(GROUP, a="1")])
    assert not here.get(GROUP.kind, GROUP.name)

    # When one refreshes, then it knows; and once all is unset there is nothing left of the group
    await here.refresh()
    assert here.get(GROUP.kind, GROUP.name) == {"a": "1"}
    await there.alter([change(GROUP, a=None)])
    await here.refresh()
    assert not here.all(EntityKind.GROUP)


async def test_a_copy_follows_a_database_that_went_back(store: MemoryMetadata) -> None:
    # Given a copy of what a database has lost in a failover, and as many changes made since
    configs, other = EntityConfigs(store), Entity(EntityKind.GROUP, "reports")
    await configs.alter([change(GROUP, a="1")])
    await configs.alter([change(GROUP, a="2")])
    await configs.refresh()
    standby = MemoryMetadata(Random(8))
    await standby.alter_entity_configs([change(other, b="0")])
    await standby.alter_entity_configs([change(other, b="1")])
    configs._store = standby
    await configs.refresh()
    assert configs.get(GROUP.kind, GROUP.name) == {"a": "2"}

    # When a change is refused that rests on what is not there
    with pytest.raises(ConfigsChanged):
        await configs.alter([replace(change(GROUP, a="3"), expected={"a": "2"})])

    # Then the next look finds what is
    await configs.refresh()
    assert configs.all(EntityKind.GROUP) == {"reports": {"b": "1"}}


async def test_a_copy_follows_a_database_that_went_back_and_says_so(store: MemoryMetadata) -> None:
    # Given a copy of what a database has lost in a failover, and as many changes made since
    configs, other = EntityConfigs(store), Entity(EntityKind.GROUP, "reports")
    await configs.alter([change(GROUP, a="1")])
    await configs.refresh()
    standby = MemoryMetadata(Random(8))
    await standby.alter_entity_configs([change(other, b="1")])

    # When another server answers, then the next look finds what is
    configs._store, standby.server = standby, 1
    await configs.refresh()
    assert configs.all(EntityKind.GROUP) == {"reports": {"b": "1"}}


async def test_what_a_database_that_went_back_has_lost_is_not_in_force(
    store: MemoryMetadata,
) -> None:
    # Given a broker that knows more changes than a standby has
    configs, others = EntityConfigs(store), [Entity(EntityKind.SCRAM, name) for name in "ab"]
    await configs.alter([change(GROUP, a="1")])
    await configs.alter([change(others[0], secret="1")])
    await configs.refresh()
    standby = MemoryMetadata(Random(8))
    await standby.alter_entity_configs([change(others[1], secret="2")])

    # When the standby becomes the database, then the next look brings what it has, and no more
    configs._store = standby
    await configs.refresh()
    assert not configs.all(EntityKind.GROUP)
    assert configs.all(EntityKind.SCRAM) == {"b": {"secret": "2"}}


async def test_an_answer_older_than_a_change_made_here_does_not_undo_it(
    store: MemoryMetadata,
) -> None:
    # Given a refresh whose first answer is from before a change that is made here meanwhile
    class Overtaken(MemoryMetadata):
        asked = 0

        async def entity_config_changes(self, since_version: int) -> EntityChanges:
            answer = await super().entity_config_changes(since_version)
            self.asked += 1
            if self.asked == 1:
                await configs.alter([change(GROUP, a="2")])
            return answer

    overtaken = Overtaken(Random(7))
    await overtaken.alter_entity_configs([change(GROUP, a="1")])
    configs, told = EntityConfigs(overtaken), list[Iterable[str]]()
    configs.watch(EntityKind.GROUP, told.append)

    # When it is done, then the change made here stands
    await configs.refresh()
    assert configs.get(GROUP.kind, GROUP.name) == {"a": "2"}
    assert overtaken.asked == 2
    assert len(told) == 1


class Slow(MemoryMetadata):
    """Holds an answer back, once it is made, until it is let go."""

    def __init__(self) -> None:
        super().__init__(Random(7))
        self.asked = 0
        self.made = asyncio.Event()
        self.let_go = asyncio.Event()
        self.holds = False
        self.is_away = False

    async def entity_config_changes(self, since_version: int) -> EntityChanges:
        self.asked += 1
        if self.is_away:
            raise MetadataUnavailable("away")
        answer = await super().entity_config_changes(since_version)
        await self._hold()
        return answer

    async def alter_entity_configs(self, changes: Sequence[EntityChange]) -> EntityConfigValues:
        answer = await super().alter_entity_configs(changes)
        await self._hold()
        return answer

    async def _hold(self) -> None:
        if self.holds:
            self.holds = False
            self.made.set()
            await self.let_go.wait()


async def test_a_refresh_does_not_rely_on_a_query_that_began_before_it() -> None:
    # Given a query under way, and a change that another broker made after it
    store = Slow()
    here, there = EntityConfigs(store), EntityConfigs(store)
    store.holds = True
    polling = asyncio.create_task(here.refresh())
    await store.made.wait()
    await there.alter([change(GROUP, a="1")])

    # When several want to know what is set now
    refreshing = [asyncio.create_task(here.refresh()) for _ in range(3)]
    await asyncio.sleep(0)
    store.let_go.set()
    await asyncio.gather(polling, *refreshing)

    # Then they do, after one query more
    assert here.get(GROUP.kind, GROUP.name) == {"a": "1"}
    assert store.asked == 2


async def test_a_change_whose_answer_comes_late_does_not_hide_a_later_one() -> None:
    # Given a change that was made here, of which this broker has not heard yet
    store = Slow()
    here, there = EntityConfigs(store), EntityConfigs(store)
    store.holds = True
    altering = asyncio.create_task(here.alter([change(GROUP, a="1")]))
    await store.made.wait()

    # When another broker changes the same, this one polls, and then hears of its own change
    await there.alter([change(GROUP, a="2")])
    await here.refresh()
    store.let_go.set()
    await altering

    # Then what is set is in force, without another poll
    assert here.get(GROUP.kind, GROUP.name) == {"a": "2"}


async def test_changes_made_here_count_in_their_order_not_in_that_of_their_answers() -> None:
    # Given a change made here whose answer is under way
    store = Slow()
    configs = EntityConfigs(store)
    store.holds = True
    first = asyncio.create_task(configs.alter([change(GROUP, a="1", b="1")]))
    await store.made.wait()

    # When another takes back what it set, and is answered before it
    await configs.alter([change(GROUP, a=None)])
    assert configs.get(GROUP.kind, GROUP.name) == {"b": "1"}
    store.let_go.set()
    await first

    # Then it stays taken back
    assert configs.get(GROUP.kind, GROUP.name) == {"b": "1"}


async def test_a_late_answer_counts_for_nothing_while_postgres_is_away() -> None:
    # Given a change made here whose answer is under way, and another that took it back
    store = Slow()
    configs = EntityConfigs(store)
    store.holds = True
    first = asyncio.create_task(configs.alter([change(GROUP, a="1")]))
    await store.made.wait()
    await configs.alter([change(GROUP, a=None)])

    # When the answer comes, but no other does any more
    store.is_away = True
    store.let_go.set()

    # Then whoever made it is not told that it is in force, and it is not
    with pytest.raises(MetadataUnavailable):
        await first
    assert not configs.get(GROUP.kind, GROUP.name)


async def test_pieces_of_an_older_answer_do_not_come_over_a_newer_one() -> None:
    # Given thousands that this broker changes, so that others have their turns meanwhile
    store = MemoryMetadata(Random(7))
    here, there = EntityConfigs(store), EntityConfigs(store)
    groups = [Entity(EntityKind.GROUP, str(number)) for number in range(3 * TAKEN_AT_ONCE)]
    told = list[list[str]]()
    here.watch(EntityKind.GROUP, lambda names: told.append(list(names)))
    first = asyncio.create_task(here.alter([change(group, a="1") for group in groups]))
    while not told:
        await asyncio.sleep(0)
    assert not first.done()

    # When they are changed again while the first are known, elsewhere and then here
    await there.alter([change(group, a="2") for group in groups])
    polling = asyncio.create_task(here.refresh())
    await here.alter([change(group, a="3") for group in groups[-1:]])
    await asyncio.gather(first, polling)

    # Then what was set last is known
    values = [here.get(group.kind, group.name)["a"] for group in groups]
    assert values == ["2"] * (len(groups) - 1) + ["3"]


async def test_what_was_not_taken_as_a_whole_comes_with_the_next_look() -> None:
    # Given thousands of changes of another broker, and a look that ends among them
    store = MemoryMetadata(Random(7))
    here, there = EntityConfigs(store), EntityConfigs(store)
    groups = [Entity(EntityKind.GROUP, str(number)) for number in range(3 * TAKEN_AT_ONCE)]
    await there.alter([change(group, a="1") for group in groups])
    looking = asyncio.create_task(here._load_changes())

    def end(_: Iterable[str]) -> None:
        looking.cancel()

    here.watch(EntityKind.GROUP, end)
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert 0 < len(here.all(EntityKind.GROUP)) < len(groups)

    # When it looks again, then it knows all
    await here.refresh()
    assert len(here.all(EntityKind.GROUP)) == len(groups)


async def test_one_change_is_not_of_more_values_than_kafka_takes(store: MemoryMetadata) -> None:
    configs = EntityConfigs(store)
    groups = [Entity(EntityKind.GROUP, str(number)) for number in range(MAX_CHANGES)]
    with pytest.raises(Refusal) as refused:
        await configs.alter([change(GROUP, a="1"), *(change(group, a="1") for group in groups)])
    assert refused.value.code is ErrorCode.policy_violation
    assert not (await store.entity_config_changes(0)).configs
