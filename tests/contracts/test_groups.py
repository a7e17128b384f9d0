"""What storage/metadata/groups.py promises, asked of every metadata store: owners, records,
offsets.
"""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.metadata.groups import CommittedOffset, GroupListing, GroupWrite, WriteOutcome
from tests.contracts.group_stores import (
    NOTHING,
    Groups,
    a_commit,
    a_record,
    fenced,
    open_groups,
    settled,
    unknown,
)
from tests.contracts.metadata_stores import KINDS, create_partitions


@pytest.fixture(params=KINDS)
async def groups(request: pytest.FixtureRequest) -> AsyncIterator[Groups]:
    """Each store in turn, empty."""
    async with open_groups(request.param) as opened:
        yield opened


async def test_only_groups_that_exist_are_taken_unless_they_are_made(groups: Groups) -> None:
    # Given one group
    await groups.take("b")

    # When several are taken without making them, then the others are left out
    taken = await groups.store.take_groups(["c", "b", "a"], create=False)
    assert [(group.group_id, group.record) for group in taken] == [("b", None)]
    assert await groups.ids() == ["b"]

    # And when they may be made, then all are ours, each under its own epoch
    taken = await groups.store.take_groups(["c", "b", "a"], create=True)
    assert sorted(group.group_id for group in taken) == ["a", "b", "c"]
    assert await groups.ids() == ["a", "b", "c"]
    assert await groups.store.take_groups([], create=True) == []


async def test_a_record_comes_back_as_it_was_saved(groups: Groups) -> None:
    # Given a group with a record whose text is as odd as text can be, and big
    odd = "\x00 \x01 \x010 \\ \" ' é 🜚 {}" + "x" * 20_000
    record = a_record("g", generation_id=2**31 - 1, document=odd, protocol_type="\x01\x00")
    write = GroupWrite(group_id="g", owner_epoch=await groups.take("g"), record=record, offsets={})
    assert await groups.store.write_groups([write]) == NOTHING

    # When it is taken again, then the record is the same
    (taken,) = await groups.store.take_groups(["g"], create=False)
    assert taken.record == record

    # And it replaces the one before as a whole
    await groups.save("g", taken.owner_epoch, state="Empty", member_count=0)
    (taken,) = await groups.store.take_groups(["g"], create=True)
    assert taken.record == a_record("g", state="Empty", member_count=0)


async def test_who_is_not_the_last_to_take_a_group_writes_nothing(groups: Groups) -> None:
    # Given a group that was taken twice
    (partition,) = await create_partitions(groups.store, 1)
    old = await groups.take("g")
    new = await groups.take("g")
    assert new > old
    assert await groups.save("g", new, generation_id=7) == NOTHING

    # When the old owner writes a record and an offset, again and again
    write = GroupWrite(
        group_id="g",
        owner_epoch=old,
        record=a_record("g"),
        offsets={partition: CommittedOffset(offset=1)},
    )
    for _ in range(2):
        assert await groups.store.write_groups([write]) == fenced("g")
    assert not await groups.store.delete_offsets("g", old, [partition])
    assert await groups.store.delete_groups({"g": old}) == {"g": False}

    # Then nothing has changed, and the new owner goes on
    assert await groups.committed("g") == {}
    assert await groups.commit("g", new, {partition: 5}) == NOTHING
    (taken,) = await groups.store.take_groups(["g"], create=False)
    assert taken.record == a_record("g", generation_id=7)
    assert taken.owner_epoch > new


async def test_a_fenced_group_does_not_stop_the_others(groups: Groups) -> None:
    # Given three groups, one of which somebody else has taken since, and one that is not there
    first, second = await create_partitions(groups.store, 2)
    epochs = {group_id: await groups.take(group_id) for group_id in ("c", "b", "a")}
    await groups.take("b")

    # When all are written at once, in no order, the same partition in several
    outcome = await groups.store.write_groups(
        [
            a_commit("c", epochs["c"], {first: 1, second: 2}),
            a_commit("b", epochs["b"], {first: 3}),
            a_commit("nobody", 1, {first: 4}),
            a_commit("a", epochs["a"], {first: 5}),
        ]
    )

    # Then the others are written
    assert outcome == fenced("b", "nobody")
    assert await groups.committed("a") == {first: 5}
    assert await groups.committed("b") == {}
    assert await groups.committed("c") == {first: 1, second: 2}
    assert await groups.ids() == ["a", "b", "c"]


