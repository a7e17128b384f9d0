"""A connection to Postgres that is kept between questions, for whoever asks many and one at a time.

It runs an event loop only while it is asked. An outage is waited out for PATIENCE_S.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from storage.backoff import Backoff
from storage.config import PostgresConfig
from storage.errors import MetadataUnavailable, MetadataWentBack, PostgresNotTrusted
from storage.postgres.postgres_connection import Connection, connect, unavailable_without_answer

PATIENCE_S: Final = 60.0

T = TypeVar("T")
log = logging.getLogger(__name__)


class KeptConnection:
    """Made at the first question, and again after it was lost; never pickled.

    Args:
        postgres: DSN.
    """

    def __init__(self, postgres: str) -> None:
        self._postgres = postgres
        self._runner = asyncio.Runner()
        self._connection: Connection | None = None

    async def get(self) -> Connection:
        """Return the connection, for an action that is run here.

        Raises:
            MetadataUnavailable: there is none to be had.
        """
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._postgres, PostgresConfig())
        return self._connection

    def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """Run an action that only reads; repeat it while Postgres gives no answer.

        Raises:
            MetadataUnavailable: it gave none for PATIENCE_S.
            MetadataWentBack: the action has found that.
        """
        return self._runner.run(self._patiently(action))

    def run_once(self, action: Callable[[], Awaitable[T]]) -> T:
        """Run an action.

        Raises:
            MetadataUnavailable: Postgres gave no answer; nobody knows what was done.
        """
        return self._runner.run(self._once(action))

    def close(self) -> None:
        """Close it, without a word to the server: it may be gone."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
        self._runner.close()

    async def _patiently(self, action: Callable[[], Awaitable[T]]) -> T:
        give_up = time.monotonic() + PATIENCE_S
        backoff = Backoff()
        while True:
            try:
                return await self._once(action)
            except (MetadataWentBack, PostgresNotTrusted):
                raise
            except MetadataUnavailable as error:
                if time.monotonic() >= give_up:
                    raise
                log.warning("no answer from Postgres, trying again: %s", error)
                await backoff.wait()

    async def _once(self, action: Callable[[], Awaitable[T]]) -> T:
        try:
            with unavailable_without_answer():
                return await action()
        except MetadataUnavailable:
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
            raise
