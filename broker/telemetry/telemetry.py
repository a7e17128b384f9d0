"""Client metrics (KIP-714): which client pushes what, how often, and what becomes of it.

A subscription is a resource of configs (broker/telemetry/client_metrics_configs.py); any broker
answers any client, and all of them the same: what a client is asked for, and the id of that, follow
from its own id and from the configs. So nothing is kept but when a client came last, which is its
business with this broker alone.

A client that comes too early is told so, and waits for its interval; a push may follow the answer
to what it shall push at any time, because clients spread their first pushes. Apache Kafka takes the
interval to the millisecond; then a push that was on its way for long makes the next one too early,
and what is in that is lost, because clients do not send a delta twice. So some way is allowed for.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.configs.entity_configs import EntityConfigs
from broker.network.client_session import ClientSession
from broker.refusals import Refusal
from broker.telemetry.client_metrics_configs import MetricsSubscription, read_metrics_subscription
from broker.telemetry.telemetry_points import PushedMetrics, read_push
from broker.telemetry.telemetry_series import ClientSeries
from broker.telemetry.telemetry_wanted import Wanted, client_facts, kafka_text, wanted
from broker.turns import Turns
from protocol.compression import Codec
from protocol.errors import DecompressedTooLarge
from storage.metadata.entity_configs import EntityKind

COMPRESSIONS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""What a push may be compressed with, the one we like best first; it may also not be."""

MAX_CLIENTS: Final = 16_384
FORGOTTEN_S: Final = 60.0
ON_THE_WAY_S: Final = 1.0
"""How much earlier a client may come than its interval says; half of it at most."""

SMALL_BYTES: Final = 4096
"""A push of up to so many bytes is read at once; a larger one, or one that is compressed, because
few bytes of that may hold very many points, by a thread, for which connections take turns."""

_RESERVED: Final = (UUID(int=0), UUID(int=1))
_NEVER: Final = float("-inf")
_COMES_AGAIN: Final = (ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type)
"""A client that was told one of these asks at once what it shall push."""


@dataclass(slots=True, kw_only=True)
class _Client:
    """A client instance that this broker has heard of.

    Attributes:
        facts: by the keys that subscriptions match.
        wanted: by the configs of `version`.
        session: the connection it came by last.
        asked_s, pushed_s: when it did either last, by the clock.
        told: what it shall push, since it pushed last.
    """

    facts: Mapping[str, str]
    session: ClientSession
    wanted: Wanted
    version: int
    seen_s: float
    asked_s: float = _NEVER
    told: bool = False
    pushed_s: float = _NEVER
    last_error: ErrorCode = ErrorCode.none
    terminating: bool = False

    @property
    def interval_s(self) -> float:
        return self.wanted.interval_ms / 1000

    @property
    def least_s(self) -> float:
        """Return how long it shall wait at least."""
        return self.interval_s - min(self.interval_s / 2, ON_THE_WAY_S)


