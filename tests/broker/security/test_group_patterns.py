"""Where ACLs decide, a topic that a pattern matches comes to all at once who may know of it."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from protocol.acl import Operation, ResourceType
from tests.support.access import Rule, create_acls, delete_acls
from tests.support.broker import BrokerProcess
from tests.support.consumer_members import ConsumerMember, settled
from tests.support.group_wire import CONSUMER_GROUP_DESCRIBE, named
from tests.support.wire import TIMEOUT_S, WireClient, milliseconds

DELETE_TOPICS: Final = 20
MEMBERS: Final = 3
PARTITIONS: Final = 2 * MEMBERS

_hosts = itertools.count(1)


class Group:
    """Members on the pattern of their group's name, each from a host of its own."""

    def __init__(self, manager: WireClient, clients: dict[str, WireClient], name: str) -> None:
        self.manager = manager
        self.hosts, self.clients = list(clients), list(clients.values())
        self.name = name
        self.members = [ConsumerMember(one, name, pattern=f"{name}-.*") for one in self.clients]

    async def epoch(self) -> int:
        request = named(
            *(CONSUMER_GROUP_DESCRIBE, 1),
            group_ids=(self.name,),
            include_authorized_operations=False,
        )
        (described,) = (await self.clients[0].ask(request)).groups
        assert described.error_code is ErrorCode.none
        return int(described.group_epoch)

    def owned(self) -> list[dict[UUID, list[int]]]:
        return [dict(member.owned) for member in self.members]


@pytest.fixture
async def group(acl_broker: BrokerProcess, name: str) -> AsyncIterator[Group]:
    async with AsyncExitStack() as stack:
        clients = {
            host: await stack.enter_async_context(
                await WireClient.connect(acl_broker.bootstrap, local_host=host)
            )
            for host in (f"127.3.0.{number}" for number in itertools.islice(_hosts, MEMBERS))
        }
        manager = await stack.enter_async_context(await WireClient.connect(acl_broker.bootstrap))
        yield Group(manager, clients, name)


async def test_a_topic_comes_and_goes_with_one_epoch(group: Group) -> None:
    # Given members that share a topic
    first, second = f"{group.name}-a", f"{group.name}-b"
    await group.manager.create_topic(first, PARTITIONS)
    first_id = await group.manager.topic_id(first)
    await settled(*group.members)
    before, epoch = group.owned(), await group.epoch()
    assert [len(one[first_id]) for one in before] == [PARTITIONS // MEMBERS] * MEMBERS

    # When another topic is created that their pattern matches
    await group.manager.create_topic(second, PARTITIONS)
    second_id = await group.manager.topic_id(second)
    async with asyncio.timeout(TIMEOUT_S):
        while not all(second_id in one for one in group.owned()):
            for at, member in enumerate(group.members):
                await member.beat()
                # Then nobody gives up what it has
                assert member.owned[first_id] == before[at][first_id]

    # And all have their shares with one epoch
    await settled(*group.members)
    assert [len(one[second_id]) for one in group.owned()] == [PARTITIONS // MEMBERS] * MEMBERS
    assert await group.epoch() == epoch + 1

    # When it is deleted, then one more is all that it takes
    request = named(DELETE_TOPICS, 3, topic_names=(second,), timeout=milliseconds(10_000))
    (deleted,) = (await group.manager.ask(request)).responses
    assert deleted.error_code is ErrorCode.none
    async with asyncio.timeout(TIMEOUT_S):
        while group.owned() != before:
            await settled(*group.members)
    assert await group.epoch() == epoch + 2


async def test_a_topic_goes_to_those_who_may_know_of_it(group: Group) -> None:
    # Given members of which one alone may know of a topic that there is not yet
    shared, hidden = f"{group.name}-a", f"{group.name}-hidden"
    await group.manager.create_topic(shared, PARTITIONS)
    await settled(*group.members)
    epoch = await group.epoch()
    trusted, *others = group.members
    await create_acls(group.manager, [describes(group.hosts[0], hidden)])

    # When it comes, then that one gets it, with one epoch, and nobody else at any time
    await group.manager.create_topic(hidden, PARTITIONS)
    hidden_id = await group.clients[0].topic_id(hidden)
    async with asyncio.timeout(TIMEOUT_S):
        while len(trusted.owned.get(hidden_id, ())) < PARTITIONS:
            for member in group.members:
                await member.beat()
                assert member is trusted or hidden_id not in member.owned
    await settled(*group.members)
    assert not any(hidden_id in member.owned for member in others)
    assert await group.epoch() == epoch + 1

    # When the others may, too, then it is shared with one more
    allowed = [describes(host, hidden) for host in group.hosts[1:]]
    await create_acls(group.manager, allowed)
    async with asyncio.timeout(TIMEOUT_S):
        while not all(hidden_id in one for one in group.owned()):
            await settled(*group.members)
    assert await group.epoch() == epoch + 2

    # When they may not any more, then they lose it with one more
    await delete_acls(group.manager, allowed)
    async with asyncio.timeout(TIMEOUT_S):
        while len(trusted.owned.get(hidden_id, ())) < PARTITIONS:
            await settled(*group.members)
    assert not any(hidden_id in member.owned for member in others)
    assert await group.epoch() == epoch + 3


def describes(host: str, topic: str) -> Rule:
    """Let who comes from a host know of a topic; once it has such a rule, nobody else may."""
    return Rule(
        host=host, operation=Operation.DESCRIBE, resource_type=ResourceType.TOPIC, name=topic
    )
