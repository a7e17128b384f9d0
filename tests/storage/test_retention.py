"""Retention over the in-memory metadata, with a clock that the test moves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from uuid import UUID

import pytest

from broker.configs.broker_configs import read_broker_config
from protocol.ids import Partition
from storage.configs.topic_policies import TopicPolicies
from storage.metadata.segments import RetentionRequest
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.retention import PARTITIONS_PER_PAGE, Retention, RetentionPass, _requests
from tests.contracts.metadata_stores import a_batch, commit
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.policies import read_policy

DAY_MS = 24 * 60 * 60 * 1000
THIRTY_DAYS_MS = 2_592_000_000  # no 32-bit number
START_MS = 1_900_000_000_000
ROW_BYTES = 100
RECORDS = 10

_names = count(1)


@dataclass
class World:
    """A cluster's metadata and its clock; each row is one object of RECORDS records."""

    now_ms: int = START_MS
    producer_unused_ms: int = DAY_MS
    metadata: MemoryMetadata = field(init=False)
    policies: TopicPolicies = field(init=False)
    retention: Retention = field(init=False)

    def __post_init__(self) -> None:
        self.metadata = MemoryMetadata(Random(1), lambda: self.now_ms)
        self.policies = TopicPolicies(self.metadata, read_broker_config({}).topic_values)
        self.retention = Retention(
            metadata=self.metadata,
            policies=self.newest,
            producer_unused_ms=lambda: self.producer_unused_ms,
        )

    async def topic(self, partition_count: int = 1, **configs: str) -> Partition:
        """Create a topic; return its first partition."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        topic = await self.metadata.create_topic(
            f"topic-{next(_names)}",
            partition_count=partition_count,
            replication_factor=1,
            configs=named,
        )
        return Partition(topic.topic_id, 0)

    async def alter(self, topic_id: UUID, configs: Mapping[str, str]) -> None:
        await self.metadata.alter_topic_configs(topic_id, configs, replace=False)

    async def write(
        self, partition: Partition, rows: int = 1, timestamp_ms: int | None = None
    ) -> None:
        at_ms = self.now_ms if timestamp_ms is None else timestamp_ms
        for _ in range(rows):
            batch = a_batch(partition, 0, records=RECORDS, length=ROW_BYTES, timestamp_ms=at_ms)
            await commit(self.metadata, [batch])

    async def newest(self) -> Iterable[tuple[UUID, TopicPolicy]]:
        await self.policies.refresh()
        return self.policies.all()

    async def run(self) -> RetentionPass:
        return await self.retention.run()

    async def start_of(self, partition: Partition) -> int:
        offsets = await self.metadata.partition_offsets([partition])
        return offsets[partition].log_start_offset

    async def rows_of(self, partition: Partition) -> int:
        return len(await self.metadata.segments_from(partition, 0, 1000))


@pytest.mark.parametrize("retention_ms", [1000, 7 * DAY_MS, THIRTY_DAYS_MS, 10**15])
async def test_records_go_when_they_are_older_than_retention_ms(retention_ms: int) -> None:
    # Given a row that is just old enough to stay, and one from now
    world = World()
    partition = await world.topic(retention_ms=str(retention_ms))
    await world.write(partition)
    await world.write(partition, timestamp_ms=START_MS + 10)
    world.now_ms += retention_ms

    # When retention runs, then it stays
    assert await world.run() == RetentionPass(partitions=0, rows=0, producers=0)
    assert await world.start_of(partition) == 0

    # When it is a millisecond older, then it goes, and its row
    world.now_ms += 1
    assert await world.run() == RetentionPass(partitions=1, rows=1, producers=0)
    assert await world.start_of(partition) == RECORDS
    assert await world.rows_of(partition) == 1


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
async def test_minus_one_is_for_ever(policy: str) -> None:
    world = World()
    partition = await world.topic(retention_ms="-1", cleanup_policy=policy)
    await world.write(partition, 3, timestamp_ms=0)
    world.now_ms += 10**14
    assert (await world.run()).partitions == 0
    assert await world.start_of(partition) == 0


async def test_zero_keeps_nothing_that_is_older_than_now() -> None:
    world = World()
    partition = await world.topic(retention_ms="0")
    await world.write(partition, 3)
    assert (await world.run()).partitions == 0
    world.now_ms += 1
    assert await world.run() == RetentionPass(partitions=1, rows=3, producers=0)
    assert await world.start_of(partition) == 3 * RECORDS


@pytest.mark.parametrize(
    ("keep_bytes", "rows_left"),
    [(0, 0), (1, 1), (ROW_BYTES, 1), (ROW_BYTES + 1, 2), (5 * ROW_BYTES, 5), (2**40, 5), (-1, 5)],
)
async def test_retention_bytes_keeps_at_least_so_much(keep_bytes: int, rows_left: int) -> None:
    world = World()
    partition = await world.topic(retention_ms="-1", retention_bytes=str(keep_bytes))
    await world.write(partition, 5)
    await world.run()
    assert await world.start_of(partition) == (5 - rows_left) * RECORDS
    assert await world.rows_of(partition) == rows_left


async def test_of_both_limits_the_stricter_one_counts() -> None:
    # Given ten rows, of which time lets four go and size two
    world = World()
    by_time = await world.topic(retention_ms="1000", retention_bytes=str(8 * ROW_BYTES))
    by_size = await world.topic(retention_ms="1000", retention_bytes=str(3 * ROW_BYTES))
    for partition in (by_time, by_size):
        await world.write(partition, 4, timestamp_ms=START_MS - 1001)
        await world.write(partition, 6)

    # When retention runs
    await world.run()

    # Then each has lost what either limit does not keep
    assert await world.start_of(by_time) == 4 * RECORDS
    assert await world.start_of(by_size) == 7 * RECORDS


async def test_a_topic_that_is_compacted_only_keeps_its_records() -> None:
    world = World()
    partition = await world.topic(retention_ms="1", retention_bytes="1", cleanup_policy="compact")
    await world.write(partition, 3, timestamp_ms=0)
    assert (await world.run()).partitions == 0


async def test_a_changed_policy_counts_from_the_next_pass_on() -> None:
    # Given a topic with the default of seven days, and a row of eight days ago
    world = World()
    kept = await world.topic(retention_ms="-1")
    await world.write(kept, timestamp_ms=START_MS - 8 * DAY_MS)
    assert (await world.run()).partitions == 0

    # When its retention.ms is unset
    await world.metadata.alter_topic_configs(kept.topic_id, {"retention.ms": None}, replace=False)

    # Then the default counts
    assert (await world.run()).partitions == 1

    # When its policy becomes compact, then nothing goes any more
    await world.write(kept, timestamp_ms=0)
    await world.alter(kept.topic_id, {"cleanup.policy": "compact"})
    assert (await world.run()).partitions == 0


async def test_all_partitions_are_looked_at_whatever_their_number() -> None:
    world = World()
    first = await world.topic(PARTITIONS_PER_PAGE + 3, retention_ms="1")
    other = await world.topic(3, retention_ms="1")
    partitions = [first._replace(index=index) for index in (0, 500, PARTITIONS_PER_PAGE + 2)]
    for partition in (*partitions, other):
        await world.write(partition)
    world.now_ms += 2
    assert await world.run() == RetentionPass(partitions=4, rows=4, producers=0)


async def test_who_is_told_that_records_are_kept_during_a_pass_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given old records of two topics, more than a statement looks at
    world = World()
    topics = sorted([await world.topic(PARTITIONS_PER_PAGE, retention_ms="1") for _ in range(2)])
    for partition in topics:
        await world.write(partition)
    world.now_ms += 2

    # When the second is to keep them for ever, while a pass has come to the first
    expire = world.metadata.expire_records

    async def expire_and_alter(requests: Sequence[RetentionRequest]) -> dict[Partition, int]:
        await world.alter(topics[1].topic_id, {"retention.ms": "-1"})
        return await expire(requests)

    monkeypatch.setattr(world.metadata, "expire_records", expire_and_alter)
    await world.run()

    # Then only those of the first are gone
    assert [await world.start_of(partition) for partition in topics] == [RECORDS, 0]


async def test_rows_of_a_deleted_topic_and_before_deleted_records_go_too() -> None:
    # Given a deleted topic, and one whose first records were deleted
    world = World()
    deleted, trimmed = await world.topic(retention_ms="-1"), await world.topic(retention_ms="-1")
    await world.write(deleted, 3)
    await world.write(trimmed, 3)
    await world.metadata.delete_topic(deleted.topic_id)
    await world.metadata.delete_records({trimmed: 2 * RECORDS})

    # When retention runs, then their rows go
    assert await world.run() == RetentionPass(partitions=0, rows=5, producers=0)
    assert await world.rows_of(trimmed) == 1


async def test_idle_producers_are_forgotten() -> None:
    # Given a producer that wrote a day ago
    world = World()
    partition = await world.topic(retention_ms="-1")
    batch = a_batch(partition, 0, producer=7, epoch=0, sequence=0)
    await commit(world.metadata, [batch])
    world.now_ms += DAY_MS - 1
    assert (await world.run()).producers == 0
    world.now_ms += 1
    assert (await world.run()).producers == 1


async def test_a_topic_whose_configs_cannot_be_read_does_not_stop_the_others() -> None:
    # Given a topic with a config that only a later version can have written
    world = World()
    strange = await world.topic(retention_ms="1", cleanup_policy="shred")
    plain = await world.topic(retention_ms="1")
    for partition in (strange, plain):
        await world.write(partition)
    world.now_ms += 2

    # When retention runs, then the other one has its turn, and this one is left alone
    assert (await world.run()).partitions == 1
    assert await world.start_of(strange) == 0
    assert world.policies.get(strange.topic_id) is None

    # And once it is right, it has its turn, too
    await world.alter(strange.topic_id, {"cleanup.policy": "delete"})
    assert (await world.run()).partitions == 1


def test_a_policy_of_2_to_the_63_minus_1_is_no_overflow() -> None:
    policy = replace(read_policy("t"), retention_ms=2**63 - 1, retention_bytes=2**63 - 1)
    requests = list(_requests(UUID(int=1), policy, START_MS))
    assert requests[0].before_ms is not None
    assert -(2**63) <= requests[0].before_ms < 0
