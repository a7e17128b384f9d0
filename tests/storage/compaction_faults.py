"""Compactors whose process ends, or is held, at some call of its ports."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from storage.metadata.port import MetadataStore
from storage.objects.port import ObjectStore
from storage.upkeep.compaction import Compactor
from tests.storage.compaction_world import World


class Cut(Exception):
    """The process has ended here."""


class _Fault(Protocol):
    async def before(self) -> None: ...
    async def after(self) -> None: ...


class _Port:
    """Tells a fault of each call, before and after it has happened."""

    def __init__(self, port: object, fault: _Fault) -> None:
        self._port = port
        self._fault = fault

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._port, name)

        async def told(*arguments: object, **named: object) -> object:
            await self._fault.before()
            result = await call(*arguments, **named)
            await self._fault.after()
            return result

        return told


class _Ending:
    def __init__(self, moments: int) -> None:
        self._moments = moments

    async def before(self) -> None:
        self._moments -= 1
        if self._moments == 0:
            raise Cut

    after = before


def crashing_compactor(world: World, moments: int) -> Compactor:
    """Return one whose process ends at some moment; each call has two, before and after it."""
    return _compactor(world, _Ending(moments))


class HeldCompactor:
    """One that is held before the n-th call of its ports."""

    def __init__(self, world: World, calls: int) -> None:
        self.compactor = _compactor(world, self)
        self._calls = calls
        self._reached = asyncio.Event()
        self._released = asyncio.Event()

    async def reached_or(self, task: "asyncio.Task[int]") -> None:
        """Wait until it is held, or has come to its end."""
        reached = asyncio.create_task(self._reached.wait())
        await asyncio.wait([task, reached], return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()

    def go_on(self) -> None:
        self._released.set()

    async def before(self) -> None:
        self._calls -= 1
        if self._calls == 0:
            self._reached.set()
            await self._released.wait()

    async def after(self) -> None:
        """Nothing: it is held before a call."""


def _compactor(world: World, fault: _Fault) -> Compactor:
    return world.compactor(
        metadata=cast("MetadataStore", _Port(world.metadata, fault)),
        objects=cast("ObjectStore", _Port(world.objects, fault)),
    )
