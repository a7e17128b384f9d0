"""What storage/metadata/groups.py promises, asked of every metadata store: what is forgotten, and
when.
"""

from collections.abc import AsyncIterator

import pytest

from tests.contracts.group_stores import NOTHING, Groups, fenced, open_groups
from tests.contracts.metadata_stores import KINDS, create_partitions

DAY_MS = 24 * 60 * 60 * 1000
RETENTION_MS = 7 * DAY_MS


@pytest.fixture(params=KINDS)
async def groups(request: pytest.FixtureRequest) -> AsyncIterator[Groups]:
    """Each store in turn, empty."""
    async with open_groups(request.param) as opened:
        yield opened


async def test_a_group_with_members_keeps_its_offsets(groups: Groups) -> None:
    # Given a group with members, and a commit that is long ago
    (partition,) = await create_partitions(groups.store, 1)
    epoch = await groups.take("g")
    await groups.save("g", epoch)
    await groups.commit("g", epoch, {partition: 1})
    await groups.passes(10 * RETENTION_MS)

    # When offsets expire, then not these
    assert await groups.store.expire_offsets(RETENTION_MS) == 0
    assert await groups.committed("g") == {partition: 1}


async def test_offsets_expire_when_the_last_member_has_been_gone_for_long(groups: Groups) -> None:
    # Given a group that lost its last member six days ago, and was saved again three days ago
    first, second = await create_partitions(groups.store, 2)
    epoch = await groups.take("g")
    await groups.save("g", epoch)
    await groups.commit("g", epoch, {first: 1, second: 2})
    await groups.passes(30 * DAY_MS)
    await groups.save("g", epoch, state="Empty", member_count=0)
    await groups.passes(3 * DAY_MS)
    await groups.save("g", epoch, state="Empty", member_count=0, generation_id=2)
    await groups.passes(3 * DAY_MS)

    # When offsets expire, then these stay
    assert await groups.store.expire_offsets(RETENTION_MS) == 0
    assert await groups.committed("g") == {first: 1, second: 2}

    # And two days later they go, but the group stays until it, too, was left alone for so long
    await groups.passes(2 * DAY_MS)
    assert await groups.store.expire_offsets(RETENTION_MS) == 2
    assert await groups.committed("g") == {}
    assert await groups.ids() == ["g"]
    await groups.passes(3 * DAY_MS)
    assert await groups.store.expire_offsets(RETENTION_MS) == 1
    assert await groups.ids() == []
    assert await groups.save("g", epoch) == fenced("g")


async def test_a_group_and_its_offsets_can_go_together(groups: Groups) -> None:
    # Given groups that nobody touched for long: empty, without a record, and with members
    first, second = await create_partitions(groups.store, 2)
    empty, simple, alive = [await groups.take(group_id) for group_id in ("e", "s", "a")]
    await groups.save("e", empty, state="Empty", member_count=0)
    await groups.save("a", alive)
    for group_id, epoch in (("e", empty), ("s", simple), ("a", alive)):
        await groups.commit(group_id, epoch, {first: 1, second: 2})
    await groups.take("nothing")
    await groups.passes(8 * DAY_MS)

    # When they expire, then all that nobody wants is counted and gone
    assert await groups.store.expire_offsets(RETENTION_MS) == 4 + 3
    assert await groups.ids() == ["a"]
    assert await groups.store.expire_offsets(RETENTION_MS) == 0


async def test_a_member_that_comes_back_ends_the_wait(groups: Groups) -> None:
    # Given a group that was empty for six days, then had a member for a day, and is empty again
    (partition,) = await create_partitions(groups.store, 1)
    epoch = await groups.take("g")
    await groups.save("g", epoch, state="Empty", member_count=0)
    await groups.commit("g", epoch, {partition: 1})
    await groups.passes(6 * DAY_MS)
    await groups.save("g", epoch)
    await groups.passes(DAY_MS)
    await groups.save("g", epoch, state="Empty", member_count=0)
    await groups.passes(6 * DAY_MS)

    # When offsets expire, then only the last absence counts
    assert await groups.store.expire_offsets(RETENTION_MS) == 0
    await groups.passes(2 * DAY_MS)
    assert await groups.store.expire_offsets(RETENTION_MS) == 2


