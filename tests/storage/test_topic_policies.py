"""What a topic's configs ask of the background work."""

from random import Random

import pytest

from broker.configs.broker_configs import read_broker_config
from protocol.compression import Codec
from storage.configs.topic_policies import TopicPolicies
from storage.upkeep.policies import TopicPolicy
from tests.support.fakes.metadata import MemoryMetadata


async def policy_of(configs: dict[str, str], **broker: str) -> TopicPolicy:
    metadata = MemoryMetadata(Random(1))
    topic = await metadata.create_topic(
        "t", partition_count=3, replication_factor=1, configs=configs
    )
    settings = {name.replace("_", "."): value for name, value in broker.items()}
    policies = TopicPolicies(metadata, read_broker_config(settings).topic_values)
    await policies.refresh()
    ((topic_id, policy),) = policies.all()
    assert topic_id == topic.topic_id
    return policy


@pytest.mark.parametrize(
    ("name", "codec", "level"),
    [
        ("producer", None, None),
        ("uncompressed", Codec.NONE, None),
        ("gzip", Codec.GZIP, -1),
        ("snappy", Codec.SNAPPY, None),
        ("lz4", Codec.LZ4, 9),
        ("zstd", Codec.ZSTD, 3),
    ],
)
async def test_compression_type(name: str, codec: Codec | None, level: int | None) -> None:
    policy = await policy_of({"compression.type": name})
    assert (policy.codec, policy.compression_level) == (codec, level)


async def test_a_topic_follows_the_broker_where_it_says_nothing() -> None:
    policy = await policy_of(
        {"retention.ms": "2592000000", "cleanup.policy": "compact,delete"},
        log_retention_ms="5",
        log_retention_bytes="7",
    )
    assert policy.retention_ms == 2_592_000_000
    assert policy.retention_bytes == 7
    assert policy.compact
    assert policy.delete
    assert policy.configs == {"retention.ms": "2592000000", "cleanup.policy": "compact,delete"}
    assert (policy.name, policy.partition_count) == ("t", 3)


async def test_topics_follow_other_defaults() -> None:
    # Given a topic that follows the brokers, and one that does not
    metadata = MemoryMetadata(Random(1))
    follows, own = [
        await metadata.create_topic(name, partition_count=1, replication_factor=1, configs=configs)
        for name, configs in (("follows", {}), ("own", {"retention.ms": "7"}))
    ]
    policies = TopicPolicies(metadata, read_broker_config({}).topic_values)
    await policies.refresh()

    # When the brokers keep records for a second only
    dynamic = read_broker_config({}, cluster_wide={"log.retention.ms": "1000"})
    policies.follow(dynamic.topic_values)

    # Then so does the one
    kept = [policies.get(topic.topic_id) for topic in (follows, own)]
    assert [policy and policy.retention_ms for policy in kept] == [1000, 7]


async def test_what_changes_is_known_after_a_refresh() -> None:
    # Given two topics
    metadata = MemoryMetadata(Random(1))
    one, other = [
        await metadata.create_topic(name, partition_count=1, replication_factor=1, configs={})
        for name in ("one", "other")
    ]
    policies = TopicPolicies(metadata, read_broker_config({}).topic_values)
    assert policies.get(one.topic_id) is None
    await policies.refresh()

    # When one is altered and grows, and the other is deleted
    await metadata.alter_topic_configs(one.topic_id, {"retention.ms": "1"}, replace=False)
    await metadata.add_partitions(one.topic_id, 4)
    await metadata.delete_topic(other.topic_id)
    await policies.refresh()

    # Then that is known
    policy = policies.get(one.topic_id)
    assert policy is not None
    assert (policy.retention_ms, policy.partition_count) == (1, 4)
    assert policies.get(other.topic_id) is None
    assert len(list(policies.all())) == 1


@pytest.mark.parametrize("configs", [{"retention.ms": "30d"}, {"retention.later": "1"}])
async def test_a_topic_that_cannot_be_read_whole_has_no_policy(configs: dict[str, str]) -> None:
    # Given a topic of which a later version has set something, and one that can be read
    metadata = MemoryMetadata(Random(1))
    for name, of_topic in (("later", configs), ("plain", {})):
        await metadata.create_topic(name, partition_count=1, replication_factor=1, configs=of_topic)

    # Then nothing is done to the one: it may say that records are kept for longer
    policies = TopicPolicies(metadata, read_broker_config({}).topic_values)
    await policies.refresh()
    assert [policy.name for _, policy in policies.all()] == ["plain"]


@pytest.mark.parametrize("changes_since", [0, 2])
async def test_policies_follow_a_database_that_went_back(changes_since: int) -> None:
    # Given policies of what a database has lost in a failover
    metadata, standby = MemoryMetadata(Random(1)), MemoryMetadata(Random(1))
    for store in (metadata, standby):
        await store.create_topic("kept", partition_count=1, replication_factor=1, configs={})
    kept = (await standby.topic_changes(0)).changed[0].topic_id
    await metadata.alter_topic_configs(kept, {"retention.ms": "1"}, replace=False, expected=None)
    await metadata.create_topic("lost", partition_count=1, replication_factor=1, configs={})
    policies = TopicPolicies(metadata, read_broker_config({}).topic_values)
    await policies.refresh()

    # When the standby becomes the database, perhaps with as many changes since, then the next look
    # finds what its topics ask for
    for _ in range(changes_since):
        await standby.alter_topic_configs(kept, {}, replace=False, expected=None)
    policies._metadata, standby.server = standby, 1
    await policies.refresh()
    ((topic_id, policy),) = policies.all()
    assert topic_id == kept
    assert policy.retention_ms == 7 * 24 * 3_600_000
    assert list(policies.topics) == [kept]
