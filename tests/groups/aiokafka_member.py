"""One aiokafka consumer of a group, as a program. Its argument is a Settings as JSON."""

import asyncio
import sys
import time
from collections.abc import Iterable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from tests.groups.settings import Settings
from tests.groups.telling import Reading, say, stopping

POLL_MS: Final = 50
BATCH: Final = 200
ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A consumer that reads, tells and commits until it is told to stop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._consumer = AIOKafkaConsumer(**_arguments(settings))
        self._reading = Reading()
        # rebalances run beside the loop that reads: a commit of the loop must not come, or be
        # repeated, after the one that a revocation makes
        self._committing = asyncio.Lock()

    async def run(self) -> None:
        stop = stopping()
        if not self._settings.assigned:
            self._consumer.subscribe([self._settings.topic], listener=self)
        await self._consumer.start()
        if self._settings.assigned:
            await self._assign()
        commit_s = self._settings.commit_ms / 1000
        due_s = time.monotonic() + commit_s
        while not stop.is_set():
            await self._read()
            if time.monotonic() >= due_s:
                await self._commit()
                due_s = time.monotonic() + commit_s
        await self._commit()
        say("leaving")
        began_s = time.monotonic()
        await self._consumer.stop()
        say("closed", took_s=time.monotonic() - began_s)

    async def _assign(self) -> None:
        partitions = [TopicPartition(self._settings.topic, n) for n in self._settings.assigned]
        # committed() gives no metadata; what it is made of does
        committed = await self._consumer._coordinator.fetch_committed_offsets(partitions)
        offsets = {}
        for place in partitions:
            found = committed.get(place)
            is_there = found is not None and found.offset >= 0
            offsets[place.partition] = [found.offset, found.metadata] if is_there else None
        say("found", offsets=offsets)
        self._consumer.assign(partitions)
        say("assigned", partitions=list(self._settings.assigned))

    async def _read(self) -> None:
        batches = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH)
        # nothing is awaited up to tell(), so a revocation finds all of it told
        for place, records in batches.items():
            for record in records:
                self._reading.add(place.partition, record.offset, record.value)
        self._reading.tell()

    async def _commit(self) -> None:
        if self._settings.auto_commit:
            return
        async with self._committing:
            offsets = dict(self._reading.uncommitted)
            if not offsets:
                return
            places = {
                TopicPartition(self._settings.topic, partition): (offset, self._settings.metadata)
                for partition, offset in offsets.items()
            }
            try:
                await self._consumer.commit(places)
            except KafkaError as refused:
                say("refused", error=repr(refused))
                return
            self._reading.committed(offsets)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("assigned", partitions=_numbers(assigned))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._commit()
        say("revoked", partitions=_numbers(revoked))
        self._reading.forget(_numbers(revoked))


def _arguments(settings: Settings) -> dict[str, Any]:
    return {
        "bootstrap_servers": settings.bootstrap,
        "client_id": settings.name,
        "group_id": settings.group,
        "group_instance_id": settings.instance or None,
        "partition_assignment_strategy": [ASSIGNORS[name] for name in settings.assignor.split(",")],
        "auto_offset_reset": settings.reset,
        "enable_auto_commit": settings.auto_commit,
        "auto_commit_interval_ms": settings.commit_ms,
        "session_timeout_ms": settings.session_ms,
        "heartbeat_interval_ms": settings.heartbeat_ms,
        "fetch_max_wait_ms": 100,
        "retry_backoff_ms": 50,
    }


def _numbers(places: Iterable[TopicPartition]) -> list[int]:
    return sorted(place.partition for place in places)


async def run(settings: Settings) -> None:
    try:
        await Member(settings).run()  # a consumer is made inside the loop that it runs in
    except KafkaError as failure:
        say("error", error=repr(failure))


if __name__ == "__main__":
    asyncio.run(run(Settings.from_json(sys.argv[1])))
