"""Offsets committed in transactions, while Postgres is slow or away."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from storage.errors import MetadataUnavailable
from storage.metadata.transactions import (
    Producer,
    TransactionEnd,
    TransactionOffsets,
    TransactionOffsetsOutcome,
    Verdict,
)
from tests.broker.groups.group_world import World, refusal, until, world
from tests.support.held_groups import HeldGroups, at

DONE = Verdict.DONE


@pytest.fixture
async def producer(store: HeldGroups) -> Producer:
    outcome = await store.init_producer(
        "t",
        timeout_ms=60_000,
        expected=None,
        fresh_producer_id=await store.allocate_producer_ids(1),
    )
    assert outcome.producer is not None
    return outcome.producer


@pytest.fixture
async def there(store: HeldGroups) -> AsyncIterator[World]:
    """Return another broker."""
    async with world(store) as made:
        made.ours = set()
        yield made


async def end(store: HeldGroups, producer: Producer, *, committed: bool) -> None:
    done = TransactionEnd(
        producer=producer,
        committed=committed,
        bumps_epoch=False,
        marker=b"",
        marker_timestamp_ms=0,
    )
    assert (await store.end_transaction(done)).verdict is DONE


def in_flight(*futures: "asyncio.Future[Any]") -> bool:
    return not any(one.done() for one in futures)


@pytest.mark.parametrize("committed", [True, False])
async def test_offsets_are_committed_with_the_transaction(
    here: World, store: HeldGroups, producer: Producer, committed: bool
) -> None:
    # Given a group that has one of two offsets
    topic_id = await store.topic()
    await here.commit("g", at(topic_id, p0=1))

    # When both are committed in a transaction
    outcome = await here.transact(producer, "g", at(topic_id, p0=5, p1=7))
    assert (outcome.verdict, outcome.unknown) == (DONE, frozenset())

    # Then they are unstable, and nothing has changed yet
    pending = at(topic_id, p0=5, p1=7)
    found = await here.fetched("g")
    assert found.offsets == at(topic_id, p0=1)
    assert found.unstable == pending.keys()

    # until the transaction ends
    await end(store, producer, committed=committed)
    found = await here.fetched("g")
    assert found.offsets == (pending if committed else at(topic_id, p0=1))
    assert not found.unstable


async def test_a_partition_that_is_gone_is_told(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    topic_id = await store.topic(1)
    outcome = await here.transact(producer, "g", at(topic_id, p0=1, p7=2))
    assert outcome.unknown == at(topic_id, p7=2).keys()


async def test_only_members_of_the_generation_that_goes_on_commit(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    # Given a member of the first generation
    topic_id = await store.topic()
    offsets = at(topic_id, p0=5)
    member_id = await here.stable("g")

    # When another one begins a rebalance, then it may commit still
    other = here.join("g")
    member = (member_id, 1)
    assert (await here.transact(producer, "g", offsets, member)).verdict is DONE

    # When the second generation has begun, then it may not
    await here.join("g", member_id)
    await other
    assert await refusal(here.transact(producer, "g", offsets, member)) is (
        ErrorCode.illegal_generation
    )
    # and whoever names no member still may
    assert (await here.transact(producer, "g", offsets)).verdict is DONE


async def test_a_member_of_a_group_that_is_not_there(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    offsets = at(await store.topic(), p0=5)
    assert await here.transact(producer, "g", offsets, ("m", 1)) is None
    assert [one async for one in store.list_groups()] == []


async def test_what_is_not_to_be_written_is_not(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    await here.commit("g", at(await store.topic(), p0=1))
    assert (await here.transact(producer, "g", {})).verdict is DONE
    assert store.commits == []


async def test_a_commit_that_is_refused_makes_no_group(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    # Given one who is not the producer any more, and a store that does not answer
    offsets = at(await store.topic(), p0=5)
    fenced = replace(producer, producer_epoch=producer.producer_epoch + 1)
    assert (await here.transact(fenced, "g", offsets)).verdict is Verdict.FENCED
    store.hold()
    commit = here.transact(producer, "g", offsets)
    store.go_away()
    store.release()
    assert await refusal(commit) is ErrorCode.coordinator_not_available

    # Then there is no group, until one commits who may
    store.come_back()
    assert [one async for one in store.list_groups()] == []
    assert (await here.transact(producer, "g", offsets)).verdict is DONE
    assert (await here.fetched("g")).unstable == offsets.keys()


async def test_who_waits_to_make_a_group_is_answered(
    here: World, store: HeldGroups, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that finds no group, and then does not answer who the producer is
    async def away(_: TransactionOffsets) -> TransactionOffsetsOutcome:
        raise MetadataUnavailable("away")

    monkeypatch.setattr(store, "write_transaction_offsets", away)
    commit = here.transact(producer, "g", at(await store.topic(), p0=5))
    assert await refusal(commit) is ErrorCode.coordinator_not_available
    assert [one async for one in store.list_groups()] == []


async def test_a_commit_of_the_last_generation_is_there_when_the_next_one_fetches(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    # Given a commit of a member that is still under way when the member is shut out
    topic_id = await store.topic()
    member_id = await here.stable("g")
    store.hold()
    commit = here.transact(producer, "g", at(topic_id, p0=5), (member_id, 1))
    await until(lambda: bool(store.commits))

    # When the next member asks where to go on
    fetched = asyncio.ensure_future(here.fetched("g"))
    for _ in range(10):
        await asyncio.sleep(0)

    # Then it hears nothing before that is written, and sees it
    assert in_flight(commit, fetched)
    store.release()
    assert (await fetched).unstable == at(topic_id, p0=5).keys()
    assert (await commit).verdict is DONE


async def test_nobody_is_told_offsets_while_a_commit_may_still_be_written(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    # Given a commit that Postgres does not answer
    topic_id = await store.topic()
    await here.commit("g", at(topic_id, p0=1))
    runner = here.table.get("g")
    store.hold()
    commit = here.transact(producer, "g", at(topic_id, p0=5))
    may_fetch = here.groups.may_fetch("g", member_id=None, member_epoch=-1)
    await until(lambda: bool(store.commits))
    store.go_away()
    store.release()

    # Then who waits is told to ask again, and the group is taken again
    assert await refusal(commit) is ErrorCode.coordinator_not_available
    assert await refusal(may_fetch) is ErrorCode.coordinator_not_available
    store.come_back()
    assert (await here.fetched("g")).offsets == at(topic_id, p0=1)
    assert here.table.get("g") is not runner

    # so that the commit cannot be written any more
    (lost,) = store.commits
    late = await store.write_transaction_offsets(lost)
    assert late.verdict is Verdict.GROUP_FENCED
    assert not (await here.fetched("g")).unstable

    # and is, once it is repeated
    assert (await here.transact(producer, "g", at(topic_id, p0=5))).verdict is DONE


async def test_who_waits_for_a_commit_that_is_not_done_is_answered(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    # Given a member that asks for offsets while some are being committed in a transaction
    topic_id = await store.topic()
    await here.commit("g", at(topic_id, p0=1))
    store.hold()
    transacted = here.transact(producer, "g", at(topic_id, p0=5))
    await until(lambda: len(store.commits) == 1)
    fetched = asyncio.create_task(here.fetched("g"))
    await asyncio.sleep(0)
    assert in_flight(transacted, fetched)

    # When these are certainly not written, as another has held their row for too long
    store.lock()
    store.release()

    # Then the group goes on, and the one who waits is told what was committed before
    assert await refusal(transacted) is ErrorCode.coordinator_not_available
    async with asyncio.timeout(5):
        assert (await fetched).offsets == at(topic_id, p0=1)


async def test_a_commit_to_a_group_that_another_broker_took(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    # Given a group that another broker has taken
    topic_id = await store.topic()
    member_id = await here.stable("g")
    rebalancing = here.join("g")
    await store.take_elsewhere("g")

    # When it is committed to here
    member = (member_id, 1)
    commit = here.transact(producer, "g", at(topic_id, p0=5), member)

    # Then nothing is written, and everybody is told to look for the coordinator
    assert await refusal(commit) is ErrorCode.not_coordinator
    assert await refusal(rebalancing) is ErrorCode.not_coordinator
    assert here.table.get("g") is None
    assert not (await store.committed_offsets("g", None)).unstable


async def test_a_group_that_moves_while_a_commit_is_under_way(
    here: World, there: World, store: HeldGroups, producer: Producer
) -> None:
    # Given a commit that is under way
    topic_id = await store.topic()
    await here.commit("g", at(topic_id, p0=1))
    store.hold()
    commit = here.transact(producer, "g", at(topic_id, p0=5))
    await until(lambda: bool(store.commits))

    # When the group is not ours any more
    here.ours, there.ours = set(), None
    here.upkeep.membership_changed(7)

    # Then the client is sent away, and who still asks here waits for what is written
    assert await refusal(commit) is ErrorCode.not_coordinator
    asked = asyncio.ensure_future(here.groups.committed("g", None))
    for _ in range(10):
        await asyncio.sleep(0)
    assert in_flight(asked)
    store.release()
    assert (await asked).unstable == at(topic_id, p0=5).keys()

    # and the new coordinator knows of it, and takes it again
    assert (await there.fetched("g")).unstable == at(topic_id, p0=5).keys()
    assert (await there.transact(producer, "g", at(topic_id, p0=5))).verdict is DONE


async def test_a_deleted_group_takes_what_is_pending_with_it(
    here: World, store: HeldGroups, producer: Producer
) -> None:
    # Given a group with an offset that waits for the end of a transaction
    topic_id = await store.topic()
    await here.transact(producer, "g", at(topic_id, p0=5))

    # When it is deleted, and the transaction committed
    assert await here.groups.delete("g") is ErrorCode.none
    await end(store, producer, committed=True)

    # Then there is nothing
    assert (await here.fetched("g")).offsets == {}
    assert [one async for one in store.list_groups()] == []


async def test_a_bug_in_one_commit_is_told_and_costs_no_other_group(
    here: World, store: HeldGroups, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store with a bug
    topic_id = await store.topic()
    await here.commit("other", at(topic_id, p0=1))

    async def bug(_: TransactionOffsets) -> TransactionOffsetsOutcome:
        raise ZeroDivisionError

    monkeypatch.setattr(store, "write_transaction_offsets", bug)

    # When a group commits, then the bug comes out, and the group is taken again
    with pytest.raises(ZeroDivisionError):
        await here.transact(producer, "g", at(topic_id, p0=5))
    assert here.table.get("g") is None
    assert here.table.get("other") is not None
    assert (await here.fetched("g")).offsets == {}


async def test_closing_gives_up_what_is_under_way(store: HeldGroups, producer: Producer) -> None:
    async with world(store) as broker:
        topic_id = await store.topic()
        await broker.commit("g", at(topic_id, p0=1))
        store.hold()
        commit = broker.transact(producer, "g", at(topic_id, p0=5))
        await until(lambda: bool(store.commits))
    assert await refusal(commit) is ErrorCode.not_coordinator
    store.release()
    assert not (await store.committed_offsets("g", None)).unstable
