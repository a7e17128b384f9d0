"""What a broker's copy of the topics is made of in tests."""

import asyncio
from random import Random
from typing import cast
from uuid import UUID

from broker.configs.broker_configs import read_broker_config
from broker.topics import Topics
from protocol.ids import Partition
from storage.log import Log
from storage.metadata.topics import Topic, TopicChanges
from storage.partition_log import PartitionLog
from tests.support.fakes.metadata import MemoryMetadata


class Store(MemoryMetadata):
    """Attributes:
    asked: the version that each question for changes began from.
    holds: whether the next answer, once it is made, waits until it is let go.
    """

    def __init__(self) -> None:
        super().__init__(Random(7))  # two stores give their topics the same ids
        self.asked: list[int] = []
        self.holds = False
        self.made = asyncio.Event()
        self.let_go = asyncio.Event()

    async def topic_changes(self, since_version: int) -> TopicChanges:
        self.asked.append(since_version)
        answer = await super().topic_changes(since_version)
        if self.holds:
            self.holds = False
            self.made.set()
            await self.let_go.wait()
        return answer


class Partitions:
    """The part of a log that topics need; it takes note of what it is told to forget."""

    def __init__(self) -> None:
        self.forgotten: set[UUID] = set()

    def partition(self, partition: Partition) -> PartitionLog:
        return PartitionLog(partition)

    def forget_topic(self, topic_id: UUID) -> None:
        self.forgotten.add(topic_id)


def topics_of(store: MemoryMetadata, partitions: Partitions | None = None) -> Topics:
    log = cast("Log", partitions or Partitions())
    return Topics(store, log, read_broker_config({}))


async def created(store: MemoryMetadata, name: str) -> Topic:
    return await store.create_topic(name, partition_count=1, replication_factor=1, configs={})


async def create(store: MemoryMetadata, *names: str) -> None:
    for name in names:
        await created(store, name)
