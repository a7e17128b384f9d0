"""Log compaction against a model: whatever is written, built, deleted, compacted or cut off.

The model is a dict: the latest committed record of each key. A process may end at any call of its
ports; another one goes on, now or much later.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from protocol.batch import read_header
from tests.storage.compacted_log import Written
from tests.storage.compaction_faults import Cut, HeldCompactor, crashing_compactor
from tests.storage.compaction_world import World

KEYS = st.sampled_from([b"a", b"b", b"c", b"", b"a" * 200, b"d", b"e"])
PAIRS = st.lists(
    st.tuples(st.one_of(KEYS, st.none()), st.one_of(st.none(), st.binary(max_size=70))),
    min_size=1,
    max_size=8,
)
PRODUCERS = st.sampled_from(["one", "two"])
Pairs = list[tuple[bytes | None, bytes | None]]


@dataclass(frozen=True, slots=True)
class Produce:
    pairs: Pairs
    codec: int


@dataclass(frozen=True, slots=True)
class ProduceInTransaction:
    name: str
    pairs: Pairs
    codec: int


@dataclass(frozen=True, slots=True)
class End:
    name: str
    committed: bool


@dataclass(frozen=True, slots=True)
class Build:
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class Compact:
    """`calls` of its ports until its process ends; None: it does not."""

    calls: int | None


@dataclass(frozen=True, slots=True)
class Pass:
    milliseconds: int


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Up to this part of the log, in eighths."""

    eighths: int


Step = Produce | ProduceInTransaction | End | Build | Compact | Pass | DeleteRecords

STEPS = st.lists(
    st.one_of(
        st.builds(Produce, pairs=PAIRS, codec=st.integers(0, 4)),
        st.builds(Produce, pairs=PAIRS, codec=st.integers(0, 4)),
        st.builds(ProduceInTransaction, name=PRODUCERS, pairs=PAIRS, codec=st.integers(0, 4)),
        st.builds(End, name=PRODUCERS, committed=st.booleans()),
        st.builds(Build, segment_bytes=st.integers(1, 3_000)),
        st.builds(Build, segment_bytes=st.integers(1, 3_000)),
        st.builds(Compact, calls=st.none()),
        st.builds(Compact, calls=st.integers(1, 80)),
        st.builds(Pass, milliseconds=st.sampled_from([1, 500, 1_500])),
        st.builds(DeleteRecords, eighths=st.integers(0, 4)),
    ),
    max_size=40,
)


async def _do(world: World, step: Step) -> None:
    match step:
        case Produce():
            await world.produce(step.pairs, codec=step.codec)
        case ProduceInTransaction():
            await world.produce_in_transaction(step.name, step.pairs, codec=step.codec)
        case End():
            await world.end(step.name, committed=step.committed)
        case Build():
            world.set_segment_bytes(step.segment_bytes)
            await world.build()
        case Compact():
            compactor = world.compactor()
            if step.calls is not None:
                compactor = crashing_compactor(world, step.calls)
            with suppress(Cut):
                await compactor.compact(world.partition)
        case Pass():
            world.now_ms += step.milliseconds
        case DeleteRecords():
            offsets = (await world.metadata.partition_offsets([world.partition]))[world.partition]
            end = offsets.last_stable_offset * step.eighths // 8
            await world.metadata.delete_records({world.partition: end})


async def _check(world: World) -> None:
    found = await world.metadata.partition_offsets([world.partition])
    offsets = found[world.partition]
    start, stable = offsets.log_start_offset, offsets.last_stable_offset
    read = await world.read(start)
    assert [one.offset for one in read] == sorted({one.offset for one in read})
    assert all(world.committed.get(one.offset) == one for one in read), "never written"
    _check_latest(world, read, start, stable)
    await _check_rows(world, start, offsets.high_watermark)
    (clean,) = await world.metadata.cleanable_ranges([world.partition])
    keys = [one.key for one in read if one.offset < clean.compacted_offset]
    assert len(keys) == len(set(keys)), "a key has two records in the clean part"


def _check_latest(world: World, read: Iterable[Written], start: int, stable: int) -> None:
    model = {
        one.key: one
        for offset, one in sorted(world.committed.items())
        if start <= offset < stable and one.key is not None
    }
    seen = {one.key: one for one in read if one.key is not None}
    assert seen.keys() <= model.keys()
    for key, one in model.items():
        if key in seen:
            assert seen[key] == one, "an older record, or a deleted one, has come back"
        else:
            assert one.value is None, "the latest value is gone"
            retained_ms = 1_000  # of the policy
            assert world.now_ms >= world.deleted_ms[one.offset] + retained_ms, "gone too early"


