"""What jobs take topics' configs to mean, against what brokers take them to mean."""

from pathlib import Path
from random import Random

import pytest

from broker.configs.broker_configs import read_broker_config
from broker.configs.broker_settings import check_dynamic_configs
from spark.jobs.options import UpkeepOptions, WrongUsage
from spark.upkeep.settings import upkeep_order
from spark.upkeep.topic_policies import CLUSTER_WIDE, ClusterPolicies
from storage.config import UpkeepConfig
from storage.configs.cluster_config_table import DYNAMIC_CONFIGS
from storage.configs.config_types import InvalidConfig
from storage.configs.topic_policies import topic_policy as policy_of_brokers
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from tests.support.fakes.metadata import MemoryMetadata

BROKERS: tuple[dict[str, str], ...] = (
    {},
    {"log.roll.hours": "3", "log.retention.hours": "-1", "compression.type": "gzip"},
    {"log.roll.hours": "3", "log.roll.ms": "5000", "log.retention.minutes": "9"},
    {"log.segment.bytes": " 2000000", "log.cleanup.policy": "compact,delete"},
    {"log.cleaner.min.cleanable.ratio": "0.25", "log.cleaner.delete.retention.ms": "77"},
    {"compression.type": "zstd", "compression.zstd.level": "11", "log.retention.bytes": "-5"},
    {"log.cleaner.min.compaction.lag.ms": "8", "log.cleaner.max.compaction.lag.ms": "9"},
)
TOPICS: tuple[dict[str, str], ...] = (
    {},
    {"cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": ".75"},
    {"cleanup.policy": "", "retention.ms": "-1", "segment.ms": "+60000"},
    {"compression.type": "uncompressed", "segment.bytes": "1048576"},
    {"compression.type": "lz4", "compression.lz4.level": "3", "delete.retention.ms": "0"},
    {"compression.type": "snappy", "retention.bytes": "123"},
    {"compression.type": "producer", "min.compaction.lag.ms": "1", "max.message.bytes": "99"},
)
UNREADABLE: tuple[dict[str, str], ...] = (
    {"retention.later": "1"},
    {"cleanup.policy": "compact", "compact.later": "no"},
    {"cleanup.policy": "compact,later"},
    {"compression.type": "brotli"},
    {"max.message.bytes": "many"},
    {"min.cleanable.dirty.ratio": "nan"},
    {"retention.ms": "-5"},
    {"segment.bytes": "2_000_000"},
)


@pytest.mark.parametrize("brokers", BROKERS)
@pytest.mark.parametrize("configs", TOPICS)
async def test_policies_are_those_of_brokers(
    brokers: dict[str, str], configs: dict[str, str]
) -> None:
    metadata = MemoryMetadata(Random(1))
    topic = await metadata.create_topic(
        "t", partition_count=2, replication_factor=1, configs=configs
    )
    theirs = policy_of_brokers(topic, read_broker_config(brokers).topic_values)
    policies = ClusterPolicies(metadata, brokers)
    await policies.refresh()
    assert policies.get(topic.topic_id) == theirs


@pytest.mark.parametrize("brokers", BROKERS)
async def test_what_is_set_of_the_cluster_counts_as_it_does_for_brokers(
    brokers: dict[str, str],
) -> None:
    # Given a cluster of which something is set while it runs, as far as that is possible
    cluster_wide = {name: value for name, value in brokers.items() if name in DYNAMIC_CONFIGS}
    started_with = {"log.retention.hours": "2", "log.segment.bytes": "3000000", "broker.rack": "a"}
    metadata = MemoryMetadata(Random(1))
    topic = await metadata.create_topic("t", partition_count=2, replication_factor=1, configs={})
    await metadata.alter_entity_configs([EntityChange(entity=CLUSTER_WIDE, changes=cluster_wide)])

    # Then jobs make of it what brokers make of it
    policies = ClusterPolicies(metadata, started_with)
    await policies.refresh()
    theirs = read_broker_config(started_with, cluster_wide=cluster_wide)
    assert policies.get(topic.topic_id) == policy_of_brokers(topic, theirs.topic_values)


@pytest.mark.parametrize("configs", UNREADABLE)
async def test_topics_are_refused_that_brokers_refuse(configs: dict[str, str]) -> None:
    metadata = MemoryMetadata(Random(1))
    topic = await metadata.create_topic(
        "t", partition_count=1, replication_factor=1, configs=configs
    )
    with pytest.raises(InvalidConfig):
        policy_of_brokers(topic, read_broker_config({}).topic_values)
    policies = ClusterPolicies(metadata, {})
    await policies.refresh()
    assert policies.get(topic.topic_id) is None