async def test_groups_are_deleted_together(groups: Groups) -> None:
    # Given groups with offsets, one that somebody else has taken, and one that is gone
    (partition,) = await create_partitions(groups.store, 1)
    owned = {name: await groups.take(name) for name in ("b", "a", "taken", "gone", "kept")}
    for name, owner_epoch in owned.items():
        await groups.commit(name, owner_epoch, {partition: 9})
    kept = owned.pop("kept")
    await groups.take("taken")
    assert await groups.store.delete_groups({"gone": owned["gone"]}) == {"gone": True}

    # When they are deleted in one go, then each has its own answer
    assert await groups.store.delete_groups(owned) == {
        "b": True,
        "a": True,
        "taken": False,
        "gone": False,
    }
    assert [await groups.committed(name) for name in ("a", "b", "gone")] == [{}, {}, {}]
    assert len(await groups.committed("taken")) == 1
    assert [await groups.store.has_group(name) for name in ("taken", "gone")] == [True, False]
    assert await groups.commit("kept", kept, {partition: 10}) == NOTHING
    assert await groups.store.delete_groups({}) == {}


async def test_a_group_made_again_is_not_open_to_its_old_owner(groups: Groups) -> None:
    # Given a group that was taken often, deleted, and made again by somebody else
    (partition,) = await create_partitions(groups.store, 1)
    await groups.take("g")
    await groups.take("g")
    old = await groups.take("g")
    await groups.commit("g", old, {partition: 9})
    assert await groups.store.delete_groups({"g": old}) == {"g": True}
    assert await groups.store.delete_groups({"g": old}) == {"g": False}
    assert await groups.commit("g", old, {partition: 9}) == fenced("g")
    new = await groups.take("g")

    # When the old owner writes, then it is fenced, and the new group is empty
    assert new > old
    assert await groups.commit("g", old, {partition: 9}) == fenced("g")
    assert await groups.committed("g") == {}
    assert await groups.commit("g", new, {partition: 1}) == NOTHING


async def test_offsets_are_seen_overwritten_and_forgotten(groups: Groups) -> None:
    # Given a group that committed two partitions, one with a note
    first, second, third = await create_partitions(groups.store, 3)
    epoch = await groups.take("g")
    noted = CommittedOffset(offset=2**62, leader_epoch=3, metadata="seen \x00 by é\x01")
    offsets = {first: CommittedOffset(offset=1), second: noted}
    await groups.store.write_groups([GroupWrite(group_id="g", owner_epoch=epoch, offsets=offsets)])
    assert await groups.store.committed_offsets("g", None) == settled(offsets)
    found = await groups.store.committed_offsets("g", [third, second])
    assert found == settled({second: noted})
    assert await groups.store.committed_offsets("g", []) == settled({})
    assert await groups.store.committed_offsets("other", None) == settled({})
    assert await groups.store.committed_offsets("other", [first]) == settled({})

    # When one goes back, and another is new, then that is what is there, the note gone with it
    await groups.commit("g", epoch, {second: 5, third: 6})
    found = await groups.store.committed_offsets("g", [first, second, third])
    assert found.offsets[second] == CommittedOffset(offset=5)
    assert await groups.committed("g") == {first: 1, second: 5, third: 6}

    # And when some are forgotten, whether they are there or not, the others stay
    assert await groups.store.delete_offsets("g", epoch, [first, third, Partition(uuid4(), 0)])
    assert await groups.committed("g") == {second: 5}


