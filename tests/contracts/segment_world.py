"""A few partitions on which rules act, next to what they have to be, and what is always true."""

import asyncio
from itertools import count
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from protocol.ids import Partition
from storage.metadata.segments import SegmentSwap
from storage.metadata.transactions import Producer
from storage.partition_offsets import PartitionOffsets
from storage.segment_entry import SegmentEntry
from tests.contracts.segment_checks import (
    check_built,
    check_nothing_moves_back,
    check_readers,
    check_tiling,
)
from tests.contracts.segment_side import ALL, Segments

TOPICS = 2

_names = count(1)


class SegmentWorld(RuleBasedStateMachine):
    """Each partition is a topic of its own. A subclass says where, and what is done.

    Attributes:
        hour: of the test's clock.
        rows: of each partition, as they have to be.
        offsets: of each partition, as they were last.
        swaps: that were reserved, and made or not.
        pending: uploads that are neither live nor doomed, and the hour of their reservation.
        unneeded: live objects that no row names, or only rows of deleted topics.
        sequences: the next one of the open transaction in each of its partitions.
        gone: partitions of deleted topics.
    """

    runner: ClassVar[asyncio.Runner]
    segments: ClassVar[Segments]

    @initialize()
    def begin(self) -> None:
        self.runner.run(self.remove_everything())
        self.hour = 0
        self.rows: dict[Partition, list[SegmentEntry]] = {}
        self.offsets: dict[Partition, PartitionOffsets] = {}
        self.swaps: list[SegmentSwap] = []
        self.pending: dict[str, int] = {}
        self.unneeded: set[str] = set()
        self.producer: Producer = self.runner.run(
            self.segments.transactions.producer(f"t{next(_names)}")
        )
        self.sequences: dict[Partition, int] = {}
        self.gone: list[Partition] = []
        for _ in range(TOPICS):
            self.create()

    async def remove_everything(self) -> None:
        """Delete all topics, and see that nothing is left of them."""
        store = self.segments.store
        for topic in (await store.topic_changes(0)).changed:
            await store.delete_topic(topic.topic_id)
        await self.segments.purge()
        await store.doom_abandoned(0, ALL)
        await store.doom_unneeded(0, 0, ALL)
        assert set((await self.segments.states()).values()) <= {"doomed"}
        await store.forget_objects(await store.doomed_objects(0, ALL))
        assert await self.segments.states() == {}

    def create(self) -> None:
        (partition,) = self.runner.run(self.segments.partitions(1))
        self.rows[partition] = []

    def draw_partition(self, data: st.DataObject) -> Partition:
        return data.draw(st.sampled_from(list(self.rows)), label="partition")

    def learn_new_rows(self) -> None:
        """Take in what was appended; nothing else may have changed."""
        for partition, rows in self.rows.items():
            found = self.runner.run(self.segments.rows(partition))
            assert found[: len(rows)] == rows
            self.rows[partition] = found

    @invariant()
    def the_index_is_whole(self) -> None:
        self.runner.run(self.check())

    async def check(self) -> None:
        states = await self.segments.states()
        offsets = await self.segments.store.partition_offsets(list(self.rows))
        named: set[str] = set()
        for partition, rows in self.rows.items():
            assert await self.segments.rows(partition) == rows
            now = offsets[partition]
            check_tiling(rows, now)
            check_nothing_moves_back(self.offsets.get(partition, now), now)
            await check_readers(self.segments, partition, rows, now.log_start_offset)
            await check_built(self.segments, partition, rows, now.log_start_offset)
            named |= {row.path for row in rows if row.inline is None}
        self.offsets = offsets
        live = {path for path, state in states.items() if state == "live"}
        assert named <= live <= named | self.unneeded
        assert self.pending.keys() == {path for path in states if states[path] == "pending"}
