"""Configs of topics, brokers, groups and client metrics from the command line."""

import json
from collections.abc import Callable
from uuid import uuid4

import pytest

from streamctl.cluster import Cluster
from tests.streamctl.conftest import Streamctl
from tests.streamctl.forks import Ended


def values(streamctl: Streamctl, *resource: str) -> dict[str, tuple[str, str]]:
    """Return what is set of a resource: value and who set it, by name."""
    shown = streamctl.well("config", "describe", *resource, "--format", "json")
    return {one["name"]: (one["value"], one["set_by"]) for one in json.loads(shown.text)}


@pytest.fixture
def topic(cluster: Cluster, topic_name: str) -> str:
    cluster.create_topic(topic_name, partitions=1, replication_factor=-1, settings={})
    return topic_name


def test_configs_of_a_topic_are_set_appended_to_and_unset(streamctl: Streamctl, topic: str) -> None:
    # Given a topic with two configs
    streamctl.well(
        *("config", "alter", "topic", topic),
        *("--set", "retention.ms=86400000", "--append", "cleanup.policy=compact"),
    )
    assert values(streamctl, "topic", topic)["cleanup.policy"] == ("delete,compact", "topic")

    # When one is unset and the other loses an item
    streamctl.well(
        *("config", "alter", "topic", topic),
        *("--unset", "retention.ms", "--subtract", "cleanup.policy=delete"),
    )

    # Then people see what is left, and who set it
    shown = streamctl.well("config", "describe", "topic", topic)
    assert "retention.ms" not in shown.text
    assert ["cleanup.policy", "compact", "topic"] in [line.split() for line in shown.lines]


def test_all_items_that_are_given_are_added_to_a_list_and_taken_from_it(
    streamctl: Streamctl,
) -> None:
    # Given a list of one item
    resource = ("client-metrics", f"metrics-{uuid4().hex[:8]}")
    alter = ("config", "alter", *resource)
    streamctl.well(*alter, "--set", "metrics=a.")

    # When more are added, and some taken away, then that is done with each
    streamctl.well(*alter, "--append", "metrics=b.", "--append", "metrics=c.")
    assert values(streamctl, *resource)["metrics"] == ("a.,b.,c.", "client-metrics")
    streamctl.well(*alter, "--subtract", "metrics=a.", "--subtract", "metrics=c.")
    assert values(streamctl, *resource)["metrics"] == ("b.", "client-metrics")


def test_unsetting_what_is_not_set_is_told(streamctl: Streamctl, topic: str) -> None:
    # Given a topic that sets one config
    streamctl.well("config", "alter", "topic", topic, "--set", "retention.ms=86400000")

    # When that is unset with one that the topic has by default and one that there is not
    others = ("--unset", "segment.bytes", "--unset", "foo")
    altered = streamctl.well("config", "alter", "topic", topic, "--unset", "retention.ms", *others)

    # Then it is done, and those two are told
    assert f"altered topic {topic}" in altered.text
    assert f"topic {topic} does not set segment.bytes, foo; nothing was there to unset" in (
        " ".join(altered.err.split())
    )

    # And so are a broker's, whose configs may be set for all of them
    name = "log.retention.ms"
    streamctl.well("config", "alter", "broker", "--set", f"{name}=1111111")
    own = streamctl.well("config", "alter", "broker", "0", "--unset", name)
    assert f"broker 0 does not set {name}" in own.err
    common = streamctl.well("config", "alter", "broker", "--unset", name)
    assert "nothing was there" not in common.err


def test_a_value_for_all_brokers_stands_behind_that_of_one(streamctl: Streamctl) -> None:
    # Given a value for the cluster, and another one for broker 0
    name = "message.max.bytes"
    streamctl.well("config", "alter", "broker", "--set", f"{name}=1111111")
    streamctl.well("config", "alter", "broker", "0", "--set", f"{name}=2222222")

    # When the broker's own is unset, then the cluster's counts
    assert values(streamctl, "broker", "0")[name] == ("2222222", "broker")
    streamctl.well("config", "alter", "broker", "0", "--unset", name)
    assert values(streamctl, "broker", "0")[name] == ("1111111", "cluster")
    assert values(streamctl, "broker")[name] == ("1111111", "cluster")

    # And without both there is nothing; nor is there of a broker that does not live
    streamctl.well("config", "alter", "broker", "--unset", name)
    assert name not in values(streamctl, "broker")
    assert "there is no broker 4711" in streamctl("config", "describe", "broker", "4711").err
    assert "streamctl topic list" in streamctl("config", "describe", "topic", "nowhere").err


def test_groups_and_client_metrics_are_configured_and_listed(streamctl: Streamctl) -> None:
    # Given configs of a group and of a subscription to client metrics
    group, metrics = f"group-{uuid4().hex[:8]}", f"metrics-{uuid4().hex[:8]}"
    streamctl.well("config", "alter", "group", group, "--set", "consumer.session.timeout.ms=50000")
    streamctl.well("config", "alter", "client-metrics", metrics, "--set", "interval.ms=10000")

    # When resources are listed, then both are among them, and say who set what
    listed = streamctl.well("config", "list", "--format", "json")
    assert {"kind": "group", "name": group} in json.loads(listed.text)
    assert {"kind": "client-metrics", "name": metrics} in json.loads(listed.text)
    assert values(streamctl, "group", group) == {"consumer.session.timeout.ms": ("50000", "group")}


def test_a_dry_run_changes_nothing_and_says_what_is_wrong(streamctl: Streamctl, topic: str) -> None:
    # Given a value that could be set, and one that could not
    alter = ("config", "alter", "topic", topic, "--dry-run", "--set")
    assert "could alter" in streamctl.well(*alter, "retention.ms=1000").text
    refused = streamctl(*alter, "retention.ms=soon")

    # Then neither is, and the mistake is named
    assert refused.exit_code == 1
    assert "retention.ms" in refused.err

    # And what to do, also of a broker's, where Kafka has another error code
    of_broker = streamctl("config", "alter", "broker", "--set", "nope=1")
    for one in (refused, of_broker):
        assert "streamctl config describe KIND NAME --all" in " ".join(one.err.split())
    assert values(streamctl, "topic", topic) == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("describe", "topic"), "which topic?"),
        (("describe", "broker", "first"), "node id"),
        (("describe", "broker", "²"), "node id"),
        (("describe", "broker", "٣"), "node id"),
        (("alter", "broker", "0"), "nothing to change"),
        (("alter", "broker", "--set", "a=1", "--unset", "a"), "more than once"),
        (("alter", "broker", "--set", "a=1", "--set", "a=2"), "more than once"),
        (("alter", "broker", "--append", "a=1", "--subtract", "a=2"), "more than once"),
    ],
)
def test_a_mistake_is_explained(
    run_here: Callable[..., Ended], arguments: tuple[str, ...], said: str
) -> None:
    ended = run_here("config", *arguments)
    assert ended.exit_code != 0
    assert said in ended.err
