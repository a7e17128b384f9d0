"""What one request takes of its client's quotas, and what that does to its connection (KIP-219).

Over a quota, the answer goes out at once and tells how long the connection is muted: nothing that
it has sent is begun, and no more is read, until then. Produce is counted when it begins, so that
none of the requests behind it slips through while its records are on their way; Fetch when its
answer is there, which stays empty while anything is owed.

A change of quotas lets all connections go on; what began before it is counted still, and makes
nobody wait any more: the quota that it counts towards may be gone.

request_percentage counts the time of this broker's event loop that a request's handler and the
encoding of its answer take; 100 % is one core, which is all that one broker process has. What they
wait for, and what receiving and sending cost, does not count.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.network.answer_when import Answer
from broker.network.client_session import ClientSession
from broker.quotas.quota_meter import Metered
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_sensors import ClientQuotas, Sensor
from broker.refusals import Refusal
from protocol.codec import RequestHeader
from protocol.throttle_time import put_throttle_time, throttle_time


class Throttled(Protocol):
    """The connection that a request came on."""

    session: ClientSession

    def mute(self, wait_s: float) -> None:
        """Begin and read nothing for that long."""

    def read_one_ahead(self) -> None:
        """Read no further request while one waits to begin: it may wait long, in our memory."""

    def muted_ms(self) -> int:
        """Return for how much longer it is muted."""


@dataclass(slots=True, kw_only=True)
class QuotasInForce:
    """What all uses have in common.

    Attributes:
        version: of the quotas; it grows with every change.
        longest_s: that a request quota mutes for at a time.
        clock: in seconds; it never goes backwards.
    """

    version: int
    longest_s: float
    clock: Callable[[], float]
    metrics: QuotaMetrics


class QuotaUse:
    """The account of one request; made only if something limits its client."""

    __slots__ = ("_api", "_client", "_connection", "_in_force", "_seconds")

    def __init__(
        self,
        client: ClientQuotas,
        connection: Throttled,
        *,
        api: str,
        request_bytes: int,
        in_force: QuotasInForce,
    ) -> None:
        self._client = client
        self._connection = connection
        self._api = api
        self._in_force = in_force
        self._seconds = 0.0
        connection.read_one_ahead()
        if api == "produce" and client.produce is not None:
            self._take(client.produce, request_bytes)

    # --- what handlers call

    def fetchable_bytes(self, max_bytes: int) -> int:
        """Return how many bytes a Fetch may ask for: half of what can be saved up.

        It may owe most of them afterwards, and all who share the quota wait for that.
        """
        fetch = self._client.fetch
        return max_bytes if fetch is None else min(max_bytes, int(fetch.bucket.capacity / 2) + 1)

    def refuses_fetch(self, size: int = 0) -> bool:
        """Count `size` bytes of records; true if something is owed: they must not be sent.

        Who owes nothing gets what there is, and owes it then: a batch may be more than can ever be
        saved up, or more than others who share the quota leave to save.
        """
        fetch = self._client.fetch
        if fetch is None:
            return False
        wait_s = self._wait_s(fetch)
        if wait_s:
            self._mute(fetch, wait_s)
            return True
        self._take(fetch, size)
        return False

    def mutate(self, count: int, *, strict: bool) -> None:
        """Count partitions that are created or deleted, or are only asked about (KIP-599).

        Raises:
            Refusal: THROTTLING_QUOTA_EXCEEDED, where the client knows this code (`strict`).
        """
        mutation = self._client.mutation
        if mutation is None:
            return
        wait_s = self._wait_s(mutation)
        if strict and wait_s:
            self._mute(mutation, wait_s)
            code = ErrorCode.throttling_quota_exceeded
            raise Refusal(code, "The throttling quota has been exceeded.")
        self._take(mutation, count, mutes=not strict)

    # --- what dispatch calls

    def metered(self, work: Awaitable[Any]) -> Awaitable[Any]:
        """Return `work` with its time on the event loop counted."""
        if self._client.request is None or not isinstance(work, Coroutine):
            return work
        return Metered(work, self._spent)

    def throttled(self, header: RequestHeader, result: Payload | Answer) -> Payload | Answer:
        """Return a response, or an answer, with the throttle time that its connection has now."""
        request = self._client.request
        if request is not None:
            self._take(request, self._seconds, longest_s=self._in_force.longest_s)
        throttle_ms = self._connection.muted_ms()
        if throttle_ms:
            self._in_force.metrics.throttled(self._api, throttle_ms / 1000)
        if result is None or isinstance(result, bytes | list | tuple):
            if not throttle_ms or result is None:
                return result
            return put_throttle_time(header.api_key, header.api_version, result, throttle_ms)
        response = cast("Any", result)
        if throttle_ms and hasattr(response, "throttle_time"):
            response = replace(response, throttle_time=throttle_time(throttle_ms))
        return cast("Payload", response)

    def encoding(self, work: Coroutine[Any, Any, bytes]) -> Awaitable[bytes]:
        """Return `work`, which encodes a response, with its time on the event loop counted."""
        request, clock = self._client.request, self._in_force.clock
        if request is None:
            return work

        def spent(seconds: float) -> None:
            request.bucket.take(seconds, clock())

        return Metered(work, spent)

    def _spent(self, seconds: float) -> None:
        self._seconds += seconds

    def _take(
        self, sensor: Sensor, amount: float, *, mutes: bool = True, longest_s: float | None = None
    ) -> None:
        wait_s = sensor.bucket.take(amount, self._in_force.clock())
        if wait_s and mutes and self._counts:
            self._mute(sensor, wait_s if longest_s is None else min(wait_s, longest_s))

    def _wait_s(self, sensor: Sensor) -> float:
        """Return what is to be waited for before anything more is taken."""
        return sensor.bucket.wait_s(self._in_force.clock()) if self._counts else 0.0

    @property
    def _counts(self) -> bool:
        """Whether anybody waits for this: not if quotas have changed since it began."""
        return self._client.version == self._in_force.version

    def _mute(self, sensor: Sensor, wait_s: float) -> None:
        sensor.violated(wait_s)
        self._connection.mute(wait_s)
