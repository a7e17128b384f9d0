"""What fails again and again while Postgres is away, without filling the log."""

import asyncio
from typing import Final

WARN_AGAIN_S: Final = 60.0


class Outage:
    """Whether to warn of a failure: of the first one, and once a minute while that lasts."""

    def __init__(self) -> None:
        self._warned_s = float("-inf")

    def take_warning(self) -> bool:
        """Return whether this failure is to be told; then the next ones are not for a while."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._warned_s < WARN_AGAIN_S:
            return False
        self._warned_s = now_s
        return True

    def end(self) -> None:
        """There was an answer: the next failure is the first one of another outage."""
        self._warned_s = float("-inf")
