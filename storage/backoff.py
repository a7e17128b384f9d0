"""Waiting between tries: exponential with full jitter, so that clients of a sick server spread."""

import asyncio
import random
from typing import Final

FIRST_S: Final = 0.02
MOST_S: Final = 1.0


class Backoff:
    """One sequence of tries."""

    def __init__(self, first_s: float = FIRST_S, most_s: float = MOST_S) -> None:
        self._ceiling_s = first_s
        self._most_s = most_s

    async def wait(self) -> None:
        await asyncio.sleep(random.uniform(0, self._ceiling_s))  # noqa: S311 (not a secret)
        self._ceiling_s = min(self._ceiling_s * 2, self._most_s)
