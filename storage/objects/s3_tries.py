"""One verb of an S3 store, tried until it succeeds, fails for good, or its deadline is there.

Every try has a place (storage/objects/flow_limit.py), and what becomes of it is noted: a store that
asks for fewer requests gets fewer, from all callers together, and how it is doing is known
(storage/objects/store_health.py).

The first try has a time that grows with its size: now and then a connection is slow where others
are not, and another one is the cure. Where the whole link is, the next would be as late. So later
tries go on for as long as their bytes do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import structlog

from storage.backoff import Backoff
from storage.config import MiB
from storage.errors import BadObject, ObjectConflict, ObjectStoreUnavailable
from storage.objects.flow_limit import FlowLimit
from storage.objects.s3_errors import S3_ERRORS, describe, is_throttle, is_transient
from storage.objects.store_traffic import StoreTraffic

FIRST_ANSWER_S: Final = 2.0  # few healthy answers take longer; a new connection is then faster
SLOW_BYTES_PER_S: Final = 2 * MiB
_READS: Final = ("GET", "LIST")
_WATCHED: Final = ("GET", "PUT")  # what clients wait for

Result = TypeVar("Result")
Moved = Callable[[], None]
"""What a try calls whenever bytes have gone to the store, or come from it."""

log = structlog.get_logger()


class S3Tries:
    """The tries of all calls of one store."""

    def __init__(self, deadline_s: float, traffic: StoreTraffic) -> None:
        self._deadline_s = deadline_s
        self._traffic = traffic

    async def run(
        self, verb: str, url: str, size: int, attempt: Callable[[Moved], Awaitable[Result]]
    ) -> Result:
        """Return what the first try that succeeds returns.

        Args:
            verb: GET, PUT, LIST or DELETE.
            url: of the object, for messages.
            size: bytes that go to and fro; a try, and all of them together, have the more time.
                The deadline does not end one whose bytes move.
            attempt: one try.

        Raises:
            ObjectStoreUnavailable: none did in time, or what is wrong does not pass.
            ObjectConflict, BadObject: as `attempt`.
        """
        failure: Exception | None = None
        patience_s = FIRST_ANSWER_S + size / SLOW_BYTES_PER_S
        places = self._traffic.gets if verb in _READS else self._traffic.puts
        deadline_s = self._deadline_s + size / SLOW_BYTES_PER_S
        backoff = Backoff()
        try:
            async with asyncio.timeout(deadline_s) as deadline:
                ends_at_s = deadline.when()
                while True:
                    async with places.place() as number:
                        began_s = self._traffic.clock()
                        try:
                            async with asyncio.timeout(patience_s) as patience:
                                go_on = partial(_go_on, patience, patience_s, deadline)
                                result = await attempt(go_on if failure else _no_matter)
                        except S3_ERRORS as error:
                            failure, reason = error, describe(error)
                            self._failed(verb, error, places, number)
                        except (ObjectConflict, BadObject):
                            self._answered(verb, began_s, 0, places)
                            raise
                        else:
                            self._answered(verb, began_s, size, places)
                            return result
                    if not is_transient(failure):
                        break
                    log.debug("asking the object store again", verb=verb, url=url, reason=reason)
                    patience_s *= 2
                    deadline.reschedule(ends_at_s)
                    await backoff.wait()
        except TimeoutError as late:
            failure = failure or late
            reason = f"nothing in {deadline_s:g} s; last: {describe(failure)}"
        raise ObjectStoreUnavailable(f"{verb} {url}: {reason}") from failure

    def _answered(self, verb: str, began_s: float, size: int, places: FlowLimit) -> None:
        places.answered()
        if verb in _WATCHED:
            self._traffic.health.answered(verb, self._traffic.clock() - began_s, size)

    def _failed(self, verb: str, error: Exception, places: FlowLimit, number: int) -> None:
        if is_throttle(error):
            places.refused(number)
            self._traffic.health.throttled(verb)
        elif verb in _WATCHED:
            self._traffic.health.failed(verb)


def _no_matter() -> None:
    """Hear of bytes that have moved, and let a try have its time."""


def _go_on(patience: asyncio.Timeout, patience_s: float, deadline: asyncio.Timeout) -> None:
    """Let a try whose bytes have moved have its time once more, and no deadline."""
    with suppress(RuntimeError):  # that try is over, and what sent its bytes has not heard of it
        patience.reschedule(asyncio.get_running_loop().time() + patience_s)
        deadline.reschedule(None)
