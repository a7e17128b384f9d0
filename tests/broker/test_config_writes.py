"""Changes of configs by many at a time: none is lost, and none is tried for ever."""

import asyncio
from functools import partial
from random import Random

import pytest

from broker.config import read_settings
from broker.configs.config_writes import TRIES, ConfigWrites
from broker.node import Broker
from broker.parts import Parts
from broker.start_patience import StartPatience
from storage.errors import ConfigsChanged
from storage.objects.store_traffic import StoreTraffic
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore


class Register:
    """A value that is read, and written if it is still what was read."""

    def __init__(self) -> None:
        self.items: tuple[int, ...] = ()
        self.tries = 0

    async def append(self, item: int) -> None:
        self.tries += 1
        read = self.items
        await asyncio.sleep(0)
        if self.items != read:
            raise ConfigsChanged
        self.items = (*read, item)


async def test_many_at_a_time_all_get_their_turn() -> None:
    # Given far more changes at a time than a change has tries
    writes, register, count = ConfigWrites(), Register(), 10 * TRIES

    # When they are made, then none is lost, and none is tried more than twice
    await asyncio.gather(*(writes.run(partial(register.append, item)) for item in range(count)))
    assert sorted(register.items) == list(range(count))
    assert register.tries < 2 * count


async def test_a_change_that_others_always_overtake_ends() -> None:
    tries = 0

    async def overtaken() -> None:
        nonlocal tries
        tries += 1
        raise ConfigsChanged

    with pytest.raises(ConfigsChanged):
        await ConfigWrites().run(overtaken)
    assert tries == TRIES + 1


async def test_changes_take_turns_whichever_listener_they_come_to() -> None:
    # Given a broker with two listeners
    settings, config = read_settings(
        {"listen": ["127.0.0.1:0", "127.0.0.1:0"], "http": "127.0.0.1:0"}, None
    )
    parts = Parts(
        settings=settings,
        config=config,
        metadata=MemoryMetadata(Random(1)),
        objects=MemoryStore(),
        traffic=StoreTraffic(),
    )
    broker = Broker(settings, parts, None)
    server, listeners, _ = await broker.bind()
    try:
        # When it serves, then changes that come to either wait for the same turn
        dispatches = await broker.join(listeners, alone=True, patience=StartPatience("none"))
        await server.serve(dispatches)
        first, second = (dispatch._services.config_writes for dispatch in dispatches)
        assert first is second
    finally:
        server.stop_accepting()
        await server.close(0)
        await parts.close()
