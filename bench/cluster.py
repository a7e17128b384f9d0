"""The broker or the brokers that are measured: names of topics and groups, and who serves them."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from bench.results import MeasurementFailed
from tests.support.group_wire import CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, named
from tests.support.wire import ConnectionEnded, WireClient

FIND_COORDINATOR: Final = 10
PATIENCE_S: Final = 30.0
CALL_S: Final = 10.0
AGAIN_S: Final = 0.05
MOST_AT_ONCE: Final = 5_000
"""Partitions that one request makes: Apache Kafka refuses to make 10,000 in one."""

# Codes of a cluster that is not ready yet: UNKNOWN_TOPIC_OR_PARTITION right after the topic was
# made, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
NOT_YET: Final = frozenset({3, 14, 15, 16})


@dataclass(slots=True)
class Cluster:
    """One or more brokers under one bootstrap list.

    Attributes:
        bootstrap: HOST:PORT, several separated by commas.
    """

    bootstrap: str
    _topics: list[str] = field(default_factory=list)
    _groups: list[str] = field(default_factory=list)

    @contextmanager
    def tidied(self) -> Iterator["Cluster"]:
        """Delete the topics and groups of the block at its end, as far as the brokers let us."""
        try:
            yield self
        finally:
            admin = self._admin()
            deletions: list[Any] = []
            if self._groups:
                deletions += admin.delete_consumer_groups(self._groups).values()
            if self._topics:
                deletions += admin.delete_topics(self._topics).values()
            deadline_s = time.monotonic() + CALL_S
            for deletion in deletions:
                try:
                    deletion.result(timeout=max(deadline_s - time.monotonic(), 0))
                except (KafkaException, TimeoutError):
                    continue  # a group that never committed anything is gone already

    def new_topic(self, partition_count: int, patience_s: float = PATIENCE_S) -> str:
        """Create a topic, wait until each partition has a leader, and return its name."""
        name = f"bench-groups-{uuid.uuid4().hex[:8]}"
        admin = self._admin()
        created = admin.create_topics([NewTopic(name, min(partition_count, MOST_AT_ONCE), 1)])
        created[name].result(timeout=patience_s)
        self._topics.append(name)
        for made in range(MOST_AT_ONCE, partition_count, MOST_AT_ONCE):
            count = min(made + MOST_AT_ONCE, partition_count)
            grown = admin.create_partitions([NewPartitions(name, count)])
            grown[name].result(timeout=patience_s)
        deadline_s = time.monotonic() + patience_s
        while len(self.leaders(name)) < partition_count:
            if time.monotonic() > deadline_s:
                raise MeasurementFailed(f"{name} has no leaders after {patience_s:.0f} s")
            time.sleep(AGAIN_S)
        return name

    def new_group(self) -> str:
        """Return a name that no group has had."""
        name = f"bench-groups-{uuid.uuid4().hex[:8]}"
        self._groups.append(name)
        return name

    def leaders(self, topic: str) -> dict[int, str]:
        """Return HOST:PORT of the leader of each partition that has one."""
        metadata = self._admin().list_topics(topic, timeout=CALL_S)
        brokers = {one.id: f"{one.host}:{one.port}" for one in metadata.brokers.values()}
        return {
            number: brokers[partition.leader]
            for number, partition in metadata.topics[topic].partitions.items()
            if partition.leader in brokers
        }

    async def coordinator(self, group: str) -> str:
        """Return HOST:PORT of a group's coordinator, once there is one.

        Raises:
            MeasurementFailed: there is none in PATIENCE_S, or the question was refused.
        """
        request = named(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=(group,))

        def found(response: Any) -> int:
            return int(response.coordinators[0].error_code)

        (one,) = (await until_ready(self.bootstrap, request, found)).coordinators
        return f"{one.host}:{one.port}"

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


async def until_ready(bootstrap: str, request: Any, code_of: Callable[[Any], int]) -> Any:
    """Ask until the answer's code is no longer one of NOT_YET; return the answer.

    Raises:
        MeasurementFailed: it still is after PATIENCE_S, or the code is another one than 0.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        response = await _ask(bootstrap, request)
        code = None if response is None else code_of(response)
        if code == 0:
            return response
        if code is not None and code not in NOT_YET:
            raise MeasurementFailed(f"{type(request).__name__}: error {code}")
        if time.monotonic() > deadline_s:
            raise MeasurementFailed(
                f"{type(request).__name__}: still {code} after {PATIENCE_S:.0f} s"
            )
        await asyncio.sleep(AGAIN_S)


async def group_state(coordinator: str, group: str, protocol: str) -> tuple[str, int]:
    """Return a group's state and its number of members; ("", 0) if the coordinator is not ready."""
    if protocol == "consumer":
        values: dict[str, object] = {"group_ids": (group,)}
        request = named(CONSUMER_GROUP_DESCRIBE, 0, include_authorized_operations=False, **values)
    else:
        request = named(DESCRIBE_GROUPS, 5, groups=(group,), include_authorized_operations=False)
    response = await _ask(coordinator, request)
    if response is None or response.groups[0].error_code != 0:
        return "", 0
    (found,) = response.groups
    return str(found.group_state), len(found.members)


async def _ask(bootstrap: str, request: Any) -> Any:
    """Return the answer of the first broker of a list that gives one; None if none does."""
    for server in bootstrap.split(","):
        try:
            async with await WireClient.connect(server) as client:
                return await client.ask(request)
        except (OSError, ConnectionEnded):
            continue
    return None