async def _check_rows(world: World, start: int, high_watermark: int) -> None:
    rows = await world.rows()
    ends = [row.end_offset for row in rows]
    assert [row.start_offset for row in rows[1:]] == [end + 1 for end in ends[:-1]]
    if rows:
        assert rows[0].start_offset <= start
        assert ends[-1] + 1 == high_watermark
    lasts = set()
    for header in map(read_header, await world.batches()):
        lasts.add(header.base_offset + header.last_offset_delta)
    assert lasts >= set(ends), "a reader at the end of a row would wait for ever"


@given(steps=STEPS, key_map_bytes=st.sampled_from([1, 21 * 4, 21 * 9, 1 << 16]))
def test_readers_see_the_latest_value_of_each_key(steps: list[Step], key_map_bytes: int) -> None:
    async def run() -> None:
        world = await World(key_map_bytes=key_map_bytes).open()
        for step in steps:
            await _do(world, step)
            if isinstance(step, Compact | DeleteRecords | Build):
                await _check(world)
        await world.build()
        await world.compact()
        await _check(world)

    # debug mode would note for each task where it was made, and take twice the time
    asyncio.run(run(), debug=False)


@given(steps=STEPS, pause=st.integers(1, 60))
def test_two_compactors_do_not_undo_each_other(steps: list[Step], pause: int) -> None:
    """One is held at some call, while another one does all; then it goes on."""

    async def run() -> None:
        world = await World().open()
        for step in steps:
            await _do(world, step)
        await world.build()
        held = HeldCompactor(world, pause)
        task = asyncio.create_task(held.compactor.compact(world.partition))
        await held.reached_or(task)
        world.now_ms += 700
        await world.compact()
        await world.produce([(b"a", b"later"), (b"b", None)])
        await world.build()
        world.now_ms += 2_000
        await world.compact()
        held.go_on()
        await task
        await _check(world)
        await world.compact()
        await _check(world)

    asyncio.run(run(), debug=False)


def test_no_moment_of_a_compaction_is_a_bad_one_to_end() -> None:
    async def run(calls: int) -> bool:
        world = await World(key_map_bytes=21 * 8).open()
        for number in range(12):
            await world.produce([(b"%d" % (number % 5), b"%d" % number), (b"x", None)])
        await world.produce_in_transaction("one", [(b"1", b"no")])
        await world.end("one", committed=False)
        world.set_segment_bytes(300)
        await world.build()
        try:
            await crashing_compactor(world, calls).compact(world.partition)
        except Cut:
            await _check(world)
            await world.compact()
            await _check(world)
            return True
        await _check(world)
        return False

    calls = 1
    while asyncio.run(run(calls), debug=False):
        calls += 1
    assert calls > 50


def test_a_builder_that_merges_segments_meanwhile_leaves_what_was_done() -> None:
    async def run(calls: int) -> tuple[bool, int]:
        world = await World().open()
        for number in range(30):
            pairs: Pairs = [(b"%d" % (number % 7), b"v" * 150), (b"x%d" % number, b"v" * 100)]
            await world.produce(pairs)
        await world.build()
        await world.produce([(b"1", b"tail"), (b"2", b"tail"), (b"1", b"end")])
        await world.build()
        held = HeldCompactor(world, calls)
        task = asyncio.create_task(held.compactor.compact(world.partition))
        await held.reached_or(task)
        was_held = not task.done()
        await world.produce([(b"%d" % number, b"v" * 100) for number in range(8)])
        await world.build()
        held.go_on()
        await task
        await _check(world)
        (found,) = await world.metadata.cleanable_ranges([world.partition])
        await world.compact()
        await _check(world)
        return was_held, found.compacted_offset if held.compactor.counts.lost else -1

    outcomes: list[tuple[bool, int]] = []
    while not outcomes or outcomes[-1][0]:
        outcomes.append(asyncio.run(run(len(outcomes) + 1), debug=False))
    noted = {compacted_offset for _, compacted_offset in outcomes}
    assert -1 in noted, "it was never too late to change anything"
    assert any(offset > 0 for offset in noted), "nothing that was done was noted"