async def test_partitions_that_do_not_exist_are_said_and_left_out(groups: Groups) -> None:
    # Given a topic with two partitions, one of them committed before
    first, second = await create_partitions(groups.store, 2)
    beyond, nowhere = Partition(first.topic_id, 2), Partition(uuid4(), 0)
    negative = Partition(first.topic_id, -1)
    epoch = await groups.take("g")
    other = await groups.take("h")
    await groups.commit("g", epoch, {first: 1})

    # When groups commit others, too, one of them fenced
    outcome = await groups.store.write_groups(
        [
            a_commit("g", epoch, {nowhere: 1, first: 2, beyond: 3, second: 4, negative: 5}),
            a_commit("h", other - 1, {Partition(uuid4(), 1): 1}),
        ]
    )

    # Then what exists is written
    assert outcome == WriteOutcome(
        fenced=frozenset({"h"}), unknown=frozenset({nowhere, beyond, negative})
    )
    assert await groups.committed("g") == {first: 2, second: 4}

    # And a partition that is added can be committed
    await groups.store.add_partitions(first.topic_id, 3)
    assert await groups.commit("g", epoch, {beyond: 3}) == NOTHING
    assert await groups.committed("g") == {first: 2, second: 4, beyond: 3}


async def test_a_record_is_saved_though_its_partitions_are_unknown(groups: Groups) -> None:
    # When a group writes a record and an offset of a topic that is not there
    nowhere = Partition(uuid4(), 0)
    write = GroupWrite(
        group_id="g",
        owner_epoch=await groups.take("g"),
        record=a_record("g"),
        offsets={nowhere: CommittedOffset(offset=1)},
    )
    assert await groups.store.write_groups([write]) == unknown(nowhere)

    # Then it is told, and the record is there
    (taken,) = await groups.store.take_groups(["g"], create=False)
    assert taken.record == a_record("g")
    assert await groups.store.write_groups([]) == NOTHING


async def test_offsets_go_with_their_topic(groups: Groups) -> None:
    # Given two groups that committed two topics
    (doomed,) = await create_partitions(groups.store, 1)
    (kept,) = await create_partitions(groups.store, 1)
    epochs = {group_id: await groups.take(group_id) for group_id in ("g", "h")}
    for group_id, epoch in epochs.items():
        await groups.commit(group_id, epoch, {doomed: 1, kept: 2})

    # When one topic is deleted
    await groups.store.delete_topic(doomed.topic_id)

    # Then its offsets are gone, and cannot be committed again
    for group_id, epoch in epochs.items():
        assert await groups.committed(group_id) == {kept: 2}
        assert await groups.commit(group_id, epoch, {doomed: 3, kept: 4}) == unknown(doomed)
        assert await groups.committed(group_id) == {kept: 4}
        assert await groups.store.committed_offsets(group_id, [doomed]) == settled({})


async def test_each_of_many_groups_is_listed_once(groups: Groups) -> None:
    # Given more groups than are read at once, one without a name
    ids = {"", *(f"{number}{rest}" for number in range(150) for rest in ("", "\x00", "\x01", "é"))}
    for group_id in ids:
        await groups.take(group_id)

    # Then all of them are listed
    listed = [group.group_id async for group in groups.store.list_groups()]
    assert len(listed) == len(ids)
    assert set(listed) == ids


async def test_all_groups_are_listed(groups: Groups) -> None:
    # Given a group without a record, and one with
    await groups.take("simple")
    record = {"group_type": "Consumer", "state": "Reconciling", "member_count": 3}
    await groups.save("b\x00", await groups.take("b\x00"), **record)

    # When groups are listed, then both are, the first as what it is to Kafka's tools
    found = {group.group_id: group async for group in groups.store.list_groups()}
    assert found == {
        "simple": GroupListing(
            group_id="simple",
            group_type="Classic",
            state="Empty",
            protocol_type="",
            member_count=0,
        ),
        "b\x00": GroupListing(
            group_id="b\x00",
            group_type="Consumer",
            state="Reconciling",
            protocol_type="consumer",
            member_count=3,
        ),
    }
