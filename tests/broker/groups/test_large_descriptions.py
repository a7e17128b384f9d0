"""Members that all name the same thousands of topics are described with turns for others.

So many take a minute to join on a busy machine: the groups are not made over the wire.
"""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from broker.api_table import APIS
from broker.network.client_session import ClientSession
from broker.network.memory import MemoryBudget
from broker.network.outbox import BACKLOG_BYTES
from broker.requests import Request
from broker.services import Services
from coordinator.group import Group
from protocol.codec import RequestHeader, response_type, write_uvarint
from tests.broker.test_gradual_handlers import answered
from tests.coordinator.test_group_size import new_group
from tests.coordinator.test_member_ids import CATALOG, heartbeat
from tests.support.group_wire import CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, named

MEMBERS: Final = 200
NAMES: Final = [f"region-{number}" for number in range(5_000)]
LONG_NAMES: Final = [f"{number:02}".ljust(8_000, ".") for number in range(50)]
"""Of so many members they have more bytes than may wait for all readers."""
LONGEST_S: Final = 0.1
"""Of the event loop's processor time; the names alone took twice as much in one turn."""
HEAD: Final = 9
"""Bytes of an answer before its fields: size, correlation id, tags."""


def group_of(names: Sequence[str]) -> Group:
    group = new_group(is_consumer_group=False)
    for number in range(MEMBERS):
        event = replace(heartbeat(), member_id=f"m{number}", subscribed_topic_names=names)
        group.handle(event, now_ms=0)
    assert group.member_count == MEMBERS
    return group


def compact_string(text: str) -> bytes:
    return write_uvarint(len(text) + 1) + text.encode()


class Broker:
    """Describes groups.

    Attributes:
        longest_s: the most that its event loop took for a turn.
    """

    def __init__(self, *groups: Group) -> None:
        self._groups = groups
        self.memory = MemoryBudget(-1)
        self.longest_s = 0.0

    async def describe(self, api_key: int) -> Sequence[Any]:
        """Return how the groups are described."""
        api, answer = APIS[api_key], await self.answer(api_key)
        if isinstance(answer, bytes):
            answer, _ = entity_reader(response_type(api_key, api.high))(answer, HEAD)
        return cast("Sequence[Any]", answer.groups)

    async def answer(self, api_key: int) -> Any:
        """Return what the handler answers."""
        api = APIS[api_key]
        names = tuple(str(number) for number in range(len(self._groups)))
        field = "groups" if api_key == DESCRIBE_GROUPS else "group_ids"
        body = named(api_key, api.high, **{field: names}, include_authorized_operations=False)
        request = Request(
            header=RequestHeader(
                api_key=api_key, api_version=api.high, correlation_id=1, client_id="", body=0
            ),
            frame=bytearray(),
            services=cast("Services", self._services()),
            peer="127.0.0.1:1",
            session=ClientSession(),
            give_back=lambda: None,
            body=body,
        )
        watching = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        answer: Any = await api.handle(request)
        while isinstance(answer, Awaitable):
            answer = await answer
        await asyncio.sleep(0)
        watching.cancel()
        return answer

    def _services(self) -> SimpleNamespace:
        def find(group_id: str) -> Awaitable[object]:
            return answered(SimpleNamespace(machine=self._groups[int(group_id)]))()

        catalog = SimpleNamespace(current=lambda: CATALOG)
        return SimpleNamespace(
            authorizer=SimpleNamespace(enabled=False),
            groups=SimpleNamespace(find=find, catalog=catalog),
            memory=self.memory,
        )

    async def _watch(self) -> None:
        before_s = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now_s = time.thread_time()
            self.longest_s, before_s = max(self.longest_s, now_s - before_s), now_s


@pytest.fixture(scope="module")
def large() -> Group:
    return group_of(NAMES)


async def test_others_have_turns_while_they_are_described(large: Group) -> None:
    broker = Broker(large)
    answer = await broker.answer(CONSUMER_GROUP_DESCRIBE)
    assert answer.count(b"".join(map(compact_string, sorted(NAMES)))) == MEMBERS
    assert broker.longest_s < LONGEST_S
    assert broker.memory.backlog.bytes == 0


async def test_what_each_of_them_names_is_put_in_order_with_turns_for_others() -> None:
    group = new_group(is_consumer_group=False)
    for number in range(MEMBERS):
        names = [*NAMES[:1_000], f"own-{number}"]
        event = replace(heartbeat(), member_id=f"m{number}", subscribed_topic_names=names)
        group.handle(event, now_ms=0)
    broker = Broker(group)
    (described,) = await broker.describe(CONSUMER_GROUP_DESCRIBE)
    shown = [member.subscribed_topic_names for member in described.members]
    assert all(list(names) == sorted(names) for names in shown)
    assert {len(names) for names in shown} == {1_001}
    assert len(set(shown)) == MEMBERS


async def test_it_is_not_described_where_classic_groups_are_asked_for(large: Group) -> None:
    unasked = SimpleNamespace(group_type=large.group_type)  # it cannot be described
    (described,) = await Broker(cast("Group", unasked)).describe(DESCRIBE_GROUPS)
    assert described.error_code is ErrorCode.group_id_not_found


async def test_of_a_group_whose_members_name_too_much_the_names_are_left_out() -> None:
    too_large, small = group_of(LONG_NAMES), group_of(["t"])
    described = await Broker(too_large, small).describe(CONSUMER_GROUP_DESCRIBE)
    assert [one.error_code for one in described] == [ErrorCode.none] * 2
    assert [len(one.members) for one in described] == [MEMBERS] * 2
    shown = [{member.subscribed_topic_names for member in one.members} for one in described]
    assert shown == [{()}, {("t",)}]


async def test_what_has_no_room_beside_others_is_left_out() -> None:
    # Given that there is room for what the names of two of them have
    large = group_of(LONG_NAMES[:4])
    broker = Broker(large, large, large)
    size = MEMBERS * sum(len(name) + 2 for name in LONG_NAMES[:4])
    others = broker.memory.backlog.bytes = BACKLOG_BYTES - 2 * size

    # When three are described, then one is without
    described = await broker.describe(CONSUMER_GROUP_DESCRIBE)
    assert [len(one.members[0].subscribed_topic_names) for one in described] == [4, 4, 0]
    assert broker.memory.backlog.bytes == others

    # And where there is no room at all, small groups are described
    crowded = Broker(large, group_of(["t"]))
    crowded.memory.backlog.bytes = 2 * BACKLOG_BYTES
    described = await crowded.describe(CONSUMER_GROUP_DESCRIBE)
    assert [len(one.members[0].subscribed_topic_names) for one in described] == [0, 1]
