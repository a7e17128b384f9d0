"""How long a coroutine keeps the event loop: the time of its steps, not of its waiting."""

from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from types import TracebackType
from typing import Any


class Metered(Generator[Any, Any, Any]):
    """Awaited in place of a coroutine, it runs that one and tells the seconds of each step."""

    __slots__ = ("_spent", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], spent: Callable[[float], None]) -> None:
        self._work = work
        self._spent = spent

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def send(self, value: Any) -> Any:
        began_s = perf_counter()
        try:
            return self._work.send(value)
        finally:
            self._spent(perf_counter() - began_s)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        error: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        began_s = perf_counter()
        try:
            return self._work.throw(error if isinstance(error, BaseException) else kind)
        finally:
            self._spent(perf_counter() - began_s)

    def close(self) -> None:
        self._work.close()
