"""Whose clock the background work goes by."""

from broker.configs.broker_configs import read_broker_config
from broker.upkeep.upkeep import Upkeep
from storage.config import UpkeepConfig
from tests.storage.compaction_world import World


async def test_compaction_goes_by_the_databases_clock() -> None:
    # Given a deleted key, and a database whose clock is years behind this machine's
    world = await World().open()
    configs = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}
    await world.metadata.alter_topic_configs(world.partition.topic_id, configs, replace=False)
    deleted = await world.produce([(b"a", None)])
    await world.build()

    # When it is compacted
    upkeep = Upkeep(
        metadata=world.metadata,
        objects=world.objects,
        config=UpkeepConfig(),
        broker_config=read_broker_config({}),
    )
    await upkeep._refresh()
    assert await upkeep._compactor.compact(world.partition) == 1

    # Then the tombstone goes when it has had its time there
    assert await world.horizons() == {deleted: world.now_ms + 1_000}
