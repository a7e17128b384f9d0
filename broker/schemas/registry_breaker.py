"""The circuit breaker of one schema registry: who may ask it while it fails.

It is lost when it cannot be reached, does not answer in time, or gives no usable answer to several
different requests in a row. One request at a time then finds out whether it answers again, the
others pass it by: clients repeat what was refused, and each must not wait for a timeout. It may be
a matter of what was asked for, so other requests than those go first. An unusable answer alone says
nothing of others: only that request fails.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

RETRY_S: Final = 1.0
RETRY_SAME_S: Final = 3 * RETRY_S
"""For a request that has failed: another one finds out sooner."""

FAILED_IN_A_ROW: Final = 3
"""Different paths; one schema's id has two, so that it alone is not enough."""

LOG_S: Final = 60.0
"""Between two log lines of answers that cannot be used."""

_MAX_PATHS: Final = 100

log = structlog.get_logger()


class RegistryBreaker:
    """Passes requests to the registry at `url`, or tells in `failure` why it is lost."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.failure = ""
        self._failed_paths: deque[str] = deque(maxlen=_MAX_PATHS)  # until they are answered
        self._in_a_row: set[str] = set()
        self._failed_s = self._logged_s = float("-inf")
        self._probing = False

    def may_ask(self, path: str) -> bool:
        """Return whether GET `path` may be sent now."""
        if not self.failure:
            return True
        wait_s = RETRY_SAME_S if path in self._failed_paths else RETRY_S
        return not self._probing and _now_s() >= self._failed_s + wait_s

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Keep others away meanwhile if it is lost."""
        probe = bool(self.failure)
        self._probing = self._probing or probe
        try:
            yield
        finally:
            if probe:
                self._probing = False

    def failed(self, path: str, reason: str, *, unreached: bool) -> None:
        """Take note of an answer that cannot be used, or that none came (`unreached`)."""
        self._failed_s = _now_s()
        if path not in self._failed_paths:
            self._failed_paths.append(path)
        if len(self._in_a_row) < FAILED_IN_A_ROW:
            self._in_a_row.add(path)
        if self.failure or unreached or len(self._in_a_row) >= FAILED_IN_A_ROW:
            if not self.failure:
                log.warning("schema registry does not answer", reason=reason)
            self.failure = reason
        elif self._failed_s >= self._logged_s + LOG_S:
            self._logged_s = self._failed_s
            log.warning("schema registry answers what cannot be used", reason=reason)

    def answered(self, path: str) -> None:
        """Take note of an answer."""
        self._in_a_row.clear()
        if path in self._failed_paths:
            self._failed_paths.remove(path)
        if self.failure:
            log.info("schema registry answers again", url=self.url)
            self.failure = ""


def _now_s() -> float:
    return asyncio.get_running_loop().time()
