"""Stores that fail at one of their calls: a crash of the caller, or an answer that never comes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import wraps

from storage.errors import StorageError


class Crash(BaseException):
    """The process is gone: nothing that handles errors in it sees this."""


class Fault(Enum):
    """What happens at a call."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    NO_ANSWER = "it happens, but the answer is lost"
    NOTHING_DONE = "it does not happen, and there is no answer"


class Faults:
    """Lets one call of all that go through it fail: the one after `at` others."""

    def __init__(self, fault: Fault | None, at: int) -> None:
        self.happened = False
        self._fault = fault
        self._left = at

    def wrap(self, target: object, unavailable: type[StorageError]) -> object:
        """Return `target` with all its coroutines behind this."""
        return _Faulty(target, self, unavailable)

    def take(self) -> Fault | None:
        self._left -= 1
        if self._left != -1:
            return None
        self.happened = True
        return self._fault


@dataclass(frozen=True, slots=True)
class _Faulty:
    target: object
    faults: Faults
    unavailable: type[StorageError]

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        call = getattr(self.target, name)

        @wraps(call)
        async def faulty(*arguments: object, **named: object) -> object:
            fault = self.faults.take()
            if fault is Fault.CRASH_BEFORE:
                raise Crash
            if fault is Fault.NOTHING_DONE:
                raise self.unavailable(name)
            result = await call(*arguments, **named)
            if fault is Fault.CRASH_AFTER:
                raise Crash
            if fault is Fault.NO_ANSWER:
                raise self.unavailable(name)
            return result

        return faulty
