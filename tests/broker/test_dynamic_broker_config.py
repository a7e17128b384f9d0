"""What is in force of broker configs: of the start, of the cluster, of one broker (KIP-226)."""

from collections.abc import Mapping
from random import Random

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from broker.configs.broker_config_table import BROKER_CONFIGS
from broker.configs.broker_configs import read_broker_config
from broker.configs.config_changes import ConfigChange, ConfigOperation, incremental_changes
from broker.configs.config_reports import (
    broker_places,
    describe_broker_configs,
    describe_cluster_wide_configs,
    describe_topic_configs,
)
from broker.configs.config_rules import BrokerRules, TopicRules
from broker.configs.dynamic_broker_config import CLUSTER_WIDE, DynamicBrokerConfig
from broker.configs.entity_configs import EntityConfigs
from broker.refusals import Refusal
from storage.configs.config_types import ConfigSource, InvalidConfig
from storage.configs.topic_config_table import UNLIMITED
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from tests.support.fakes.metadata import MemoryMetadata

NODE_ID = 3
OWN = str(NODE_ID)
HERE, CLUSTER = ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG


class World:
    """One broker's configs, and what is set of brokers."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.entities = EntityConfigs(MemoryMetadata(Random(5)))
        self.config = DynamicBrokerConfig(read_broker_config(settings), self.entities)
        self.config.identify(NODE_ID)

    async def set(self, name: str, configs: Mapping[str, str | None]) -> None:
        change = EntityChange(entity=Entity(EntityKind.BROKER, name), changes=configs)
        await self.entities.alter([change])


async def test_the_nearest_place_counts() -> None:
    # Given a broker that was started with a limit
    world, told = World({"max.connections": "10"}), list[int]()
    world.config.watch(lambda: told.append(world.config.current.max_connections))

    # When it is set for all brokers, and for this one, and both are unset again
    await world.set(CLUSTER_WIDE, {"max.connections": "20"})
    await world.set(OWN, {"max.connections": "30"})
    await world.set("4", {"max.connections": "40"})
    places = broker_places("max.connections", world.config.current)
    await world.set(CLUSTER_WIDE, {"max.connections": None})
    await world.set(OWN, {"max.connections": None})

    # Then the nearest counts, watchers are told, and all places are named in their order
    assert told == [20, 30, 30, 10]
    assert [(place.value, place.source) for place in places] == [
        ("30", HERE),
        ("20", CLUSTER),
        ("10", STATIC),
        ("10000", DEFAULT),
    ]


async def test_topics_follow_and_say_so() -> None:
    # Given a cluster whose retention is set while it runs, and a larger batch limit here
    world = World({"log.retention.hours": "5"})
    await world.set(CLUSTER_WIDE, {"log.retention.ms": "1000"})
    await world.set(OWN, {"message.max.bytes": "6000"})
    current = world.config.current

    # Then topics that set nothing have these
    assert current.topic_defaults.retention_ms == 1000
    assert current.topic_defaults.max_message_bytes == 6000

    # And their description tells from where, as Apache Kafka 4.3.1 does
    entries = describe_topic_configs({"max.message.bytes": "999"}, current)
    assert [(each.name, each.value, each.source) for each in entries["retention.ms"].synonyms] == [
        ("log.retention.ms", "1000", CLUSTER),
        ("log.retention.hours", "5", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert [each.source for each in entries["max.message.bytes"].synonyms] == [
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        HERE,
        DEFAULT,
    ]


async def test_the_cluster_is_described_by_what_is_set_of_it() -> None:
    world = World({"max.connections": "10"})
    throttle = "leader.replication.throttled.rate"
    await world.set(CLUSTER_WIDE, {"max.connections.per.ip": "20", throttle: "5"})
    await world.set(OWN, {"max.connections": "30"})

    wide = describe_cluster_wide_configs(world.config.current)
    assert {name: entry.value for name, entry in wide.items()} == {
        throttle: "5",
        "max.connections.per.ip": "20",
    }
    assert all(entry.source is CLUSTER and not entry.read_only for entry in wide.values())
    broker = describe_broker_configs(world.config.current, {"node.id": OWN})
    assert (broker[throttle].value, broker[throttle].source) == ("5", CLUSTER)
    assert "follower.replication.throttled.rate" not in broker


def test_what_kafka_lets_be_set_while_it_runs_can_be() -> None:
    # The names that DescribeConfigs of Apache Kafka 4.3.1 does not call read-only
    dynamic = {name for name, key in BROKER_CONFIGS.items() if key.dynamic}
    assert {"log.retention.ms", "message.max.bytes", "min.insync.replicas"} < dynamic
    of_no_topic = {
        "log.cleaner.backoff.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "producer.id.expiration.ms",
    }
    assert {name for name in dynamic if BROKER_CONFIGS[name].doc.startswith("For topics")} == (
        dynamic - of_no_topic
    )
    for name in ("num.partitions", "log.retention.hours", "log.cleaner.enable"):
        assert not BROKER_CONFIGS[name].dynamic


async def test_what_another_version_has_set_is_logged_and_does_not_count() -> None:
    # Given configs of which some are not for this broker
    world = World({"max.connections": "10"})
    with capture_logs() as logs:
        await world.set(
            CLUSTER_WIDE,
            {"max.connections": "0", "num.partitions": "5", "later": "x", "log.roll.ms": "9"},
        )

    # Then the others count, and one line of the log names those that do not
    assert world.config.current.max_connections == 10
    assert world.config.current.cluster_wide == {"log.roll.ms": "9"}
    (line,) = logs
    assert all(name in line["reason"] for name in ("max.connections", "num.partitions", "later"))


async def test_configs_that_contradict_each_other_all_count() -> None:
    # Given a broker with a small lag, in a cluster that keeps records for ever
    world = World({"log.cleaner.max.compaction.lag.ms": "50"})
    await world.set(CLUSTER_WIDE, {"log.retention.ms": "-1"})

    # When what is set later contradicts how it was started
    with capture_logs() as logs:
        await world.set(CLUSTER_WIDE, {"log.cleaner.min.compaction.lag.ms": "60"})

    # Then everything that is set counts, as in Apache Kafka, and the log tells of the contradiction
    current = world.config.current
    assert current.cluster_wide.keys() == {"log.retention.ms", "log.cleaner.min.compaction.lag.ms"}
    assert current.topic_defaults.retention_ms == UNLIMITED
    assert current.topic_defaults.min_compaction_lag_ms == 60
    assert current.topic_defaults.max_compaction_lag_ms == 50
    assert "(60)" in logs[0]["reason"]


async def test_a_contradiction_that_is_there_refuses_nothing_else() -> None:
    # Given a cluster whose lag contradicts how this broker was started
    world = World({"log.cleaner.max.compaction.lag.ms": "50"})
    lag = {"log.cleaner.min.compaction.lag.ms": "60"}
    await world.set(CLUSTER_WIDE, lag)

    # Then other configs can be set, of the cluster and of topics, and nothing that adds to it
    world.config.proposed(CLUSTER_WIDE, lag | {"log.retention.ms": "-1"})
    rules = TopicRules(world.config.current.topic_values)
    assert rules.checked({"retention.ms": "1"}) == {"retention.ms": "1"}
    with pytest.raises(InvalidConfig, match=r"max\.compaction\.lag\.ms"):
        world.config.proposed(CLUSTER_WIDE, {"log.cleaner.min.compaction.lag.ms": "70"})
    with pytest.raises(Refusal, match=r"max\.compaction\.lag\.ms"):
        rules.checked({"min.compaction.lag.ms": "70"})


@pytest.mark.parametrize("configs", [{"log.retention.ms": "30d"}, {"log.retention.later": "1"}])
async def test_a_cluster_that_cannot_be_read_whole_is_known(configs: Mapping[str, str]) -> None:
    # Given a cluster, of which a later version sets something, and unsets it again
    world, told = World({}), list[bool]()
    world.config.watch(lambda: told.append(world.config.is_whole))
    assert world.config.is_whole
    await world.set(CLUSTER_WIDE, configs)
    await world.set(CLUSTER_WIDE, dict.fromkeys(configs))

    # Then who watches knows when it cannot be read
    assert told == [False, True]


@pytest.mark.parametrize(
    ("configs", "named"),
    [
        ({"num.partitions": "5"}, "num.partitions"),
        ({"node.id": "5"}, "node.id"),
        ({"listeners": "PLAINTEXT://:1"}, "listeners"),
        ({"max.connection": "5"}, "max.connections"),
        ({"max.connections": "none"}, "max.connections"),
        ({"log.cleaner.min.compaction.lag.ms": str(2**62)}, "compaction.lag.ms"),
    ],
)
def test_what_cannot_be_set_is_refused(configs: Mapping[str, str], named: str) -> None:
    world = World({"log.cleaner.max.compaction.lag.ms": "50"})
    with pytest.raises(InvalidConfig, match=named):
        world.config.proposed(OWN, configs)
    with pytest.raises(Refusal, match=named) as refused:
        BrokerRules(world.config, CLUSTER_WIDE).checked(configs)
    assert refused.value.code is ErrorCode.invalid_request


async def test_what_upkeep_reads_is_not_one_brokers() -> None:
    # Given what an earlier version has let be set of one broker
    world = World({})
    stored = {"log.retention.ms": "-1", "max.connections": "30"}
    with capture_logs() as logs:
        await world.set(OWN, stored)

    # Then it does not count, and the log says so
    current = world.config.current
    assert current.max_connections == 30
    assert current.topic_defaults.retention_ms == 7 * 24 * 60 * 60 * 1000
    retention = describe_topic_configs({}, current)["retention.ms"]
    assert (retention.value, retention.source) == ("604800000", DEFAULT)
    assert "log.retention.ms holds for the whole cluster" in logs[0]["reason"]

    # And tools are told of it, and can unset it
    told = describe_broker_configs(current, {})["log.retention.ms"]
    assert (told.value, told.source) == ("-1", HERE)
    rules = BrokerRules(world.config, OWN)
    unset = ConfigChange(name="log.retention.ms", operation=ConfigOperation.DELETE, value=None)
    assert incremental_changes(stored, [unset], rules) == {"log.retention.ms": None}

    # And it hinders no other change, and none can be set
    other = ConfigChange(name="max.connections", operation=ConfigOperation.SET, value="40")
    assert incremental_changes(stored, [other], rules) == {"max.connections": "40"}
    assert rules.checked(stored) == stored
    for name, value in {"log.retention.ms": "5", "log.segment.bytes": "2000000"}.items():
        with pytest.raises(Refusal, match=f"{name} holds for the whole cluster") as refused:
            rules.checked({**stored, name: value})
        assert refused.value.code is ErrorCode.invalid_request


async def test_lists_start_from_what_counts_at_that_level() -> None:
    # Given policies at both levels
    world = World({"log.cleanup.policy": "compact"})
    await world.set(CLUSTER_WIDE, {"log.cleanup.policy": "delete"})
    await world.set(OWN, {"log.cleanup.policy": ""})

    # Then each level, while it sets nothing, follows those beyond it
    name = "log.cleanup.policy"
    assert BrokerRules(world.config, OWN).default(name) == ("delete",)
    assert BrokerRules(world.config, CLUSTER_WIDE).default(name) == ("compact",)
