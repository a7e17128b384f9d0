"""The configs of groups (KIP-848), and the times that members are held to."""

import pytest

from broker.configs.broker_configs import read_broker_config
from broker.configs.config_reports import describe_group_configs
from broker.groups.group_configs import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    ConsumerGroupTimes,
    read_group_configs,
)
from storage.configs.config_types import ConfigSource, InvalidConfig

BROKER = read_broker_config({"group.consumer.session.timeout.ms": "50000"})


def test_a_group_follows_the_broker_where_it_says_nothing() -> None:
    times = read_group_configs({HEARTBEAT_INTERVAL_MS: "15000"}, BROKER)
    assert times == ConsumerGroupTimes(session_timeout_ms=50_000, heartbeat_interval_ms=15_000)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (SESSION_TIMEOUT_MS, "44999", "group.consumer.min.session.timeout.ms"),
        (SESSION_TIMEOUT_MS, "60001", "group.consumer.max.session.timeout.ms"),
        (SESSION_TIMEOUT_MS, "0", "at least 1"),
        (HEARTBEAT_INTERVAL_MS, "4999", "group.consumer.min.heartbeat.interval.ms"),
        (HEARTBEAT_INTERVAL_MS, "often", "32-bit integer"),
        ("share.session.timeout.ms", "45000", "not supported"),
        ("streams.num.standby.replicas", "1", "not supported"),
        ("consumer.assignment.interval.ms", "1", "not supported"),
        ("consumer.session.timeout", "45000", "consumer.session.timeout.ms"),
    ],
)
def test_what_a_group_cannot_have_is_refused(name: str, text: str, problem: str) -> None:
    with pytest.raises(InvalidConfig) as invalid:
        read_group_configs({name: text}, BROKER)
    assert problem in str(invalid.value)
    assert name in str(invalid.value)


def test_heartbeats_have_to_come_within_the_session() -> None:
    broker = read_broker_config(
        {
            "group.consumer.min.session.timeout.ms": "10",
            "group.consumer.max.heartbeat.interval.ms": "6000",
        }
    )
    with pytest.raises(InvalidConfig, match="less than"):
        read_group_configs({HEARTBEAT_INTERVAL_MS: "6000", SESSION_TIMEOUT_MS: "6000"}, broker)


def test_a_group_is_described_with_what_it_follows() -> None:
    entries = describe_group_configs({SESSION_TIMEOUT_MS: "46000"}, BROKER)
    own, followed = entries[SESSION_TIMEOUT_MS], entries[HEARTBEAT_INTERVAL_MS]
    assert [(each.name, each.value, each.source) for each in own.synonyms] == [
        (SESSION_TIMEOUT_MS, "46000", ConfigSource.GROUP_CONFIG),
        ("group.consumer.session.timeout.ms", "50000", ConfigSource.STATIC_BROKER_CONFIG),
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT_CONFIG),
    ]
    assert (followed.value, followed.source) == ("5000", ConfigSource.DEFAULT_CONFIG)
