"""What brokers leave alone after a recovery: what the cluster's configs were, nobody knows."""

import pytest

from broker.configs.broker_configs import read_broker_config
from broker.upkeep.upkeep import Upkeep
from storage.config import UpkeepConfig
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.recovery.recover_report import KEEPING
from tests.storage.stored_log import CONFIG, StoredLog, stored_log
from tests.storage.test_recover_changed import keyed, records_of
from tests.storage.test_recover_store import recover
from tests.support.postgres import create_database

STARTED = {"log.cleaner.max.compaction.lag.ms": "3600000"}
CLUSTER = Entity(EntityKind.BROKER, "")


async def clean(log: StoredLog) -> None:
    """Do what the upkeep of a broker does about records that are not to be kept."""
    upkeep = Upkeep(
        metadata=log.metadata,
        objects=log.objects,
        config=UpkeepConfig(),
        broker_config=read_broker_config(STARTED),
    )
    await upkeep._retain()
    await upkeep._plan_compaction()
    while await upkeep._compactor.work_once():
        pass


@pytest.mark.parametrize("configs", [{}, {"cleanup.policy": "compact"}])
async def test_a_topic_that_follows_the_cluster_keeps_its_records(configs: dict[str, str]) -> None:
    # Given records of 1970, one of which replaces another, of a topic that leaves it to the
    # cluster how long they are kept
    async with stored_log(configs) as log:
        await log.store([keyed((b"k", b"v1"), (b"k", b"v2"))])
        await log.store([keyed((b"l", b"v1"))])
        await log.build()
        before = await records_of(log)
        assert len(before) == 3

        # When the index is recovered, and a broker begins with its upkeep
        report = await recover(log)
        await clean(log)

        # Then all are there, and it is told why
        assert log.topic.configs == configs
        assert await records_of(log) == before
        assert report.keeping == KEEPING

        # And no longer, once somebody has set what the cluster had
        unset = EntityChange(entity=CLUSTER, changes={}, replace=True)
        await log.metadata.alter_entity_configs([unset])
        await clean(log)
        assert len(await records_of(log)) < len(before)


async def test_what_is_set_of_the_new_cluster_counts() -> None:
    # Given an empty database in which somebody has set how long records are kept
    dsn, known = await create_database(), {"log.retention.ms": "2592000000"}
    metadata = await PostgresMetadata.open(dsn, CONFIG)
    await metadata.alter_entity_configs([EntityChange(entity=CLUSTER, changes=known)])
    await metadata.close()

    # When the index is recovered into it, then that is still set, beside what is not known
    async with stored_log() as log:
        report = await recover(log, dsn=dsn)
        changes = await log.metadata.entity_config_changes(0)
    assert changes.configs == {CLUSTER: KEEPING | known}
    assert report.keeping.keys() == KEEPING.keys() - known.keys()