@pytest.mark.parametrize(
    "configs",
    [
        {"log.cleaner.min.compaction.lag.ms": "30d"},
        {"log.cleaner.later": "1"},
        {"max.connections": "-1"},
        {"num.partitions": "3"},
    ],
)
async def test_nothing_is_cleaned_while_the_clusters_configs_cannot_be_read(
    configs: dict[str, str],
) -> None:
    # Given a topic to compact, and something set of the cluster that only a later version reads
    metadata = MemoryMetadata(Random(1))
    compacted = {"cleanup.policy": "compact"}
    topic = await metadata.create_topic(
        "t", partition_count=1, replication_factor=1, configs=compacted
    )
    await metadata.alter_entity_configs([EntityChange(entity=CLUSTER_WIDE, changes=configs)])
    _, problems = check_dynamic_configs(configs)
    assert problems  # brokers clean nothing either

    # Then it is built, but not cleaned
    policies = ClusterPolicies(metadata, {})
    await policies.refresh()
    assert policies.get(topic.topic_id) is not None
    assert policies.cleaning(topic.topic_id) is None

    # And when all can be read again, it is
    unset = EntityChange(entity=CLUSTER_WIDE, changes=dict.fromkeys(configs))
    await metadata.alter_entity_configs([unset])
    await policies.refresh()
    assert policies.cleaning(topic.topic_id) == policies.get(topic.topic_id)


def test_a_job_takes_no_setting_that_brokers_refuse(tmp_path: Path) -> None:
    options = UpkeepOptions(log={"data": str(tmp_path)})
    with pytest.raises(WrongUsage, match=r"log\.roll\.ms"):
        upkeep_order(options, ["log.roll.ms=5m"], UpkeepConfig())


async def test_what_is_set_of_the_cluster_and_of_topics_is_followed() -> None:
    # Given topics, one of which nobody can read
    metadata = MemoryMetadata(Random(1))
    one = await metadata.create_topic("one", partition_count=1, replication_factor=1, configs={})
    later = {"compression.type": "brotli"}
    await metadata.create_topic("new", partition_count=1, replication_factor=1, configs=later)
    policies = ClusterPolicies(metadata, {"log.segment.bytes": "2000000"})
    await policies.refresh()
    assert [(topic_id, each.segment_bytes) for topic_id, each in policies.all()] == [
        (one.topic_id, 2_000_000)
    ]

    # When the cluster is set otherwise, then that comes before what brokers are started with
    change = EntityChange(entity=CLUSTER_WIDE, changes={"log.segment.bytes": "3000000"})
    await metadata.alter_entity_configs([change])
    await policies.refresh()
    (changed,) = (each for _, each in policies.all())
    assert changed.segment_bytes == 3_000_000
    assert policies.wanted(["one"])(one.topic_id)
    assert policies.name_of(one.topic_id) == "one"

    # When a topic is gone, then so is its policy
    await metadata.delete_topic(one.topic_id)
    await policies.refresh()
    assert policies.get(one.topic_id) is None
    with pytest.raises(LookupError, match="no topic one"):
        policies.wanted(["one"])


@pytest.mark.parametrize("changes_since", [0, 2])
async def test_what_a_database_that_went_back_has_lost_does_not_count(changes_since: int) -> None:
    # Given policies of a cluster of which something was set that a failover has lost
    metadata, standby = MemoryMetadata(Random(1)), MemoryMetadata(Random(1))
    for store in (metadata, standby):
        await store.create_topic("one", partition_count=1, replication_factor=1, configs={})
    change = EntityChange(entity=CLUSTER_WIDE, changes={"log.segment.bytes": "3000000"})
    await metadata.alter_entity_configs([change])
    policies = ClusterPolicies(metadata, {"log.segment.bytes": "2000000"})
    await policies.refresh()
    assert [each.segment_bytes for _, each in policies.all()] == [3_000_000]

    # When the standby becomes the database, perhaps with as many changes since, then it is followed
    other = EntityChange(entity=Entity(EntityKind.GROUP, "g"), changes={"a": "1"})
    for _ in range(changes_since):
        await standby.alter_entity_configs([other])
    policies._metadata = policies._policies._metadata = standby
    standby.server = 1
    await policies.refresh()
    assert [each.segment_bytes for _, each in policies.all()] == [2_000_000]
