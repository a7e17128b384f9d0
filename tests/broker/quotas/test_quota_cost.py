"""What quotas cost a request that none of them is about; where none is set, no call at all."""

import asyncio
import gc
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from broker.apis.k49_alter_client_quotas import handle
from broker.broker_metrics import BrokerMetrics
from broker.configs.config_writes import ConfigWrites
from broker.configs.entity_configs import TAKEN_AT_ONCE, EntityConfigs
from broker.dispatch import Dispatch
from broker.gradual import MANY
from broker.large_requests import LargeRequests
from broker.message_classes import MessageClasses
from broker.network.client_session import ClientSession
from broker.network.connection import Connection
from broker.quotas.quota_entities import CLIENT_ID, QuotaEntity
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_table import QuotaTable
from broker.quotas.quotas import Quotas, QuotaWindows
from broker.requests import Request
from broker.services import ApiRange, Services
from protocol.codec import response_types
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.wire import encode_frame, request_entities

API_VERSIONS, ALTER_QUOTAS = 18, 49
ONCE_SEEN = 3


class World:
    """A dispatch that can answer ApiVersions."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.configs = EntityConfigs(MemoryMetadata(Random(1)))
        self.quotas = Quotas(
            QuotaTable(self.configs),
            windows=QuotaWindows(),
            metrics=QuotaMetrics(registry),
            clock=lambda: 0.0,
        )
        services = SimpleNamespace(
            quotas=self.quotas, advertised={API_VERSIONS: ApiRange(API_VERSIONS, 0, 4)}
        )
        self.dispatch = Dispatch(
            cast("Services", services), BrokerMetrics(registry), MessageClasses(), LargeRequests()
        )

    async def set(self, client_id: str, quotas: Mapping[str, str | None]) -> None:
        name = QuotaEntity.of([(CLIENT_ID, client_id)]).text
        entity = Entity(EntityKind.CLIENT_QUOTA, name)
        await self.configs.alter([EntityChange(entity=entity, changes=quotas)])

    async def calls(self) -> list[str]:
        """Return the files of all functions that are called for one request of client `test`."""
        frame = encode_frame(request_entities(API_VERSIONS, 2).ApiVersionsRequest(), 1)[4:]
        connection = SimpleNamespace(peer="", session=ClientSession())
        called: list[str] = []

        def note(at: FrameType, event: str, _: Any) -> None:
            if event == "call":
                called.append(Path(at.f_code.co_filename).name)

        for _ in range(ONCE_SEEN):  # what is made once and kept does not count
            called.clear()
            sys.setprofile(note)
            try:
                await self.dispatch.dispatch(
                    bytearray(frame), cast("Connection", connection), lambda: None
                )
            finally:
                sys.setprofile(None)
        return called

    async def calls_of_a_change(self, client_id: str) -> int:
        """Return how many functions are called when a quota is set."""
        count = 0

        def note(_: FrameType, event: str, __: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            await self.set(client_id, {"producer_byte_rate": "1"})
        finally:
            sys.setprofile(None)
        return count


@pytest.fixture
def world() -> Iterator[World]:
    """Return what counts calls; those that the garbage collector makes, of Hypothesis, are none."""
    gc.disable()
    yield World()
    gc.enable()


async def test_without_any_quota_nothing_of_them_is_called(world: World) -> None:
    assert "dispatch.py" in await world.calls()
    assert [name for name in await world.calls() if "quota" in name] == []


async def test_a_client_without_a_quota_costs_little_beside_one_that_has(world: World) -> None:
    # Given the calls of a request while nobody has a quota, and again after one was removed
    without = await world.calls()
    await world.set("else", {"producer_byte_rate": "1"})
    beside = await world.calls()
    await world.set("else", {"producer_byte_rate": None})

    # Then somebody else's quota is a look into a table
    assert len(beside) - len(without) <= 8
    assert len(await world.calls()) == len(without)


async def test_a_change_costs_the_same_whatever_else_is_set(world: World) -> None:
    await world.set("one", {"producer_byte_rate": "1"})
    beside_one = await world.calls_of_a_change("two")
    for number in range(100):
        await world.set(f"other-{number}", {"producer_byte_rate": "1"})
    assert await world.calls_of_a_change("three") <= beside_one + 10


async def test_a_change_of_thousands_gives_others_their_turns() -> None:
    # Given a request of as many entities as many turns have, and what wants to run meanwhile
    kinds = request_entities(ALTER_QUOTAS, 1)
    entries = tuple(
        kinds.EntryData(
            entity=(kinds.EntityData(entity_type="user", entity_name=f"user-{number}"),),
            ops=(kinds.OpData(key="request_percentage", value=1.0, remove=False),),
        )
        for number in range(20 * MANY)
    )
    body = kinds.AlterClientQuotasRequest(entries=entries, validate_only=False)
    configs = EntityConfigs(MemoryMetadata(Random(1)))
    table = QuotaTable(configs)
    request = SimpleNamespace(
        decode=lambda: body,
        types=response_types(ALTER_QUOTAS, 1),
        services=SimpleNamespace(entity_configs=configs, config_writes=ConfigWrites()),
    )
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())

    # When it is answered, then that had its turn while it was read, planned, taken and answered
    answer: Any = await handle(cast("Request", request))
    counting.cancel()
    assert len(answer.entries) == len(entries)
    assert len(table.entities) == len(entries)
    assert turns >= 3 * 20 + len(entries) // TAKEN_AT_ONCE
