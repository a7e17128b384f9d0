"""TxnOffsetCommit and stable OffsetFetch over the wire."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.groups.conftest import MakeMember
from tests.support.group_members import stable
from tests.support.group_wire import (
    DELETE_GROUPS,
    LIST_GROUPS,
    codes,
    commit_request,
    committed,
    consumer_heartbeat_request,
    fetch_request,
    named,
    new_member_id,
)
from tests.support.transaction_wire import Identity, TransactionalProducer
from tests.support.wire import WireClient, build, request_entities

TXN_OFFSET_COMMIT: Final = 28
NEWEST: Final = 5
FIRST_WITH_MEMBERS: Final = 3
NONE: Final = ErrorCode.none
NOTHING: Final = (-1, "")
UNSTABLE: Final = ErrorCode.unstable_offset_commit

Offsets = Mapping[int, tuple[int, str]]


def txn_commit_request(
    who: Identity,
    group: str,
    topics: Mapping[str, Offsets],
    *,
    version: int = NEWEST,
    member_id: str = "",
    generation_id: int = -1,
    instance_id: str | None = None,
) -> Any:
    module = request_entities(TXN_OFFSET_COMMIT, version)
    asked = tuple(
        module.TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=tuple(
                build(
                    module,
                    "TxnOffsetCommitRequestPartition",
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=7,
                    committed_metadata=note,
                )
                for index, (offset, note) in offsets.items()
            ),
        )
        for topic, offsets in topics.items()
    )
    return build(
        module,
        "TxnOffsetCommitRequest",
        transactional_id=who.transactional_id,
        group_id=group,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=asked,
    )


def partition_codes(response: Any) -> list[int]:
    """Return the codes of an OffsetFetch response."""
    group = response.groups[0] if hasattr(response, "groups") else response
    return [int(one.error_code) for topic in group.topics for one in topic.partitions]


@pytest.fixture
async def producer(client: WireClient, group: str) -> TransactionalProducer:
    made = TransactionalProducer(client, f"of-{group}")
    assert await made.init() is NONE
    return made


@pytest.mark.parametrize("version", range(NEWEST + 1))
@pytest.mark.parametrize("succeeds", [True, False])
async def test_offsets_come_with_the_end_of_the_transaction(
    client: WireClient,
    group: str,
    topic: str,
    producer: TransactionalProducer,
    version: int,
    succeeds: bool,
) -> None:
    # Given a group that takes part in a transaction; from v5 on it need not be added
    await client.create_topic(topic, 3)
    await client.ask(commit_request(group, {topic: {0: (1, "old")}}))
    if version < NEWEST:
        assert await producer.add_group(group) is NONE

    # When offsets are committed in it
    request = txn_commit_request(
        producer.identity, group, {topic: {0: (5, "new"), 2: (7, "")}}, version=version
    )
    assert codes(await client.ask(request)) == [NONE, NONE]

    # Then who wants stable offsets has to wait for them; others see what was there before
    asked: dict[str | UUID, list[int]] = {topic: [0, 1, 2]}
    waiting = await client.ask(fetch_request(group, asked))
    assert committed(waiting) == {topic: {0: NOTHING, 1: NOTHING, 2: NOTHING}}
    assert partition_codes(waiting) == [UNSTABLE, NONE, UNSTABLE]
    before = await client.ask(fetch_request(group, asked, stable=False))
    assert committed(before) == {topic: {0: (1, "old"), 1: NOTHING, 2: NOTHING}}
    assert partition_codes(before) == [NONE] * 3

    # until the transaction ends
    assert await producer.end(committed=succeeds) is NONE
    after = await client.ask(fetch_request(group, asked))
    new = {0: (5, "new"), 1: NOTHING, 2: (7, "")}
    assert committed(after) == ({topic: new} if succeeds else committed(before))
    assert partition_codes(after) == [NONE] * 3
    if succeeds:
        leader_epoch = after.groups[0].topics[0].partitions[0].committed_leader_epoch
        assert leader_epoch == (7 if version >= 2 else -1)


@pytest.mark.parametrize("version", [2, 7, 8, 10])
async def test_stable_offsets_in_every_form_of_the_request(
    client: WireClient, group: str, topic: str, producer: TransactionalProducer, version: int
) -> None:
    # Given one offset that is about to change, and another that is not there yet
    await client.create_topic(topic, 2)
    topic_id = await client.topic_id(topic)
    await client.ask(commit_request(group, {topic: {0: 1}}))
    request = txn_commit_request(producer.identity, group, {topic: {0: (5, ""), 1: (6, "")}})
    assert codes(await client.ask(request)) == [NONE, NONE]
    name = topic_id if version >= 10 else topic

    # When all or some are fetched, then versions that cannot ask for stable offsets get the old one
    everything = await client.ask(fetch_request(group, None, version=version))
    some = await client.ask(fetch_request(group, {name: [0, 1]}, version=version))
    if version < 7:
        assert committed(everything) == {name: {0: (1, "")}}
        assert partition_codes(some) == [NONE, NONE]
        return

    # and the others that it is unstable; what has no offset yet is not among all, as in Kafka
    assert committed(everything) == {name: {0: NOTHING}}
    assert partition_codes(everything) == [UNSTABLE]
    assert committed(some) == {name: {0: NOTHING, 1: NOTHING}}
    assert partition_codes(some) == [UNSTABLE, UNSTABLE]


async def test_each_partition_answers_for_itself(
    client: WireClient, group: str, topic: str, producer: TransactionalProducer
) -> None:
    await client.create_topic(topic)
    topics: dict[str, Offsets] = {
        topic: {0: (5, ""), 1: (5, "")},
        f"{topic}-no": {0: (5, "")},
    }
    request = txn_commit_request(producer.identity, group, topics)
    unknown = ErrorCode.unknown_topic_or_partition
    assert codes(await client.ask(request)) == [NONE, unknown, unknown]

    request = txn_commit_request(producer.identity, group, {topic: {0: (6, "x" * 11)}})
    assert codes(await client.ask(request)) == [ErrorCode.offset_metadata_too_large]
    await producer.end(committed=True)
    fetched = await client.ask(fetch_request(group, {topic: [0]}))
    assert committed(fetched) == {topic: {0: (5, "")}}


async def test_who_is_not_the_producer(
    client: WireClient, group: str, topic: str, producer: TransactionalProducer
) -> None:
    await client.create_topic(topic)

    async def code(who: Identity, version: int = NEWEST, to: str = group) -> ErrorCode:
        request = txn_commit_request(who, to, {topic: {0: (5, "")}}, version=version)
        (only,) = codes(await client.ask(request))
        return ErrorCode(only)

    me = producer.identity
    name, producer_id, epoch = me.transactional_id, me.producer_id, me.epoch
    mapping = ErrorCode.invalid_producer_id_mapping
    assert await code(Identity(f"{name}-no", producer_id, epoch)) is mapping
    assert await code(Identity(name, producer_id + 1, epoch)) is mapping
    assert await code(Identity(name, producer_id, epoch + 1)) is ErrorCode.invalid_producer_epoch
    assert await code(Identity("", producer_id, epoch)) is ErrorCode.invalid_request
    assert await code(me, to="") is ErrorCode.invalid_group_id

    # A group that was not added: clients of KIP-890 are told to abort
    assert await code(me, version=3) is ErrorCode.invalid_txn_state
    assert await code(me, version=4) is ErrorCode.transaction_abortable

    # One who comes after the next has begun
    assert await producer.init(as_new=True) is NONE
    assert await code(me) is ErrorCode.invalid_producer_epoch

    # None of them has made the group
    listed = await client.ask(named(LIST_GROUPS, 4, states_filter=()))
    assert group not in {one.group_id for one in listed.groups}


@pytest.mark.parametrize("version", range(FIRST_WITH_MEMBERS, NEWEST + 1))
async def test_only_members_of_the_generation_commit(
    client: WireClient,
    group: str,
    topic: str,
    producer: TransactionalProducer,
    member: MakeMember,
    version: int,
) -> None:
    # Given a group with a static member
    await client.create_topic(topic)
    one = await member(instance_id="i")
    await stable(one)
    await producer.add_group(group)

    async def code(**who: Any) -> ErrorCode:
        request = txn_commit_request(
            producer.identity, group, {topic: {0: (5, "")}}, version=version, **who
        )
        (only,) = codes(await client.ask(request))
        return ErrorCode(only)

    # Then it commits, and so does who names no member
    mine = {"member_id": one.member_id, "generation_id": one.generation_id}
    assert await code() is NONE
    assert await code(**mine) is NONE
    assert await code(**mine, instance_id="i") is NONE

    # and nobody else
    assert await code(**mine, instance_id="j") is ErrorCode.unknown_member_id
    assert await code(**mine | {"generation_id": 0}) is ErrorCode.illegal_generation
    assert await code(**mine | {"member_id": "no"}) is ErrorCode.unknown_member_id
    other = mine | {"member_id": "no", "instance_id": "i"}
    assert await code(**other) is ErrorCode.fenced_instance_id


async def test_members_of_consumer_groups(
    client: WireClient, group: str, topic: str, producer: TransactionalProducer
) -> None:
    # Given a group of KIP-848 with a member
    await client.create_topic(topic)
    member_id = new_member_id()
    beat = consumer_heartbeat_request(group, member_id, 0, subscribed_topic_names=(topic,))
    epoch = (await client.ask(beat)).member_epoch

    async def code(member_id: str, epoch: int) -> ErrorCode:
        offsets: Offsets = {0: (5, "")}
        request = txn_commit_request(
            producer.identity, group, {topic: offsets}, member_id=member_id, generation_id=epoch
        )
        (only,) = codes(await client.ask(request))
        return ErrorCode(only)

    # Then it commits at its epoch only, and a stale one is told in words that producers know
    assert await code(member_id, epoch) is NONE
    assert await code(member_id, epoch - 1) is ErrorCode.illegal_generation
    assert await code(new_member_id(), epoch) is ErrorCode.unknown_member_id
    assert await code("", -1) is NONE


async def test_a_group_is_made_by_one_who_is_no_member(
    client: WireClient, group: str, topic: str, producer: TransactionalProducer
) -> None:
    await client.create_topic(topic)
    offsets: dict[str, Offsets] = {topic: {0: (5, "")}}
    as_member = txn_commit_request(
        producer.identity, group, offsets, member_id="m", generation_id=1
    )
    assert codes(await client.ask(as_member)) == [ErrorCode.illegal_generation]
    assert codes(await client.ask(txn_commit_request(producer.identity, group, offsets))) == [NONE]

    # When it is deleted before the transaction ends, then its offset is gone
    deletion = named(DELETE_GROUPS, 2, groups_names=(group,))
    assert [one.error_code for one in (await client.ask(deletion)).results] == [NONE]
    assert await producer.end(committed=True) is NONE
    fetched = await client.ask(fetch_request(group, {topic: [0]}))
    assert committed(fetched) == {topic: {0: NOTHING}}
    assert partition_codes(fetched) == [NONE]
