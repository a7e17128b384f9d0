"""The background work while what is set of the cluster, or of a topic, cannot be read."""

from collections.abc import Mapping

import pytest

from broker.configs.broker_configs import read_broker_config
from broker.configs.dynamic_broker_config import CLUSTER_WIDE
from broker.upkeep.upkeep import Upkeep
from storage.config import UpkeepConfig
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.tasks import TaskKind
from tests.storage.compaction_world import World

DAY_MS = 24 * 60 * 60 * 1000


def upkeep_of(world: World) -> Upkeep:
    return Upkeep(
        metadata=world.metadata,
        objects=world.objects,
        config=UpkeepConfig(),
        broker_config=read_broker_config({}),
    )


async def set_cluster_wide(world: World, configs: Mapping[str, str | None]) -> None:
    change = EntityChange(entity=Entity(EntityKind.BROKER, CLUSTER_WIDE), changes=configs)
    await world.metadata.alter_entity_configs([change])


async def first_offset(world: World) -> int:
    (offsets,) = (await world.metadata.partition_offsets([world.partition])).values()
    return offsets.log_start_offset


@pytest.mark.parametrize("configs", [{"log.retention.ms": "30d"}, {"log.retention.later": "1"}])
async def test_nothing_expires_while_the_clusters_configs_cannot_be_read(
    configs: dict[str, str],
) -> None:
    # Given records that are older than the default retention, and a cluster that keeps them for a
    # time that only a later version understands
    world = await World().open()
    await world.produce([(b"a", b"1")])
    world.now_ms += 30 * DAY_MS
    upkeep = upkeep_of(world)
    await set_cluster_wide(world, configs)

    # When retention runs, then they stay
    await upkeep._retain()
    assert await first_offset(world) == 0

    # And when it can be read again, they go
    await set_cluster_wide(world, dict.fromkeys(configs))
    await upkeep._retain()
    assert await first_offset(world) == 1


async def test_nothing_is_compacted_while_the_clusters_configs_cannot_be_read() -> None:
    # Given a key with two values, a task to compact it, and a lag that cannot be read
    world = await World().open()
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    await world.metadata.alter_topic_configs(world.partition.topic_id, configs, replace=False)
    await world.produce([(b"a", b"1")])
    await world.produce([(b"a", b"2")])
    await world.build()
    lag = {"log.cleaner.min.compaction.lag.ms": "30d"}
    await set_cluster_wide(world, lag)
    upkeep = upkeep_of(world)
    await upkeep._refresh()

    # When it is planned, or another broker has planned it
    await upkeep._plan_compaction()
    assert not await upkeep._compactor.work_once()
    await world.metadata.add_tasks(TaskKind.COMPACT, [world.partition])
    await upkeep._compactor.work_once()

    # Then nothing is done, until it can be read
    assert upkeep._compactor.counts.segments == 0
    await set_cluster_wide(world, dict.fromkeys(lag))
    await upkeep._refresh()
    await upkeep._plan_compaction()
    assert await upkeep._compactor.work_once()
    assert upkeep._compactor.counts.segments == 1