async def test_without_a_record_each_offset_has_its_own_time(groups: Groups) -> None:
    # Given a group without members, ever, that committed one partition long before the other
    first, second = await create_partitions(groups.store, 2)
    epoch = await groups.take("g")
    await groups.commit("g", epoch, {first: 1, second: 1})
    await groups.passes(4 * DAY_MS)
    await groups.commit("g", epoch, {second: 2})
    await groups.passes(4 * DAY_MS)

    # When offsets expire, then one goes before the other, and the group with the last
    assert await groups.store.expire_offsets(RETENTION_MS) == 1
    assert await groups.committed("g") == {second: 2}
    await groups.passes(4 * DAY_MS)
    assert await groups.store.expire_offsets(RETENTION_MS) == 2
    assert await groups.ids() == []


async def test_a_group_that_was_taken_or_written_lately_stays(groups: Groups) -> None:
    # Given old groups: taken, committed (long after its last member), robbed of offsets, or of a
    # topic since
    first, second = await create_partitions(groups.store, 2)
    (doomed,) = await create_partitions(groups.store, 1)
    names = ("taken", "committed", "robbed", "topic")
    epochs = {name: await groups.take(name) for name in names}
    await groups.save("committed", epochs["committed"], state="Empty", member_count=0)
    await groups.passes(10 * DAY_MS)
    await groups.take("taken")
    assert await groups.commit("committed", epochs["committed"], {first: 1}) == NOTHING
    await groups.commit("robbed", epochs["robbed"], {second: 1})
    assert await groups.store.delete_offsets("robbed", epochs["robbed"], [second])
    await groups.commit("topic", epochs["topic"], {doomed: 1})
    await groups.store.delete_topic(doomed.topic_id)

    # When offsets expire, then all groups stay, and what was committed lately
    assert await groups.store.expire_offsets(RETENTION_MS) == 0
    assert await groups.ids() == sorted(names)

    # And later they go, too: the groups, and one offset
    await groups.passes(8 * DAY_MS)
    assert await groups.store.expire_offsets(RETENTION_MS) == 5
    assert await groups.ids() == []


async def test_who_looks_at_a_group_does_not_prolong_its_time(groups: Groups) -> None:
    # Given a group without members and offsets, and one without a record, that somebody looks at
    # every day
    await groups.save("e", await groups.take("e"), state="Empty", member_count=0)
    await groups.take("s")
    for _ in range(8):
        await groups.passes(DAY_MS)
        assert len(await groups.store.take_groups(["e", "s"], create=False)) == 2

    # When offsets expire, then they go as if nobody did
    assert await groups.store.expire_offsets(RETENTION_MS) == 2
    assert await groups.ids() == []


async def test_offsets_of_topics_that_members_have_left_expire(groups: Groups) -> None:
    # Given a group that committed two topics long ago, and a third one lately
    (read,) = await create_partitions(groups.store, 1, name="read")
    first, second = await create_partitions(groups.store, 2, name="left")
    (lately,) = await create_partitions(groups.store, 1, name="left-lately")
    epoch = await groups.take("g")
    await groups.save("g", epoch)
    await groups.commit("g", epoch, {read: 1, first: 2, second: 3})
    await groups.passes(8 * DAY_MS)
    await groups.commit("g", epoch, {second: 4, lately: 5})

    # When its members read the first topic alone, then the old offsets of the others go
    forget = groups.store.expire_left_topics
    assert await forget("g", epoch - 1, {"read"}, RETENTION_MS) == 0
    assert await forget("g", epoch, {"read", "left", "any\0text\1"}, RETENTION_MS) == 0
    assert await forget("g", epoch, {"read"}, RETENTION_MS) == 1
    assert await groups.committed("g") == {read: 1, second: 4, lately: 5}

    # And what is left of them when it is as old
    await groups.passes(8 * DAY_MS)
    assert await forget("g", epoch, {"read"}, RETENTION_MS) == 2
    assert await groups.committed("g") == {read: 1}
