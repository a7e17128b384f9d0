"""The pipeline of writes: one statement at a time, what waits goes together, nothing overtakes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from broker.groups import group_writes
from broker.groups.group_metrics import GroupMetrics
from broker.groups.group_writes import GroupFenced, GroupWrites, WriteFailed
from storage.errors import MetadataUnavailable, RowsHeld
from storage.metadata.groups import GroupRecord, GroupWrite, WriteOutcome
from tests.support.held_groups import HeldGroups, at


@pytest.fixture
async def store() -> HeldGroups:
    return HeldGroups()


@pytest.fixture
async def writes(store: HeldGroups) -> AsyncIterator[GroupWrites]:
    pipeline = GroupWrites(store, GroupMetrics(CollectorRegistry()))
    running = asyncio.create_task(pipeline.run())
    yield pipeline
    running.cancel()
    await asyncio.wait([running])


async def taken(store: HeldGroups, *group_ids: str) -> list[int]:
    """Take groups; return their owner epochs."""
    return [(await store.take_groups([one], create=True))[0].owner_epoch for one in group_ids]


def record(group_id: str, generation_id: int, document: str = "{}") -> GroupRecord:
    return GroupRecord(
        group_id=group_id,
        group_type="Classic",
        state="Stable",
        protocol_type="consumer",
        generation_id=generation_id,
        member_count=1,
        document=document,
    )


async def underway(store: HeldGroups, calls: int) -> None:
    async with asyncio.timeout(20):
        while len(store.writes) < calls:
            await asyncio.sleep(0)


async def test_one_commit_is_one_statement(store: HeldGroups, writes: GroupWrites) -> None:
    topic_id = await store.topic()
    (epoch,) = await taken(store, "g")
    assert await writes.commit("g", epoch, at(topic_id, p0=5)) == frozenset()
    assert await store.offsets("g") == {0: 5}
    assert len(store.writes) == 1


async def test_what_comes_meanwhile_goes_together_and_in_order(
    store: HeldGroups, writes: GroupWrites
) -> None:
    # Given a write that is under way
    topic_id = await store.topic()
    ours, theirs = await taken(store, "ours", "theirs")
    store.hold()
    first = writes.commit("ours", ours, at(topic_id, p0=1))
    await underway(store, 1)

    # When more comes: twice for one partition, for another group, and records
    rest = [
        writes.commit("ours", ours, at(topic_id, p0=2, p1=2)),
        writes.save("ours", ours, partial(record, "ours", 7)),
        writes.commit("theirs", theirs, at(topic_id, p0=9)),
        writes.commit("ours", ours, at(topic_id, p0=3)),
        writes.save("ours", ours, partial(record, "ours", 8)),
    ]
    assert not first.done()
    store.release()
    await asyncio.gather(first, *rest)

    # Then it is one more statement, with the last of everything
    assert len(store.writes) == 2
    mine, other = store.writes[1]
    assert mine.record == record("ours", 8)
    assert mine.offsets == at(topic_id, p0=3, p1=2)
    assert (other.group_id, other.record) == ("theirs", None)
    assert await store.offsets("ours") == {0: 3, 1: 2}


async def test_an_earlier_owners_failure_costs_nothing_of_who_took_the_group_since(
    store: HeldGroups, writes: GroupWrites
) -> None:
    # Given a write under way, whose group's machine is thrown away, and taken anew
    topic_id = await store.topic()
    (earlier,) = await taken(store, "g")
    store.hold()
    given_up = writes.commit("g", earlier, at(topic_id, p0=1))
    await underway(store, 1)
    writes.discard("g")
    epoch = await store.take_elsewhere("g")

    # When that write is fenced while one of the new machine waits
    waiting = writes.commit("g", epoch, at(topic_id, p0=2))
    store.release()
    with pytest.raises(GroupFenced):
        await given_up

    # Then the new one is written
    assert await waiting == frozenset()
    assert await store.offsets("g") == {0: 2}


async def test_a_statement_is_bounded(
    store: HeldGroups, writes: GroupWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given four groups whose offsets do not fit into one statement
    monkeypatch.setattr(group_writes, "MAX_OFFSETS", 4)
    topic_id = await store.topic(partitions=5)
    names = ("a", "b", "c", "d")
    epochs = await taken(store, *names)
    five = at(topic_id, p0=1, p1=1, p2=1, p3=1, p4=1)
    await asyncio.gather(
        *(
            writes.commit(name, epoch, five if name == "d" else at(topic_id, p0=1, p1=1))
            for name, epoch in zip(names, epochs, strict=True)
        )
    )

    # Then those who waited longest go first, and who is too large alone goes alone
    assert [[one.group_id for one in call] for call in store.writes] == [["a", "b"], ["c"], ["d"]]


async def test_a_large_record_goes_alone_and_a_statement_has_a_size(
    store: HeldGroups, writes: GroupWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given records of different sizes
    monkeypatch.setattr(group_writes, "LARGE_DOCUMENT_BYTES", 100)
    monkeypatch.setattr(group_writes, "MAX_DOCUMENT_BYTES", 200)
    sizes = {"a": 90, "b": 90, "c": 90, "d": 101, "e": 10, "f": 1000}
    epochs = await taken(store, *sizes)
    await asyncio.gather(
        *(
            writes.save(name, epoch, partial(record, name, 1, document="x" * size))
            for (name, size), epoch in zip(sizes.items(), epochs, strict=True)
        )
    )

    # Then who is large goes alone, and the others as many as fit, first come, first served
    together = [[one.group_id for one in call] for call in store.writes]
    assert together == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]


async def test_what_cannot_be_written_costs_the_groups_of_its_statement(
    store: HeldGroups, writes: GroupWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that does not take what one of two groups wants to write
    topic_id = await store.topic()
    bad, mixed, fine = await taken(store, "bad", "mixed", "fine")

    async def refuses(groups: Sequence[GroupWrite]) -> WriteOutcome:
        if any(one.group_id == "bad" for one in groups):
            raise OverflowError("value out of int64 range")
        return await HeldGroups.write_groups(store, groups)

    monkeypatch.setattr(store, "write_groups", refuses)
    lost = [
        writes.commit("bad", bad, at(topic_id, p0=1)),
        writes.commit("mixed", mixed, at(topic_id, p0=1)),
    ]
    for one in lost:
        with pytest.raises(WriteFailed):
            await one

    # Then the others' writes go on
    assert await writes.commit("fine", fine, at(topic_id, p0=1)) == frozenset()


async def test_a_row_that_is_held_costs_only_its_group(
    store: HeldGroups, writes: GroupWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store whose row of one group somebody holds
    topic_id = await store.topic()
    held, *free = await taken(store, "held", "free-1", "free-2")

    async def locks(groups: Sequence[GroupWrite]) -> WriteOutcome:
        if any(one.group_id == "held" for one in groups):
            raise RowsHeld("lock_timeout")
        return await HeldGroups.write_groups(store, groups)

    monkeypatch.setattr(store, "write_groups", locks)

    # When it is written together with others
    lost = writes.commit("held", held, at(topic_id, p0=1))
    kept = [
        writes.commit(f"free-{n}", epoch, at(topic_id, p0=n)) for n, epoch in enumerate(free, 1)
    ]
    with pytest.raises(RowsHeld):
        await lost

    # Then the others are written all the same
    assert await asyncio.gather(*kept) == [frozenset(), frozenset()]
    assert [await store.offsets(f"free-{n}") for n in (1, 2)] == [{0: 1}, {0: 2}]


async def test_a_record_that_cannot_be_made_costs_only_its_group(
    store: HeldGroups, writes: GroupWrites
) -> None:
    def cannot() -> GroupRecord:
        raise RecursionError

    topic_id = await store.topic()
    bad, fine = await taken(store, "bad", "fine")
    lost = writes.save("bad", bad, cannot)
    kept = writes.commit("fine", fine, at(topic_id, p0=1))
    with pytest.raises(WriteFailed):
        await lost
    assert await kept == frozenset()


async def test_only_the_last_record_is_made(store: HeldGroups, writes: GroupWrites) -> None:
    # Given a write that is under way, and saves behind it
    topic_id = await store.topic()
    (epoch,) = await taken(store, "g")
    made: list[int] = []

    def make(generation_id: int) -> GroupRecord:
        made.append(generation_id)
        return record("g", generation_id)

    store.hold()
    first = writes.commit("g", epoch, at(topic_id, p0=1))
    await underway(store, 1)
    saves = [writes.save("g", epoch, partial(make, generation_id)) for generation_id in (1, 2, 3)]

    # Then only the one that is written is made
    store.release()
    await asyncio.gather(first, *saves)
    assert made == [3]


async def test_partitions_that_are_gone_are_named(store: HeldGroups, writes: GroupWrites) -> None:
    topic_id = await store.topic(partitions=1)
    (epoch,) = await taken(store, "g")
    unknown = await writes.commit("g", epoch, at(topic_id, p0=5, p7=5))
    assert [partition.index for partition in unknown] == [7]
    assert await store.offsets("g") == {0: 5}


async def test_a_group_that_was_taken_is_fenced_alone(
    store: HeldGroups, writes: GroupWrites
) -> None:
    # Given two groups, one of which another broker takes while a write is under way
    topic_id = await store.topic()
    mine, lost = await taken(store, "mine", "lost")
    store.hold()
    kept = writes.commit("mine", mine, at(topic_id, p0=1))
    gone = writes.commit("lost", lost, at(topic_id, p0=1))
    await underway(store, 1)
    behind = writes.commit("lost", lost, at(topic_id, p0=2))
    await store.take_elsewhere("lost")
    store.release()

    # Then only its writes fail, those behind it, too
    assert await kept == frozenset()
    with pytest.raises(GroupFenced):
        await gone
    with pytest.raises(asyncio.CancelledError):
        await behind
    assert await store.offsets("lost") == {}
    assert len(store.writes) == 1


async def test_without_an_answer_nothing_more_is_written_under_that_epoch(
    store: HeldGroups, writes: GroupWrites
) -> None:
    # Given a write under way, and one behind it
    topic_id = await store.topic()
    (epoch,) = await taken(store, "g")
    store.hold()
    first = writes.commit("g", epoch, at(topic_id, p0=1))
    await underway(store, 1)
    behind = writes.commit("g", epoch, at(topic_id, p0=2))

    # When Postgres does not answer
    store.go_away()
    store.release()
    with pytest.raises(MetadataUnavailable):
        await first

    # Then the one behind is given up with it, and what comes later is written
    assert behind.cancelled()
    store.come_back()
    (newer,) = await taken(store, "g")
    await writes.commit("g", newer, at(topic_id, p0=3))
    assert len(store.writes) == 2
    assert await store.offsets("g") == {0: 3}
