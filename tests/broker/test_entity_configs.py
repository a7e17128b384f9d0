"""The broker's copy of what is set of brokers, groups ...: what changes it, and who is told."""

from collections.abc import Iterable
from random import Random

import pytest

from broker.entity_configs import EntityConfigs
from storage.entity_configs import Entity, EntityChange, EntityChanges, EntityKind
from storage.metadata_memory import MemoryMetadata

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
