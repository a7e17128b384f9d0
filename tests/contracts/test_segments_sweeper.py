"""What storage/metadata/segments.py promises, asked of every metadata store: objects that are given
up.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from storage.errors import CommitOutcomeUnknown
from tests.contracts.metadata_stores import KINDS, a_batch, commit, reserved
from tests.contracts.segment_side import ALL, HOUR_MS, Segments, open_segments


@pytest.fixture(params=KINDS)
async def segments(request: pytest.FixtureRequest) -> AsyncIterator[Segments]:
    """Each store in turn, empty."""
    async with open_segments(request.param) as opened:
        yield opened


async def test_uploads_that_are_old_are_given_up(segments: Segments) -> None:
    # Given uploads that were reserved long ago, one of them committed, and one of now
    (partition,) = await segments.partitions(1)
    old = [await reserved(segments.store) for _ in range(3)]
    committed = await segments.write(partition)
    segment = await segments.swap(partition, [committed])
    await segments.passes(HOUR_MS)
    young = await reserved(segments.store)

    # When the old ones are given up, some at a time
    assert await segments.store.doom_abandoned(2 * HOUR_MS, 9) == 0
    assert await segments.store.doom_abandoned(HOUR_MS, 3) == 3
    assert await segments.store.doom_abandoned(HOUR_MS, 3) == 1
    assert await segments.store.doom_abandoned(HOUR_MS, 3) == 0

    # Then they cannot be committed any more, nor swapped in; the others can
    states = await segments.states()
    assert [states[path] for path in [*old, segment.path]] == ["doomed"] * 4
    assert (states[committed.path], states[young]) == ("live", "pending")
    with pytest.raises(CommitOutcomeUnknown):
        await segments.store.commit_object(old[0], 100, [a_batch(partition, 0)])
    assert not await segments.store.replace_segments(segment)
    (outcome,) = await segments.store.commit_object(young, 100, [a_batch(partition, 0)])
    assert outcome.base_offset == 10


async def test_one_of_commit_and_giving_up_wins(segments: Segments) -> None:
    # Given uploads that are late
    partitions = await segments.partitions(4)
    paths = [await reserved(segments.store) for _ in partitions]

    # When they are committed and given up at the same time
    async def committed(index: int) -> bool:
        batches = [a_batch(partitions[index], 0)]
        try:
            await segments.store.commit_object(paths[index], 100, batches)
        except CommitOutcomeUnknown:
            return False
        return True

    *answers, doomed = await asyncio.gather(
        *(committed(index) for index in range(len(paths))), segments.store.doom_abandoned(0, 9)
    )

    # Then each is one of both
    states = await segments.states()
    wanted = ["live" if answer else "doomed" for answer in answers]
    assert [states[path] for path in paths] == wanted
    assert doomed == wanted.count("doomed")
    offsets = await segments.store.partition_offsets(partitions)
    ends = [offsets[partition].high_watermark for partition in partitions]
    assert ends == [10 if answer else 0 for answer in answers]


async def test_live_objects_that_no_row_names_are_given_up(segments: Segments) -> None:
    # Given objects with rows, and objects all of whose batches were refused, of long ago and now
    partition, gone = await segments.partitions(1) + await segments.partitions(1)
    await segments.store.delete_topic(gone.topic_id)
    needed = [await segments.write(partition)]
    refused = [await reserved(segments.store) for _ in range(2)]
    for path in refused:
        await segments.store.commit_object(path, 100, [a_batch(gone, 0)])
    needed.append(await segments.write(partition))
    await segments.passes(HOUR_MS)
    young = await reserved(segments.store)
    await segments.store.commit_object(young, 100, [a_batch(gone, 0)])
    unused = await reserved(segments.store)

    # When all live objects are looked at, two at a time
    doomed, after = 0, 0
    while True:
        some, following = await segments.store.doom_unneeded(after, HOUR_MS, 2)
        doomed += some
        if following is None:
            break
        assert following > after
        after = following

    # Then those are doomed that are old and that no row names
    assert doomed == 2
    states = await segments.states()
    assert [states[path] for path in refused] == ["doomed"] * 2
    assert {states[path] for path in [young, *(row.path for row in needed)]} == {"live"}
    assert states[unused] == "pending"
    assert await segments.store.doom_unneeded(0, 2 * HOUR_MS, ALL) == (0, None)


async def test_objects_of_a_deleted_topic_are_needed_until_its_rows_go(segments: Segments) -> None:
    # Given an object of a topic that is deleted, and of another
    (gone,) = await segments.partitions(1)
    (kept,) = await segments.partitions(1)
    batches = sorted([a_batch(gone, 0), a_batch(kept, 100)], key=lambda batch: batch.partition)
    await commit(segments.store, batches)
    await segments.store.delete_topic(gone.topic_id)

    # Then it is never given up, because of the other
    assert await segments.store.doom_unneeded(0, 0, ALL) == (0, None)
    await segments.purge()
    assert await segments.store.doom_unneeded(0, 0, ALL) == (0, None)
    assert set((await segments.states()).values()) == {"live"}


async def test_bytes_go_a_while_after_their_object(segments: Segments) -> None:
    # Given objects that were doomed an hour ago, and now: given up, and replaced
    (partition,) = await segments.partitions(1)
    abandoned = await reserved(segments.store)
    replaced = await segments.write(partition)
    assert await segments.store.doom_abandoned(0, 9) == 1
    await segments.build(partition)
    await segments.passes(HOUR_MS)
    later = await reserved(segments.store)
    assert await segments.store.doom_abandoned(0, 9) == 1

    # Then readers have an hour to be done with them
    store = segments.store
    assert await store.doomed_objects(2 * HOUR_MS, 9) == []
    assert sorted(await store.doomed_objects(HOUR_MS, 9)) == sorted([abandoned, replaced.path])
    assert len(await store.doomed_objects(HOUR_MS, 1)) == 1
    assert len(await store.doomed_objects(0, 9)) == 3
    assert await store.backlog() == {"build": 0, "compact": 0, "pending": 0, "doomed": 3}

    # When their bytes are gone, then they are forgotten, and nothing else is
    live = (await segments.rows(partition))[0].path
    pending = await reserved(store)
    await store.forget_objects([abandoned, replaced.path, live, pending, "wal/never"])
    states = await segments.states()
    assert states == {later: "doomed", live: "live", pending: "pending"}
    assert await store.doomed_objects(0, 9) == [later]
    assert await store.backlog() == {"build": 0, "compact": 0, "pending": 1, "doomed": 1}


async def test_doomed_objects_can_be_left_alone_for_a_while(segments: Segments) -> None:
    # Given doomed objects, and others
    (partition,) = await segments.partitions(1)
    held, other = [await reserved(segments.store) for _ in range(2)]
    assert await segments.store.doom_abandoned(0, 9) == 2
    live = (await segments.write(partition)).path
    pending = await reserved(segments.store)
    before = await segments.states()
    await segments.passes(2 * HOUR_MS)

    # When one is put off for an hour
    await segments.store.postpone_objects([held, live, pending, "wal/never"], HOUR_MS)

    # Then its grace begins when that is over, and nothing else has changed
    assert await segments.store.doomed_objects(HOUR_MS, 9) == [other]
    assert await segments.states() == before
    assert (await segments.store.backlog())["doomed"] == 2
    await segments.passes(HOUR_MS * 3 // 2)
    assert await segments.store.doomed_objects(HOUR_MS, 9) == [other]
    await segments.passes(HOUR_MS // 2)
    assert await segments.store.doomed_objects(HOUR_MS, 9) == [other, held]


async def test_known_objects_are_those_that_have_a_row(segments: Segments) -> None:
    # Given objects in each state, and one that was forgotten
    (partition,) = await segments.partitions(1)
    forgotten = await reserved(segments.store)
    assert await segments.store.doom_abandoned(0, 9) == 1
    await segments.store.forget_objects([forgotten])
    doomed = await reserved(segments.store)
    assert await segments.store.doom_abandoned(0, 9) == 1
    live = (await segments.write(partition)).path
    pending = await reserved(segments.store)

    # Then all are known but that one, and what never was
    asked = [pending, forgotten, doomed, "wal/never", live, live]
    assert await segments.store.known_objects(asked) == {pending, doomed, live}
    assert await segments.store.known_objects([]) == set()

    # And what is pending is not committed, nor is what is not known
    uncommitted = {pending, forgotten, "wal/never"}
    assert await segments.store.uncommitted_objects(asked) == uncommitted
    assert await segments.store.uncommitted_objects([]) == set()


async def test_objects_tell_since_when_they_are_stored(segments: Segments) -> None:
    # Given an object that was committed a while ago, and one that was just now
    (partition,) = await segments.partitions(1)
    old = (await segments.write(partition)).path
    await segments.passes(HOUR_MS)
    before_ms = await segments.store.clock_ms()
    new = (await segments.write(partition)).path

    # Then each tells when that was; what was never reserved tells nothing
    stored_ms = await segments.store.stored_ms([old, new, "wal/never", old])
    assert stored_ms.keys() == {old, new}
    assert before_ms <= stored_ms[new] <= await segments.store.clock_ms()
    assert stored_ms[old] <= stored_ms[new] - HOUR_MS
    assert await segments.store.stored_ms([]) == {}