class Telemetry:
    """The clients that push metrics here.

    Args:
        max_bytes: telemetry.max.bytes, for a payload as sent and as decompressed.
        new_id: a random UUID.
        clock: seconds; only differences count.
    """

    def __init__(
        self,
        configs: EntityConfigs,
        series: ClientSeries,
        *,
        max_bytes: int,
        new_id: Callable[[], UUID],
        clock: Callable[[], float],
    ) -> None:
        self.max_bytes = max_bytes
        self._configs = configs
        self._series = series
        self._new_id = new_id
        self._clock = clock
        self._clients: OrderedDict[UUID, _Client] = OrderedDict()  # the last seen one last
        self._of_session: dict[ClientSession, set[UUID]] = {}
        self._subscriptions: Mapping[str, MetricsSubscription] = {}
        self._version = 0
        self._reading = Turns()  # one large payload in memory at a time
        self._loaded = False  # what reads them is, by the thread that does it first
        configs.watch(EntityKind.CLIENT_METRICS, self._subscribe)
        self._subscribe(())

    def ask(
        self, instance_id: UUID | None, client_id: str, peer: str, session: ClientSession
    ) -> tuple[UUID, Wanted]:
        """Return a client's id, a new one if it has none, and what it shall push.

        Args:
            instance_id: as it says; None if it has none yet.
            client_id: as it calls itself.
            peer: its address and port.
            session: its connection.

        Raises:
            Refusal: THROTTLING_QUOTA_EXCEEDED: it has been told, and shall push first.
        """
        if instance_id is None or not instance_id.int:
            instance_id = self._free_id()
        client = self._client(instance_id, client_id, peer, session)
        now_s = self._clock()
        early = now_s - max(client.asked_s, client.pushed_s) < client.least_s
        if early and client.last_error not in _COMES_AGAIN:
            raise Refusal(ErrorCode.throttling_quota_exceeded, "before its next push")
        client.asked_s = now_s
        client.told = True
        client.last_error = ErrorCode.none
        return instance_id, client.wanted

    async def push(
        self, pushed: PushedMetrics, client_id: str, peer: str, session: ClientSession
    ) -> None:
        """Take what a client pushes; the other arguments are those of `ask`.

        Raises:
            Refusal: INVALID_REQUEST (no client has that id, or it has said that it ends),
                THROTTLING_QUOTA_EXCEEDED (too early), UNKNOWN_SUBSCRIPTION_ID (it is asked for
                something else by now), UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE.
            InvalidRecords: the payload cannot be read.
        """
        if pushed.instance_id is None or pushed.instance_id in _RESERVED:
            raise Refusal(ErrorCode.invalid_request, "no client has this id")
        client = self._client(pushed.instance_id, client_id, peer, session)
        try:
            self._check(client, pushed)
            client.last_error = ErrorCode.none
            if pushed.payload and client.wanted.metrics:  # else it was asked for nothing
                await self._take(client, pushed, peer)
        except Refusal as refusal:
            client.last_error = refusal.code
            raise
        finally:
            client.terminating = pushed.terminating
            if pushed.terminating or session.ended:
                self._series.end(client.facts["client_instance_id"])

    def _check(self, client: _Client, pushed: PushedMetrics) -> None:
        """Refuse what is wrong with a push, in the order in which Apache Kafka looks."""
        if client.terminating:
            raise Refusal(ErrorCode.invalid_request, "it has said that it ends")
        now_s = self._clock()
        in_time = client.told or now_s - client.pushed_s >= client.least_s
        if in_time:
            client.pushed_s = now_s
            client.told = False
        elif not pushed.terminating:
            raise Refusal(ErrorCode.throttling_quota_exceeded, "before its next push")
        if pushed.subscription_id != client.wanted.subscription_id:
            raise Refusal(ErrorCode.unknown_subscription_id, str(pushed.subscription_id))
        if pushed.codec not in (Codec.NONE, *COMPRESSIONS):
            raise Refusal(ErrorCode.unsupported_compression_type, str(pushed.codec))
        if len(pushed.payload) > self.max_bytes:
            raise Refusal(ErrorCode.telemetry_too_large, f"{len(pushed.payload)} bytes")

    async def _take(self, client: _Client, pushed: PushedMetrics, peer: str) -> None:
        arguments = {"max_bytes": self.max_bytes, "max_points": self._series.max_points}
        try:
            small = pushed.codec == Codec.NONE and len(pushed.payload) <= SMALL_BYTES
            if small and self._loaded:
                push = read_push(pushed.codec, pushed.payload, **arguments)
            else:
                async with self._reading.of(peer):
                    push = await asyncio.to_thread(
                        read_push, pushed.codec, pushed.payload, **arguments
                    )
                self._loaded = True
        except DecompressedTooLarge as error:
            raise Refusal(ErrorCode.telemetry_too_large, str(error)) from error
        facts = client.facts
        self._series.take(facts["client_instance_id"], facts, push, interval_s=client.interval_s)

    def _client(
        self, instance_id: UUID, client_id: str, peer: str, session: ClientSession
    ) -> _Client:
        """Return what is known of a client, by the subscriptions as they are now."""
        now_s = self._clock()
        client = self._remove(instance_id)
        if client is not None and now_s - client.seen_s > max(FORGOTTEN_S, 3 * client.interval_s):
            client = None
        if client is None or client.version < self._version:
            facts = client.facts if client else client_facts(instance_id, client_id, peer, session)
            client = _Client(
                facts=facts,
                session=session,
                wanted=wanted(self._subscriptions.values(), facts, instance_id),
                version=self._version,
                seen_s=now_s,
            )
        client.seen_s = now_s
        client.session = session
        self._clients[instance_id] = client
        self._of_session.setdefault(session, set()).add(instance_id)
        if len(self._clients) > MAX_CLIENTS:
            self._remove(next(iter(self._clients)))
        session.at_end(self._ended)
        return client

    def _remove(self, instance_id: UUID) -> _Client | None:
        """Forget a client, also with its connection, which may name any number of them."""
        client = self._clients.pop(instance_id, None)
        if client is not None:
            self._of_session[client.session].remove(instance_id)
        return client

    def _ended(self, session: ClientSession) -> None:
        """Forget the clients that came by a connection last."""
        for instance_id in self._of_session.pop(session):
            client = self._clients.pop(instance_id)
            self._series.end(client.facts["client_instance_id"])

    def _free_id(self) -> UUID:
        """Return a new id; none begins with '-', which tools would take for an option."""
        while True:
            instance_id = self._new_id()
            text = kafka_text(instance_id)
            if not text.startswith("-") and instance_id not in self._clients:
                return instance_id

    def _subscribe(self, _: Iterable[str]) -> None:
        configs = self._configs.all(EntityKind.CLIENT_METRICS)
        self._subscriptions = {
            name: read_metrics_subscription(values) for name, values in configs.items()
        }
        self._version += 1
