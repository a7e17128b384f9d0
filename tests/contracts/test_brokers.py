"""What storage/metadata/brokers.py promises, for Postgres and for the fake. Time passes as tests
say.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final
from uuid import UUID, uuid4

import asyncpg
import pytest

from storage.errors import BrokerDisplaced, IdentityTaken
from storage.metadata.brokers import (
    MOST_DEAD,
    SETTLED_MS,
    BrokerLife,
    BrokerRecord,
    BrokerStore,
    Membership,
)
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.port import MetadataStore
from storage.postgres.postgres_connection import Connection
from tests.contracts.metadata_stores import KINDS, patient_postgres
from tests.support.fakes.metadata import MemoryMetadata

TTL_MS: Final = 600_000  # the machine may be slow: no real time comes near
DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(slots=True)
class Registry:
    """A store of brokers; `passes` lets time pass."""

    store: MetadataStore
    passes: Callable[[int], Awaitable[None]]

    async def register(
        self, address: str, *, preferred: int = 0, alone: bool = False, rack: str | None = None
    ) -> "Member":
        incarnation = uuid4()
        membership = await self.store.register_broker(
            incarnation,
            [address, f"inside-{address}"],
            rack=rack,
            preferred_node_id=preferred,
            alone=alone,
            time_to_live_ms=TTL_MS,
        )
        return Member(self.store, incarnation, membership)


@dataclass(slots=True)
class Member:
    """A broker that has registered; `seen` is the last it heard."""

    store: BrokerStore
    incarnation: UUID
    seen: Membership

    @property
    def node_id(self) -> int:
        return self.seen.node_id

    async def beat(self) -> list[int]:
        """Send a heartbeat; return who is alive."""
        self.seen = await self.store.broker_heartbeat(
            self.node_id,
            self.incarnation,
            known_generation=self.seen.generation,
            time_to_live_ms=TTL_MS,
        )
        return alive(self.seen)

    async def leave(self) -> list[int]:
        return alive(await self.store.deregister_broker(self.node_id, self.incarnation))


def alive(membership: Membership) -> list[int]:
    return [one.node_id for one in membership.brokers]


@pytest.fixture(params=KINDS)
async def registry(request: pytest.FixtureRequest) -> AsyncIterator[Registry]:
    if request.param == "memory":
        clock = [0]

        async def pass_in_memory(passed_ms: int) -> None:
            clock[0] += passed_ms

        yield Registry(MemoryMetadata(Random(1), lambda: clock[0]), pass_in_memory)
        return
    async with patient_postgres() as (dsn, store):

        async def pass_in_postgres(passed_ms: int) -> None:
            connection: Connection = await asyncpg.connect(dsn)
            await connection.execute(
                "UPDATE streamhouse_internal.brokers SET "
                "heartbeat_at = heartbeat_at - $1::bigint * interval '1 ms', "
                "returned_at = returned_at - $1::bigint * interval '1 ms'",
                passed_ms,
            )
            await connection.close()

        yield Registry(store, pass_in_postgres)


async def steady(registry: Registry, *addresses: str) -> list[Member]:
    """Return brokers that have been alive for longer than the time to live."""
    members = [await registry.register(address) for address in addresses]
    for _ in range(3):
        await registry.passes(TTL_MS // 2)
        for member in members:
            await member.beat()
    return members


async def test_brokers_get_ids_in_order_and_see_each_other(registry: Registry) -> None:
    first = await registry.register("a:1", rack="east")
    second = await registry.register("b:1")
    assert (first.node_id, second.node_id) == (0, 1)
    assert (first.seen.generation, second.seen.generation) == (0, 1)
    assert await first.beat() == [0, 1]
    assert first.seen.generation == 1
    assert list(first.seen.brokers) == [
        BrokerRecord(node_id=0, addresses=("a:1", "inside-a:1"), rack="east"),
        BrokerRecord(node_id=1, addresses=("b:1", "inside-b:1"), rack=None),
    ]


async def test_a_preferred_id_is_taken_if_it_is_free(registry: Registry) -> None:
    assert (await registry.register("a:1", preferred=1)).node_id == 1
    assert (await registry.register("b:1", preferred=1)).node_id == 2
    assert (await registry.register("c:1")).node_id == 0


async def test_heartbeats_change_no_generation(registry: Registry) -> None:
    first, second = await steady(registry, "a:1", "b:1")
    assert first.seen.generation == second.seen.generation == 1


async def test_who_comes_back_is_the_same_node(registry: Registry) -> None:
    # Given two brokers, one of which has been silent for its time to live, unnoticed
    first, second = await steady(registry, "a:1", "b:1")
    await registry.passes(TTL_MS + 1000)

    # When a new process registers with its address
    again = await registry.register("b:1")

    # Then it has its id, the others see another generation, and the old process is displaced
    assert (again.node_id, again.seen.generation) == (1, 2)
    assert await first.beat() == [0, 1]
    assert first.seen.generation == 2
    with pytest.raises(BrokerDisplaced):
        await second.beat()


async def test_who_comes_as_a_broker_that_is_alive_is_refused(registry: Registry) -> None:
    # Given two brokers
    first, second = await steady(registry, "a:1", "b:1")

    # When another process comes with the address of one, then it is refused, and they go on
    await registry.passes(TTL_MS // 2)
    for _ in range(2):
        with pytest.raises(IdentityTaken, match="alive advertises b:1"):
            await registry.register("b:1")
    assert await first.beat() == await second.beat() == [0, 1]
    assert first.seen.generation == second.seen.generation == 1

    # And it may come once the broker has left
    await second.leave()
    assert (await registry.register("b:1")).node_id == 1


async def test_to_register_twice_is_to_register_once(registry: Registry) -> None:
    # Given a broker that has not heard the answer to its registration
    first = await registry.register("a:1")

    # When it registers again, then it is the same
    again = await registry.store.register_broker(
        first.incarnation,
        ["a:1"],
        rack=None,
        preferred_node_id=0,
        alone=False,
        time_to_live_ms=TTL_MS,
    )
    assert (again.node_id, alive(again)) == (0, [0])


async def test_a_silent_broker_is_dead_after_its_time(registry: Registry) -> None:
    # Given two brokers
    first, second = await steady(registry, "a:1", "b:1")

    # When the second is silent for almost the time to live, it is alive
    await registry.passes(TTL_MS // 2)
    await first.beat()
    await registry.passes(TTL_MS // 4)
    assert await first.beat() == [0, 1]

    # When the time is over, it is dead, in a new generation
    await registry.passes(TTL_MS // 2)
    assert await first.beat() == [0]
    assert first.seen.generation == 2
    assert list(first.seen.dead) == [BrokerRecord(node_id=1, addresses=(), rack=None)]

    # When it is heard of again, it is back with its id
    assert await second.beat() == [0, 1]
    assert (second.node_id, second.seen.generation) == (1, 3)
    assert not second.seen.dead


async def test_when_all_were_away_nobody_is_called_dead(registry: Registry) -> None:
    # Given three brokers, none of which could send a heartbeat for long
    first, second, third = await steady(registry, "a:1", "b:1", "c:1")
    await registry.passes(10 * TTL_MS)

    # When the first one is back, then it waits for the others
    assert await first.beat() == [0, 1, 2]
    await registry.passes(TTL_MS // 2)
    assert await second.beat() == [0, 1, 2]
    assert await first.beat() == [0, 1, 2]

    # And who does not come back in time is dead
    await registry.passes(TTL_MS // 2)
    await first.beat()
    await second.beat()
    await registry.passes(TTL_MS // 2)
    assert await first.beat() == [0, 1]
    assert await third.beat() == [0, 1, 2]


async def test_when_all_were_almost_away_for_too_long_nobody_is_called_dead(
    registry: Registry,
) -> None:
    # Given two brokers, the first of which is heard of just after the second
    first, second = await steady(registry, "a:1", "b:1")
    await registry.passes(TTL_MS // 10)
    await first.beat()

    # When both are away for a time that is over for the second, and not yet for the first
    await registry.passes(TTL_MS * 19 // 20)
    assert await first.beat() == [0, 1]

    # Then the second goes on, if it is back before the first is heard of again
    assert await second.beat() == [0, 1]
    assert second.seen.generation == 1
    await registry.passes(TTL_MS // 10)
    await first.beat()
    await registry.passes(TTL_MS * 19 // 20)
    assert await first.beat() == [0, 1]
    assert await first.beat() == [0]


async def test_who_leaves_is_gone_at_once(registry: Registry) -> None:
    first, second = await steady(registry, "a:1", "b:1")
    assert await second.leave() == [0]
    assert await second.leave() == [0]
    assert await first.beat() == [0]
    assert first.seen.generation == 2
    assert await first.leave() == []


async def test_who_registers_calls_nobody_dead(registry: Registry) -> None:
    # Given two brokers that could not send heartbeats, because the database was away
    first, second = await steady(registry, "a:1", "b:1")
    await registry.passes(2 * TTL_MS)

    # When a third one starts before they are heard of again, it waits for them
    newcomer = await registry.register("c:1")
    assert (newcomer.node_id, alive(newcomer.seen)) == (2, [0, 1, 2])
    assert await first.beat() == [0, 1, 2]
    assert await second.beat() == [0, 1, 2]
    assert second.seen.generation == 2


async def test_a_generation_that_was_seen_is_not_given_again(registry: Registry) -> None:
    # Given brokers that know a generation which the database has lost (a standby that lagged)
    first, second = await steady(registry, "a:1", "b:1")
    first.seen = replace(first.seen, generation=7)

    # When the first is heard of, the set gets a new one
    assert await first.beat() == [0, 1]
    assert first.seen.generation == 9
    assert await second.beat() == [0, 1]
    assert second.seen.generation == 9

    # And so it does if one of them has seen the latest with another set, and asks for a later one
    second.seen = replace(second.seen, generation=10)
    assert await second.beat() == [0, 1]
    assert second.seen.generation == 12
    assert await first.beat() == [0, 1]
    assert first.seen.generation == 12


async def test_a_heartbeat_that_comes_after_the_goodbye_revives_nobody(registry: Registry) -> None:
    first, second = await steady(registry, "a:1", "b:1")
    assert await second.leave() == [0]
    with pytest.raises(BrokerDisplaced):
        await second.beat()
    assert await first.beat() == [0]
    assert (await registry.register("b:1")).node_id == 1


async def test_one_who_is_alone_buries_all(registry: Registry) -> None:
    await steady(registry, "a:1", "b:1")
    newcomer = await registry.register("c:1", alone=True)
    assert alive(newcomer.seen) == [2]


async def test_ids_are_free_again_after_a_day(registry: Registry) -> None:
    # Given two brokers, the first of which has been gone for more than a day
    first, second = await steady(registry, "a:1", "b:1")
    await first.leave()
    await registry.passes(DAY_MS - TTL_MS)
    await second.beat()
    assert (await registry.register("c:1")).node_id == 2
    await registry.passes(2 * TTL_MS)

    # When another one registers, it gets the id
    assert (await registry.register("d:1")).node_id == 0


async def test_of_many_that_are_gone_those_are_known_that_went_last(registry: Registry) -> None:
    # Given a broker that starts over and over, under another address each time
    await registry.register("a:1")
    for port in range(1, MOST_DEAD + 11):
        await registry.passes(100)
        await (await registry.register(f"b:{port}")).leave()

    # When another one registers, then only those are known beside it that went last
    newcomer = await registry.register("c:1")
    dead = {one.addresses[0]: one.node_id for one in await registry.store.dead_brokers()}
    assert set(dead) == {f"b:{port}" for port in range(11, MOST_DEAD + 11)}
    assert sorted(dead.values()) == [one.node_id for one in newcomer.seen.dead]

    # And each of them comes back as who it was
    assert (await registry.register("b:11")).node_id == dead["b:11"]


async def test_who_was_alive_for_long_is_not_forgotten_for_those_that_never_were(
    registry: Registry,
) -> None:
    # Given a broker that had been alive for a while, and was stopped
    first, second = await steady(registry, "a:1", "b:1")
    for _ in range(0, SETTLED_MS, TTL_MS // 2):
        await registry.passes(TTL_MS // 2)
        await first.beat()
        await second.beat()
    await second.leave()

    # When another one starts over and over, under another address each time
    for port in range(1, MOST_DEAD + 11):
        await registry.passes(100)
        await (await registry.register(f"c:{port}")).leave()

    # Then it comes back as who it was, and of the others those are known that went last
    assert (await registry.register("b:1")).node_id == 1
    dead = {one.addresses[0] for one in await registry.store.dead_brokers()}
    assert dead == {f"c:{port}" for port in range(11, MOST_DEAD + 11)}


async def test_where_many_are_alive_as_many_are_known_that_are_gone(registry: Registry) -> None:
    # Given a cluster of which half is gone, which is more than is known of a small one
    size = 2 * (MOST_DEAD + 2)
    members = [await registry.register(f"h:{port}") for port in range(size)]
    for member in members[::2]:
        await member.leave()

    # When one comes back, then it has its id, and so have the others
    for member in members[:4:2]:
        assert (await registry.register(f"h:{member.node_id}")).node_id == member.node_id
    assert len(await registry.store.dead_brokers()) == MOST_DEAD


async def test_many_register_at_the_same_time(registry: Registry) -> None:
    members = await asyncio.gather(*(registry.register(f"h:{port}") for port in range(10)))
    assert sorted(member.node_id for member in members) == list(range(10))
    assert sorted(member.seen.generation for member in members) == list(range(10))
    assert await members[0].beat() == list(range(10))


async def test_a_dead_broker_can_be_forgotten(registry: Registry) -> None:
    # Given two brokers, the second of which has stopped
    first, second = await steady(registry, "a:1", "b:1")
    assert await registry.store.dead_brokers() == []
    await second.leave()
    gone = BrokerRecord(node_id=1, addresses=("b:1", "inside-b:1"), rack=None)
    assert await registry.store.dead_brokers() == [gone]

    # When brokers are forgotten, then only the dead one is
    assert await registry.store.forget_broker(0) is BrokerLife.LIVE
    assert await registry.store.forget_broker(7) is BrokerLife.UNKNOWN
    assert await registry.store.forget_broker(1) is BrokerLife.DEAD
    assert await registry.store.forget_broker(1) is BrokerLife.UNKNOWN
    assert await registry.store.dead_brokers() == []

    # And the others are told, in another generation
    assert await first.beat() == [0]
    assert (first.seen.generation, list(first.seen.dead)) == (3, [])

    # And its id is free at once
    assert (await registry.register("c:1")).node_id == 1
    assert (await registry.register("b:1")).node_id == 2


async def test_configs_of_a_broker_are_not_those_of_the_next_with_its_id(
    registry: Registry,
) -> None:
    # Given configs of the cluster, and of a broker and how it was started
    _, second = await steady(registry, "a:1", "b:1")
    kept = [Entity(EntityKind.BROKER, ""), Entity(EntityKind.BROKER, "0")]
    own = [Entity(kind, "1") for kind in (EntityKind.BROKER, EntityKind.BROKER_START)]
    await registry.store.alter_entity_configs(
        [EntityChange(entity=entity, changes={"a": "1"}) for entity in (*kept, *own)]
    )
    known = await registry.store.entity_config_changes(0)

    # When it is back after it was forgotten, then it finds its configs
    await second.leave()
    await registry.passes(2 * DAY_MS)
    assert (await registry.register("a:1")).node_id == 0
    assert await registry.store.dead_brokers() == []
    second = await registry.register("b:1")
    assert second.node_id == 1
    assert not (await registry.store.entity_config_changes(known.version)).configs

    # Though others have come before it, some of whom are back as well
    third = await registry.register("d:1")
    await second.leave()
    await third.leave()
    await registry.passes(2 * DAY_MS)
    assert (await registry.register("a:1")).node_id == 0
    assert (await registry.register("d:1")).node_id == 2
    second = await registry.register("b:1")
    assert second.node_id == 1
    assert not (await registry.store.entity_config_changes(known.version)).configs

    # When another gets its id, then nothing is set of that any more, and all are told
    await second.leave()
    assert await registry.store.forget_broker(1) is BrokerLife.DEAD
    assert (await registry.register("c:1")).node_id == 1
    told = await registry.store.entity_config_changes(known.version)
    assert told.configs == {entity: {} for entity in own}
    assert told.version > known.version


async def test_one_that_was_only_silent_is_displaced_when_it_was_forgotten(
    registry: Registry,
) -> None:
    # Given a broker that was called dead, because it was silent
    first, second = await steady(registry, "a:1", "b:1")
    for _ in range(2):
        await first.beat()
        await registry.passes(TTL_MS * 2 // 3)
    assert await first.beat() == [0]

    # When it is forgotten, then it cannot go on as if nothing had been
    assert await registry.store.forget_broker(1) is BrokerLife.DEAD
    with pytest.raises(BrokerDisplaced):
        await second.beat()
