"""A property: whatever is written, built and deleted, wherever a builder dies, nothing is lost.

A builder is ended at any of its calls to the stores, before or after these have happened, at any
other turn of the event loop, or does not get an answer and goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.compression import Codec
from storage.config import UpkeepConfig
from storage.errors import MetadataUnavailable, ObjectStoreUnavailable
from storage.metadata.port import MetadataStore
from storage.metadata.tasks import TaskKind
from storage.objects.port import ObjectStore
from tests.storage.builder_model import HOUR_MS, POLICY
from tests.storage.builder_world import World
from tests.storage.store_faults import Crash, Fault, Faults

SEGMENT_BYTES: Final = 1_500


@dataclass(frozen=True, slots=True)
class Produce:
    sizes: tuple[int, ...]

    async def do(self, world: World) -> None:
        codec = Codec(sum(self.sizes) % 5)
        await world.produce(*(bytes(size) for size in self.sizes), codec=codec)


@dataclass(frozen=True, slots=True)
class ProduceInTransaction:
    name: str
    size: int

    async def do(self, world: World) -> None:
        await world.produce_in_transaction(self.name, bytes(self.size))


@dataclass(frozen=True, slots=True)
class EndTransaction:
    name: str
    committed: bool

    async def do(self, world: World) -> None:
        await world.end_transaction(self.name, committed=self.committed)


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Deletes up to a share of the log, in percent."""

    share: int

    async def do(self, world: World) -> None:
        partition = world.partition
        offsets = (await world.metadata.partition_offsets([partition]))[partition]
        length = offsets.high_watermark - offsets.log_start_offset
        to = offsets.log_start_offset + length * self.share // 100
        await world.metadata.delete_records({partition: to})


@dataclass(frozen=True, slots=True)
class SetCodec:
    codec: Codec | None

    async def do(self, world: World) -> None:
        world.policy = replace(POLICY, segment_bytes=SEGMENT_BYTES, codec=self.codec)


@dataclass(frozen=True, slots=True)
class Build:
    """Builders that fail, or not, and something that happens at the same time."""

    faults: tuple[tuple[Fault | None, int], ...]
    cancelled_after: int | None
    meanwhile: Produce | DeleteRecords | None

    async def do(self, world: World) -> None:
        await world.metadata.add_tasks(TaskKind.BUILD, [world.partition])
        world.now_ms += HOUR_MS
        builders = [asyncio.create_task(_build(world, Faults(*fault))) for fault in self.faults]
        if self.meanwhile is not None:
            await self.meanwhile.do(world)
        if self.cancelled_after is not None:
            for _ in range(self.cancelled_after):
                await asyncio.sleep(0)
            builders[0].cancel()
        await asyncio.wait(builders)
        for builder in builders:
            with suppress(Crash, ObjectStoreUnavailable, MetadataUnavailable):
                if not builder.cancelled():
                    builder.result()


@dataclass(frozen=True, slots=True)
class Sweep:
    async def do(self, world: World) -> None:
        await world.sweep()


Step = Produce | ProduceInTransaction | EndTransaction | DeleteRecords | SetCodec | Build | Sweep


async def _build(world: World, faults: Faults) -> None:
    """Do what a worker does, and build once more, however little there is."""
    builder = world.builder(
        metadata=cast("MetadataStore", faults.wrap(world.metadata, MetadataUnavailable)),
        objects=cast("ObjectStore", faults.wrap(world.objects, ObjectStoreUnavailable)),
    )
    await builder.plan()
    await builder.work_once()
    assert not builder.counts.failed
    await builder.build(world.partition)


names = st.sampled_from(("t1", "t2"))
produces = st.builds(Produce, st.lists(st.integers(0, 900), min_size=1, max_size=3).map(tuple))
deletes = st.builds(DeleteRecords, st.integers(0, 100))
faults = st.one_of(st.just((None, 0)), st.tuples(st.sampled_from(Fault), st.integers(0, 30)))
steps = st.one_of(
    produces,
    st.builds(ProduceInTransaction, names, st.integers(0, 900)),
    st.builds(EndTransaction, names, st.booleans()),
    deletes,
    st.builds(SetCodec, st.sampled_from((None, Codec.NONE, Codec.LZ4, Codec.ZSTD))),
    st.builds(
        Build,
        st.lists(faults, min_size=1, max_size=3).map(tuple),
        st.one_of(st.none(), st.integers(0, 60)),
        st.one_of(st.none(), produces, deletes),
    ),
    st.builds(Sweep),
)


async def _live_through(history: Sequence[Step]) -> None:
    async with a_world() as world:
        for step in history:
            await step.do(world)
            await world.check()
        await _come_to_rest(world)


@asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    async with World.open() as world:
        world.config = UpkeepConfig(segment_bytes=SEGMENT_BYTES, segment_rows=3)
        yield world


async def _come_to_rest(world: World) -> None:
    """Let a builder that lives finish what others began; then nothing is left over."""
    await world.sweep()
    builder = world.builder()
    while await builder.build(world.partition) is not None:
        pass
    assert all(row.index_length for row in await world.rows())
    await world.sweep()
    await world.check()
    assert await world.stored() == await world.named()


@given(history=st.lists(steps, min_size=2, max_size=14))
@example(history=[Produce((1,)), Build(((Fault.NO_ANSWER, 12),), None, DeleteRecords(100))])
def test_no_record_is_lost_or_doubled_wherever_a_builder_dies(history: Sequence[Step]) -> None:
    # debug mode would note for each task where it was made, and take twice the time
    asyncio.run(_live_through(history), debug=False)


@pytest.mark.parametrize("fault", Fault)
async def test_a_builder_may_fail_at_each_of_its_calls(fault: Fault) -> None:
    # Given a small log, for each call that a builder makes
    written: Sequence[Step] = (
        Produce((100, 200)),
        ProduceInTransaction("t1", 100),
        Build(((None, 0),), None, None),
        ProduceInTransaction("t1", 100),
        EndTransaction("t1", committed=False),
        Produce((900,)),
    )
    for at in count():
        async with a_world() as world:
            for step in written:
                await step.do(world)

            # When that call fails
            faults = Faults(fault, at)
            await world.metadata.add_tasks(TaskKind.BUILD, [world.partition])
            with suppress(Crash, ObjectStoreUnavailable, MetadataUnavailable):
                await _build(world, faults)

            # Then all is there, and what is left over goes
            await world.check()
            await _come_to_rest(world)
            if not faults.happened:
                assert at > 20  # there were no more calls
                return
