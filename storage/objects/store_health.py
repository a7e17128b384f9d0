"""How an object store is doing, from what its last answers were.

ok           it answers in time
slow         it answers, but some requests failed, or took longer than a healthy store needs
throttled    it asks for fewer requests (503 SlowDown, 429)
unavailable  the last PUTs, or the last GETs, failed, one after the other

A store that is full, or may not be written, still answers GETs. So each verb counts for itself.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from storage.config import MiB

WINDOW_S: Final = 10.0
WINDOW_REQUESTS: Final = 256
SLOW_S: Final = 1.0  # besides what the bytes take
SLOW_BYTES_PER_S: Final = 4 * MiB
SLOW_SHARE: Final = 0.1
UNAVAILABLE_FAILURES: Final = 3

WRITES_S: Final = 60.0
"""So long PUTs count that failed. Who checks the store asks it with a GET; the next PUT may never
come, as clients produce elsewhere while this broker is not ready."""


class StoreState(StrEnum):
    """In the order of what an operator has to fear."""

    OK = "ok"
    SLOW = "slow"
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"


class _Outcome(StrEnum):
    FINE = "fine"
    LATE = "late"
    THROTTLED = "throttled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class _Answer:
    at_s: float
    outcome: _Outcome


class StoreHealth:
    """Remembers the outcomes of single tries of PUT and GET for a little while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._answers: deque[_Answer] = deque(maxlen=WINDOW_REQUESTS)
        self._failures: Counter[str] = Counter()  # by verb: one after the other, up to now
        self._failed_at_s: dict[str, float] = {}

    def answered(self, verb: str, took_s: float, size: int) -> None:
        """Take note of an answer to a PUT or GET: the bytes, or that there are none."""
        self._failures[verb] = 0
        late = took_s > SLOW_S + size / SLOW_BYTES_PER_S
        self._note(_Outcome.LATE if late else _Outcome.FINE)

    def throttled(self, verb: str) -> None:
        """Take note that the store asked for fewer requests; so it is there."""
        self._failures[verb] = 0
        self._note(_Outcome.THROTTLED)

    def failed(self, verb: str) -> None:
        """Take note that there was no answer, or one that says the store cannot be used."""
        self._failures[verb] += 1
        self._failed_at_s[verb] = self._clock()
        self._note(_Outcome.FAILED)

    @property
    def state(self) -> StoreState:
        """What the last WINDOW_S tell; nothing asked is ok, unless what was asked last failed."""
        if any(self._fails(verb) for verb in self._failures):
            return StoreState.UNAVAILABLE
        since_s = self._clock() - WINDOW_S
        recent = [one.outcome for one in self._answers if one.at_s >= since_s]
        if _Outcome.THROTTLED in recent:
            return StoreState.THROTTLED
        poor = sum(outcome is not _Outcome.FINE for outcome in recent)
        if poor and poor >= SLOW_SHARE * len(recent):
            return StoreState.SLOW
        return StoreState.OK

    def _fails(self, verb: str) -> bool:
        if self._failures[verb] < UNAVAILABLE_FAILURES:
            return False
        return verb != "PUT" or self._clock() < self._failed_at_s[verb] + WRITES_S

    def _note(self, outcome: _Outcome) -> None:
        self._answers.append(_Answer(self._clock(), outcome))
