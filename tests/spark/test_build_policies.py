"""What jobs take topics' configs to mean, against what brokers take them to mean."""

from random import Random

import pytest

from broker.broker_configs import read_broker_config
from spark.upkeep.topic_policies import CLUSTER_WIDE, TopicPolicies, topic_policy
from storage.entity_configs import EntityChange
from storage.metadata_memory import MemoryMetadata
from storage.topic_policies import topic_policy as policy_of_brokers

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
    assert topic_policy(topic, brokers) == theirs


async def test_what_is_set_of_the_cluster_and_of_topics_is_followed() -> None:
    # Given topics, one of which nobody can read
    metadata = MemoryMetadata(Random(1))
    one = await metadata.create_topic("one", partition_count=1, replication_factor=1, configs={})
    later = {"compression.type": "brotli"}
    await metadata.create_topic("new", partition_count=1, replication_factor=1, configs=later)
    policies = TopicPolicies(metadata, {"log.segment.bytes": "2000000"})
    await policies.refresh()
    assert [each.name for each in policies.all().values()] == ["one"]
    assert policies.all()[one.topic_id].segment_bytes == 2_000_000

    # When the cluster is set otherwise, then that comes before what brokers are started with
    change = EntityChange(entity=CLUSTER_WIDE, changes={"log.segment.bytes": "3000000"})
    await metadata.alter_entity_configs([change])
    await policies.refresh()
    assert policies.all()[one.topic_id].segment_bytes == 3_000_000
    assert policies.wanted(["one"])(one.topic_id)
    assert policies.name_of(one.topic_id) == "one"

    # When a topic is gone, then so is its policy
    await metadata.delete_topic(one.topic_id)
    await policies.refresh()
    assert policies.get(one.topic_id) is None
    with pytest.raises(LookupError, match="no topic one"):
        policies.wanted(["one"])
