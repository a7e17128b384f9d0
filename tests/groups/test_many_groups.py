"""Fifty groups of four members form at the same time."""

from collections import defaultdict

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from tests.groups.conftest import NewTopic
from tests.groups.crowd import Crowding, joined_at_once, seconds_until
from tests.groups.settings import Protocol, Settings

GROUPS = 50
MEMBERS = 4
PARTITIONS = 8
STABLE_S = 20.0
CALL_S = 30.0
SESSION_MS = 10_000
HEARTBEAT_MS = 2_000
"""Of KIP-848 groups. librdkafka waits so long for the answer to a heartbeat, then it disconnects,
and who waits for another answer is told of an error; two hundred joins at once take longer than the
300 ms that groups have here otherwise."""


def give_time(admin: AdminClient, groups: list[str]) -> None:
    """Give groups of KIP-848 the times that members of classic ones bring along."""
    times = {
        "consumer.session.timeout.ms": SESSION_MS,
        "consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    }
    entries = [
        ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        for name, value in times.items()
    ]
    altered = admin.incremental_alter_configs(
        [
            ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
            for group in groups
        ],
        request_timeout=CALL_S,
    )
    for future in altered.values():
        future.result()


def described(admin: AdminClient, groups: list[str]) -> dict[str, tuple[ConsumerGroupState, int]]:
    """Return of each group its state, and how many members it has, as the broker says."""
    asked = admin.describe_consumer_groups(groups, request_timeout=CALL_S)
    found = {group: future.result() for group, future in asked.items()}
    return {group: (one.state, len(one.members)) for group, one in found.items()}


def unshared(crowd: list[Crowding]) -> dict[str, list[frozenset[int]]]:
    """Return what members have where not each has two partitions, and each partition one owner."""
    shares: defaultdict[str, list[frozenset[int]]] = defaultdict(list)
    for one in crowd:
        shares[one.group].append(one.owned)
    return {
        group: owned
        for group, owned in shares.items()
        if [len(share) for share in owned] != [PARTITIONS // MEMBERS] * MEMBERS
        or frozenset().union(*owned) != frozenset(range(PARTITIONS))
    }


@pytest.mark.alone
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_fifty_groups_of_four_form_at_once(
    protocol: Protocol, bootstrap: str, topic_of: NewTopic
) -> None:
    # Given a topic, and fifty groups that nobody has heard of
    topic = topic_of(PARTITIONS)
    groups = [f"{topic}-{number}" for number in range(GROUPS)]
    settings = [
        Settings(
            name=f"{group}-{member}",
            bootstrap=bootstrap,
            topic=topic,
            group=group,
            protocol=protocol,
            assignor="range",
            session_ms=SESSION_MS,
        )
        for member in range(MEMBERS)
        for group in groups
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    give_time(admin, groups)

    # When two hundred members join at once
    with joined_at_once(settings) as crowd:
        # Then soon every group has shared the partitions among its four
        took_s = seconds_until(lambda: not unshared(crowd), timeout_s=STABLE_S)
        assert took_s is not None, f"not in {STABLE_S} s: {unshared(crowd)}"
        # And the broker calls all of them stable, when those have told it who had nothing to change
        stable = dict.fromkeys(groups, (ConsumerGroupState.STABLE, MEMBERS))
        took_s = seconds_until(lambda: described(admin, groups) == stable, timeout_s=STABLE_S)
        assert took_s is not None, f"not in {STABLE_S} s: {described(admin, groups)}"
