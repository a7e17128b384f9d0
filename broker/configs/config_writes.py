"""Changes that follow from what is set already, by many at a time (compare and set).

A change says what it rests on, and the metadata store does not make it if something else is set by
then. So it is made of what is set now, checks and all, and written again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from storage.errors import ConfigsChanged

TRIES: Final = 20
"""Of a change in its turn: others can come between on other brokers only, or for the first time."""

T = TypeVar("T")


class ConfigWrites:
    """Lets changes of this broker that got in each other's way go on one after the other."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, change: Callable[[], Awaitable[T]]) -> T:
        """Read, change and write: `change` does all of that, again and again if need be.

        Raises:
            ConfigsChanged: others were faster each time; nothing was changed.
        """
        with suppress(ConfigsChanged):
            return await change()
        async with self._turn:
            for _ in range(TRIES - 1):
                with suppress(ConfigsChanged):
                    return await change()
            return await change()
