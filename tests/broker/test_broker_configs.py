"""Broker configs: what --set takes, what it comes to, and how DescribeConfigs tells of it."""

import pytest

from broker.configs.broker_config_table import BROKER_CONFIGS, NODE_FACTS
from broker.configs.broker_configs import read_broker_config
from broker.configs.config_docs import BROKER_DOCS
from broker.configs.config_reports import describe_broker_configs, describe_topic_configs
from storage.configs.cluster_config_table import FALLBACKS, ONLY_DYNAMIC
from storage.configs.config_docs import CLUSTER_DOCS
from storage.configs.config_types import ConfigEntry, ConfigSource, InvalidConfig
from storage.configs.topic_config_table import TOPIC_CONFIGS

Origin = tuple[str, str, ConfigSource]

TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG


OPTIONAL = {
    "broker.rack",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.url",
    "ssl.keystore.location",
    "ssl.truststore.location",
    "super.users",
}
"""What has no value unless it is set."""


def origins(entry: ConfigEntry) -> list[Origin]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]


def test_every_broker_config_says_what_it_is_for() -> None:
    followed = {key.broker_name for key in TOPIC_CONFIGS.values()} - {""}
    assert {*BROKER_CONFIGS, *NODE_FACTS, *ONLY_DYNAMIC} == {
        *BROKER_DOCS,
        *CLUSTER_DOCS,
        *followed,
    }
    assert all(key.doc for key in BROKER_CONFIGS.values())


def test_every_config_without_a_default_has_something_to_fall_back_on() -> None:
    without = {name for name, key in BROKER_CONFIGS.items() if key.default is None}
    assert without == OPTIONAL | set(FALLBACKS)
    for fallbacks in FALLBACKS.values():
        assert BROKER_CONFIGS[fallbacks[-1][0]].default is not None


def test_defaults_bound_what_one_client_can_take() -> None:
    config = read_broker_config({})
    assert config.socket_request_max_bytes == 104_857_600
    assert config.queued_max_request_bytes == 256 * 2**20
    assert (config.max_connections, config.max_connections_per_ip) == (10_000, 1000)
    assert config.topic_defaults.retention_ms == 7 * 24 * 60 * 60 * 1000


def test_settings_are_typed_and_kept_as_kafka_shows_them() -> None:
    config = read_broker_config(
        {
            "num.partitions": " 6 ",
            "auto.create.topics.enable": "FALSE",
            "log.cleanup.policy": "compact, delete",
        }
    )
    assert config.num_partitions == 6
    assert not config.auto_create_topics_enable
    assert config.topic_defaults.compact
    assert config.topic_defaults.delete
    assert config.explicit == {
        "num.partitions": "6",
        "auto.create.topics.enable": "false",
        "log.cleanup.policy": "compact,delete",
    }


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.minutes": "5", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1", "log.retention.hours": "1"}, -1),
    ],
)
def test_the_finest_unit_that_is_set_counts(settings: dict[str, str], retention_ms: int) -> None:
    assert read_broker_config(settings).topic_defaults.retention_ms == retention_ms


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(InvalidConfig) as invalid:
        read_broker_config(
            {
                "num.partition": "3",
                "message.max.bytes": "huge",
                "node.id": "7",
                "zookeeper.connect": "localhost",
                "num.partitions": "0",
                "listeners": "PLAINTEXT://:9092",
            }
        )
    assert invalid.value.problems == (
        "Unknown broker config name: num.partition (near: num.partitions)",
        "Invalid value 'huge' for config message.max.bytes: must be a 32-bit integer",
        "node.id follows from the broker's place in its cluster",
        "Unknown broker config name: zookeeper.connect",
        "Invalid value '0' for config num.partitions: must be at least 1",
        "listeners is given with --listen",
    )


def test_only_a_topic_itself_may_keep_nothing() -> None:
    # As in Apache Kafka, where zero would empty every topic that sets no retention of its own
    problem = r"'0' for config log\.retention\.ms: must be at least 1, or -1"
    with pytest.raises(InvalidConfig, match=problem):
        read_broker_config({"log.retention.ms": "0"})
    topic = describe_topic_configs({"retention.ms": "0"}, read_broker_config({}))
    assert topic["retention.ms"].value == "0"


def test_timeouts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"group\.min\.session\.timeout\.ms \(9000\)"):
        read_broker_config(
            {"group.min.session.timeout.ms": "9000", "group.max.session.timeout.ms": "8000"}
        )


def test_a_topic_config_tells_all_places_that_its_value_may_come_from() -> None:
    # Given a broker with a larger batch limit, and a topic with a smaller one
    broker = read_broker_config({"message.max.bytes": "2000000"})

    # When both a topic that sets the limit and one that does not are described
    own = describe_topic_configs({"max.message.bytes": "99"}, broker)["max.message.bytes"]
    followed = describe_topic_configs({}, broker)["max.message.bytes"]

    # Then the nearest place counts and comes first
    behind = [("message.max.bytes", "2000000", STATIC), ("message.max.bytes", "1048588", DEFAULT)]
    assert (own.value, own.source, own.read_only) == ("99", TOPIC, False)
    assert origins(own) == [("max.message.bytes", "99", TOPIC), *behind]
    assert (followed.value, followed.source) == ("2000000", STATIC)
    assert origins(followed) == behind


def test_a_topic_config_in_another_unit_has_synonyms_only_where_one_is_set() -> None:
    plain = describe_topic_configs({}, read_broker_config({}))["retention.ms"]
    assert (plain.value, plain.source, origins(plain)) == ("604800000", DEFAULT, [])

    broker = read_broker_config({"log.retention.minutes": "10"})
    followed = describe_topic_configs({}, broker)["retention.ms"]
    assert (followed.value, followed.source) == ("600000", STATIC)
    assert origins(followed) == [
        ("log.retention.minutes", "10", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_broker_configs_tell_set_from_default() -> None:
    # Given a broker with its own roll time, and knowing its number
    broker = read_broker_config({"log.roll.ms": "60000", "log.roll.hours": "5"})

    # When it is described
    entries = describe_broker_configs(broker, {"node.id": "3"})

    # Then values and synonyms are those that Apache Kafka 4.3.1 reports
    assert list(entries) == sorted(entries)
    assert origins(entries["log.roll.ms"]) == [
        ("log.roll.ms", "60000", STATIC),
        ("log.roll.hours", "5", STATIC),
        ("log.roll.hours", "168", DEFAULT),
    ]
    assert origins(entries["log.retention.ms"]) == []
    assert entries["log.retention.ms"].value is None
    assert (entries["node.id"].value, entries["node.id"].source) == ("3", STATIC)
    assert entries["broker.rack"].value is None
    assert (entries["delete.topic.enable"].value, entries["delete.topic.enable"].source) == (
        "true",
        DEFAULT,
    )
