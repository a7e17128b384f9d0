"""A database that was set back: a broker that sees it says so there, and then none goes on with it.

A broker sees it only of logs that it knows (storage/known_ends.py). One that does not know them
would take them over, and give the offsets of acknowledged records away again; so would the one that
has seen it, once it has ended and knows nothing any more. The object store does not always tell
(storage/fsck/index_age.py), and no more than that once the logs have grown again. So there is a
mark, in that very database: one that takes its place, as it should be, does not have it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from broker.configs.entity_configs import EntityConfigs
from broker.start_failures import innermost
from storage.backoff import Backoff
from storage.errors import MetadataUnavailable, MetadataWentBack
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind

MARK_S: Final = 15.0
"""Nobody waits for a broker that ends, and when it is started anew the database has to know."""

_DATABASE: Final = Entity(EntityKind.DATABASE, "")
_WENT_BACK: Final = "went.back"

log = structlog.get_logger()


class SetBack:
    """The mark, as far as this broker cares.

    Args:
        accepted: the operator lets those records go: nothing is marked, and no mark counts.
    """

    def __init__(self, configs: EntityConfigs, *, accepted: bool) -> None:
        self._configs = configs
        self._accepted = accepted
        self._marked = asyncio.Event()
        configs.watch(EntityKind.DATABASE, lambda _: self._marked.set())

    async def begin(self) -> None:
        """Do not begin on a database that is marked; take the mark away if that is accepted.

        Raises:
            MetadataWentBack: it is marked.
            MetadataUnavailable: no answer; retrying is safe.
        """
        if not self._accepted:
            self._check()
            return
        await self._configs.refresh()  # an answer to what has taken it away may not have come
        if self._told():
            log.warning("going on without what the database has forgotten", reason=self._told())
            await self._configs.alter([EntityChange(entity=_DATABASE, changes={_WENT_BACK: None})])

    async def follow(self) -> None:
        """Wait until cancelled.

        Raises:
            MetadataWentBack: another broker has seen it.
        """
        while True:
            await self._marked.wait()
            self._marked.clear()
            if not self._accepted:
                self._check()

    @asynccontextmanager
    async def marking(self) -> AsyncIterator[None]:
        """Mark the database if what runs in here ends because it has gone back."""
        try:
            yield
        except ExceptionGroup as failures:
            seen = failures.subgroup(MetadataWentBack)
            if seen is not None and not self._accepted and not self._told():
                await self._mark(str(innermost(seen)))
            raise

    async def _mark(self, reason: str) -> None:
        change = EntityChange(entity=_DATABASE, changes={_WENT_BACK: reason})
        try:
            async with asyncio.timeout(MARK_S):
                await self._insist(change)
        except TimeoutError:
            log.warning("the other brokers do not know of it", reason="Postgres gives no answer")

    async def _insist(self, change: EntityChange) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._configs.alter([change])
            except MetadataUnavailable:
                await backoff.wait()
            else:
                return

    def _check(self) -> None:
        if told := self._told():
            raise MetadataWentBack(told)

    def _told(self) -> str:
        return self._configs.get(_DATABASE.kind, _DATABASE.name).get(_WENT_BACK, "")
