"""What storage/metadata/entity_configs.py promises, asked of every metadata store."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from storage.errors import ConfigsChanged
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.port import MetadataStore
from tests.contracts.metadata_stores import KINDS, open_store

BROKER = Entity(EntityKind.BROKER, "0")
CLUSTER = Entity(EntityKind.BROKER, "")
GROUP = Entity(EntityKind.GROUP, "0")


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[MetadataStore]:
    """Each store in turn, empty."""
    async with open_store(request.param) as opened:
        yield opened.store


async def test_values_are_set_and_unset_one_by_one(store: MetadataStore) -> None:
    # Given two values of a broker
    both = {"log.retention.ms": "1", "message.max.bytes": "2"}
    assert await store.alter_entity_configs([EntityChange(entity=BROKER, changes=both)]) == {
        BROKER: both
    }

    # When one is set to another value, one that is not set is unset, and a third is set
    changes = {"log.retention.ms": "3", "no.such": None, "log.roll.ms": "4"}
    altered = await store.alter_entity_configs([EntityChange(entity=BROKER, changes=changes)])

    # Then the one that was not named stays as it was
    now = {"log.retention.ms": "3", "message.max.bytes": "2", "log.roll.ms": "4"}
    assert altered == {BROKER: now}
    assert (await store.entity_config_changes(0)).configs == {BROKER: now}


async def test_replacing_unsets_what_is_not_named(store: MetadataStore) -> None:
    await store.alter_entity_configs([EntityChange(entity=GROUP, changes={"a": "1", "b": "2"})])
    change = EntityChange(entity=GROUP, changes={"b": "3", "c": None}, replace=True)
    assert await store.alter_entity_configs([change]) == {GROUP: {"b": "3"}}


async def test_a_change_that_rests_on_something_else_is_not_made(store: MetadataStore) -> None:
    # Given an entity of which something is set, and one of which nothing is
    await store.alter_entity_configs([EntityChange(entity=GROUP, changes={"a": "1"})])
    version = (await store.entity_config_changes(0)).version
    appended = EntityChange(entity=GROUP, changes={"a": "1,2"}, expected={"a": "1"})
    first = EntityChange(entity=BROKER, changes={"b": "1"}, expected={})

    # When one change of a call rests on something else, then nothing of the call is done
    for other in ({"a": "0"}, {}, {"a": "1", "b": "2"}):
        wrong = EntityChange(entity=GROUP, changes={"a": "9"}, expected=other)
        with pytest.raises(ConfigsChanged):
            await store.alter_entity_configs([first, wrong])
    assert not (await store.entity_config_changes(version)).configs

    # And when all rest on what is set, all of it is done; the same again is not
    altered = await store.alter_entity_configs([first, appended])
    assert altered == {GROUP: {"a": "1,2"}, BROKER: {"b": "1"}}
    with pytest.raises(ConfigsChanged):
        await store.alter_entity_configs([appended])


async def test_of_changes_at_a_time_that_rest_on_the_same_one_is_made(
    store: MetadataStore,
) -> None:
    calls = [
        store.alter_entity_configs([EntityChange(entity=GROUP, changes={"a": each}, expected={})])
        for each in "12345678"
    ]
    done = await asyncio.gather(*calls, return_exceptions=True)
    (made,) = [each for each in done if not isinstance(each, ConfigsChanged)]
    assert (await store.entity_config_changes(0)).configs == made


async def test_entities_of_one_call_keep_apart(store: MetadataStore) -> None:
    # Given entities with the same name, of different kinds, and one with the empty name
    changes = [
        EntityChange(entity=BROKER, changes={"a": "1"}),
        EntityChange(entity=GROUP, changes={"a": "2"}),
        EntityChange(entity=CLUSTER, changes={"a": "3"}),
    ]

    # When they are altered together, then each has its own, also when all are replaced differently
    await store.alter_entity_configs(changes)
    altered = await store.alter_entity_configs(
        [
            EntityChange(entity=BROKER, changes={"b": "4"}, replace=True),
            EntityChange(entity=GROUP, changes={"b": "5"}),
        ]
    )
    assert altered == {BROKER: {"b": "4"}, GROUP: {"a": "2", "b": "5"}}
    assert (await store.entity_config_changes(0)).configs == {**altered, CLUSTER: {"a": "3"}}


async def test_who_asks_with_the_last_version_is_told_what_changed_since(
    store: MetadataStore,
) -> None:
    # Given an answer with everything
    await store.alter_entity_configs([EntityChange(entity=BROKER, changes={"a": "1"})])
    await store.alter_entity_configs([EntityChange(entity=GROUP, changes={"a": "1"})])
    first = await store.entity_config_changes(0)
    assert not (await store.entity_config_changes(first.version)).configs

    # When one entity loses all it has, then that is told, and only that
    await store.alter_entity_configs([EntityChange(entity=GROUP, changes={"a": None})])
    second = await store.entity_config_changes(first.version)
    assert second.configs == {GROUP: {}}
    assert second.version > first.version


async def test_topics_share_the_version(store: MetadataStore) -> None:
    await store.alter_entity_configs([EntityChange(entity=GROUP, changes={"a": "1"})])
    version = (await store.entity_config_changes(0)).version
    await store.create_topic("orders", partition_count=1, replication_factor=1, configs={})
    assert (await store.topic_changes(0)).version > version
    assert not (await store.entity_config_changes(version)).configs


async def test_any_text_is_kept(store: MetadataStore) -> None:
    odd = Entity(EntityKind.CLIENT_QUOTA, 'a"\\\x00\x01é')
    changes = {"x\x00": "\x01y", "": ""}
    await store.alter_entity_configs([EntityChange(entity=odd, changes=changes)])
    same = EntityChange(entity=odd, changes=changes, expected=changes)
    assert await store.alter_entity_configs([same]) == {odd: changes}
    assert (await store.entity_config_changes(0)).configs == {odd: changes}


async def test_changes_at_a_time_are_all_kept(store: MetadataStore) -> None:
    # Given changes of the same entities in another order, at a time
    calls = [
        store.alter_entity_configs(
            [
                EntityChange(entity=entity, changes={str(at): "1"})
                for entity in ((BROKER, GROUP) if at % 2 else (GROUP, BROKER))
            ]
        )
        for at in range(16)
    ]

    # When all are done, then nothing is lost
    await asyncio.gather(*calls)
    wanted = {str(at): "1" for at in range(16)}
    assert (await store.entity_config_changes(0)).configs == {BROKER: wanted, GROUP: wanted}
