"""Copies of what Postgres says, brought up to date once for all that a request names."""

import asyncio

from broker.configs.entity_configs import EntityConfigs
from broker.topics import Topics


class FreshCopies:
    """Those of one request."""

    def __init__(self) -> None:
        self._refreshing: dict[Topics | EntityConfigs, asyncio.Task[None]] = {}

    async def refresh(self, copy: Topics | EntityConfigs) -> None:
        """Bring a copy up to date, once for all resources: other brokers may have altered it.

        Raises:
            MetadataUnavailable: no answer, nor for resources before this one.
        """
        if copy not in self._refreshing:
            self._refreshing[copy] = asyncio.create_task(copy.refresh())
        await self._refreshing[copy]

    def forget(self) -> None:
        """Take no copy for up to date any more: something else is set than it says."""
        self._refreshing.clear()
