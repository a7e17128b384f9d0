"""Who has used how much of which quota: buckets shared by the clients that share a quota.

A client is known for an hour after its last request, and at most MAX_CLIENTS are; a bucket lives as
long as a client that takes from it is known.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from broker.quotas.quota_buckets import TokenBucket

IDLE_S: Final = 3600.0
MAX_CLIENTS: Final = 10_000

Key = TypeVar("Key")
Value = TypeVar("Value")


class Sensor:
    """One bucket, and what its quota has cost those who share it.

    Attributes:
        quota: its key.
        user, client_id: of those who share it; empty where that makes no difference.
        violations: answers that told to wait, or refused something.
        throttled_s: for how long they told to wait, added up.
    """

    __slots__ = (
        "__weakref__",
        "bucket",
        "client_id",
        "quota",
        "throttled_s",
        "user",
        "violations",
    )

    def __init__(self, bucket: TokenBucket, *, quota: str, user: str, client_id: str) -> None:
        self.bucket = bucket
        self.quota = quota
        self.user = user
        self.client_id = client_id
        self.violations = 0
        self.throttled_s = 0.0

    def violated(self, wait_s: float) -> None:
        """Take note of a violation."""
        self.violations += 1
        self.throttled_s += wait_s


class Sensors:
    """All that are in use, by quota and by who shares it."""

    def __init__(self) -> None:
        self._sensors: WeakValueDictionary[tuple[str, str, str], Sensor] = WeakValueDictionary()

    def get(
        self,
        quota: str,
        user: str,
        client_id: str,
        *,
        rate: float,
        burst_s: float,
        forgets: bool,
        now_s: float,
    ) -> Sensor:
        """Return the one that these share, with the rate that their quota has now."""
        sensor = self._sensors.get((quota, user, client_id))
        if sensor is None:
            bucket = TokenBucket(rate, burst_s=burst_s, now_s=now_s, forgets=forgets)
            sensor = Sensor(bucket, quota=quota, user=user, client_id=client_id)
            self._sensors[quota, user, client_id] = sensor
        elif sensor.bucket.rate != rate:
            sensor.bucket.change_rate(rate, now_s)
        return sensor

    def all(self) -> Iterable[Sensor]:
        return tuple(self._sensors.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotas:
    """What limits one client; None where nothing does.

    Attributes:
        version: of the quotas that this was made of.
        limited: whether anything does.
    """

    version: int
    produce: Sensor | None
    fetch: Sensor | None
    request: Sensor | None
    mutation: Sensor | None
    limited: bool


class RecentlyUsed(Generic[Key, Value]):
    """What was used within IDLE_S, at most `limit` of it; the least recently used goes first."""

    def __init__(self, limit: int = MAX_CLIENTS) -> None:
        self._limit = limit
        self._entries: OrderedDict[Key, tuple[Value, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def use(self, key: Key, now_s: float) -> Value | None:
        """Return what is there under that key, which is not idle then."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self.keep(key, entry[0], now_s)
        return entry[0]

    def keep(self, key: Key, value: Value, now_s: float) -> None:
        """Put `value` under that key; forget what is idle, and what is too much."""
        self._entries[key] = value, now_s
        self._entries.move_to_end(key)
        self.expire(now_s)

    def expire(self, now_s: float) -> None:
        while self._entries:
            key, (_, used_s) = next(iter(self._entries.items()))
            if len(self._entries) <= self._limit and now_s - used_s <= IDLE_S:
                return
            del self._entries[key]

    def clear(self) -> None:
        self._entries.clear()
