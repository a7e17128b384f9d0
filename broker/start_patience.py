"""A start that waits for its Postgres: one that starts at the same time, or restarts meanwhile."""

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from storage.backoff import Backoff
from storage.errors import (
    MetadataUnavailable,
    MetadataWentBack,
    PostgresNotTrusted,
    PostgresRefused,
)

POSTGRES_START_S: Final = 60
WAITING_AGAIN_S: Final = 10.0
HOPELESS: Final = (MetadataWentBack, PostgresNotTrusted, PostgresRefused)

Answer = TypeVar("Answer")

log = structlog.get_logger()


class StartPatience:
    """Asks again what has no answer, for POSTGRES_START_S from when this was made.

    Args:
        database: what operators call it.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._deadline_s = time.monotonic() + POSTGRES_START_S
        self._told_s = float("-inf")

    async def ask(self, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to a question that may be asked again.

        Raises:
            MetadataUnavailable: there was none, or waiting does not mend why nobody is let in.
        """
        backoff = Backoff(most_s=5.0)
        while True:
            try:
                return await question()
            except MetadataUnavailable as error:
                hopeless = isinstance(error, HOPELESS)
                if hopeless or time.monotonic() > self._deadline_s:
                    raise type(error)(f"{self._database}: {error}") from error
                self._tell(error)
                await backoff.wait()

    def _tell(self, error: MetadataUnavailable) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= WAITING_AGAIN_S:
            self._told_s = now_s
            log.warning(
                "waiting for postgres",
                postgres=self._database,
                set_by="--postgres",
                reason=str(error),
                gives_up_in_s=round(self._deadline_s - now_s),
            )
