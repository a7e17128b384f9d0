"""Clients' own metrics as this broker exports them: the last value of each series, within bounds.

A counter comes in deltas, which are added up here; so a client that goes over to another broker
begins anew there, as Prometheus expects of a counter. The series of a client are gone when it has
not pushed for twice its interval, and of one that has ended at once; but the last values can be
scraped for a minute in any case.

A connection, which may name any number of clients, has no more room than one client.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client import Counter as CounterMetric

from broker.http.exposition import Family, label_text
from broker.http.metrics_config import MetricsConfig
from broker.telemetry.telemetry_points import CLIENT_LABELS, Point, Push

KEPT_S: Final = 60.0
INTERVALS: Final = 2
SWEEP_S: Final = 1.0

_TEXT: Final = "Pushed by clients (KIP-714)."
_INFO: Final = "streamhouse_client_info"
_INFO_ATTRIBUTES: Final = ("client_rack", "group_id", "group_instance_id", "transactional_id")


@dataclass(slots=True, kw_only=True)
class _Client:
    """The series of one client.

    Attributes:
        labels: that all of them have.
        peer: address and port of the connection that it came by first.
        info: labels that tell more of it.
        values: by name, whether it is a counter, and by the rest of the labels.
    """

    labels: str
    peer: str
    info: str
    expires_s: float
    series: int = 0
    values: dict[tuple[str, bool], dict[str, float]] = field(default_factory=dict)


class ClientSeries:
    """The series of all clients.

    Args:
        clock: seconds; only differences count.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        config: MetricsConfig,
        clock: Callable[[], float],
    ) -> None:
        self._max_series = config.client_max_series
        self._max_series_each = config.client_max_series_each
        self._clock = clock
        self._clients: dict[str, _Client] = {}
        self._series = 0
        self._series_of: Counter[str] = Counter()  # by peer
        self._swept_s = clock()
        self._left_out = CounterMetric(
            "streamhouse_client_points_left_out",
            "Points that clients pushed and that are not exported.",
            registry=registry,
        )
        exported = Gauge(
            "streamhouse_client_series",
            "Series that clients have pushed.",
            registry=registry,
        )
        exported.set_function(lambda: self._series)

    @property
    def max_points(self) -> int:
        """Return how many points of one push can be of use."""
        return self._max_series_each

    def take(
        self, instance_id: str, facts: Mapping[str, str], push: Push, *, interval_s: float
    ) -> None:
        """Take what a client pushed.

        Args:
            instance_id: as operators see it.
            facts: of the client, by the keys that subscriptions match.
            push: its points.
            interval_s: after which it will push again.
        """
        now_s = self._clock()
        if now_s - self._swept_s >= SWEEP_S:
            self._forget_silent(now_s)
        client = self._clients.get(instance_id)
        if client is None:
            client = _Client(labels=_labels(facts), peer=_peer(facts), info="", expires_s=0.0)
        client.info = _info(facts, push.attributes)
        client.expires_s = now_s + max(INTERVALS * interval_s, KEPT_S)
        left_out = push.left_out
        for point in push.points:
            left_out += not self._put(client, point)
        self._left_out.inc(left_out)
        if client.series:
            self._clients[instance_id] = client

    def end(self, instance_id: str) -> None:
        """Take note that a client has ended, or may have."""
        client = self._clients.get(instance_id)
        if client is not None:
            client.expires_s = min(client.expires_s, self._clock() + KEPT_S)

    async def families(self) -> list[Family]:
        """Return what is to be exported now."""
        self._forget_silent(self._clock())
        clients = list(self._clients.values())
        kinds: dict[str, bool] = {}  # Prometheus takes one kind for a name: the first one's
        holders: dict[str, list[_Client]] = {}
        for client in clients:
            for name, is_counter in client.values:
                if kinds.setdefault(name, is_counter) is is_counter:
                    holders.setdefault(name, []).append(client)
        families = [
            Family(
                name=name,
                kind="counter" if is_counter else "gauge",
                text=_TEXT,
                samples=_samples(holders[name], name, is_counter=is_counter),
            )
            for name, is_counter in sorted(kinds.items())
        ]
        info = [(client.info, 1) for client in clients]
        return [Family(name=_INFO, text="Clients that push metrics.", samples=info), *families]

    def _put(self, client: _Client, point: Point) -> bool:
        """Set or add to a series; False if it would be one too many."""
        key = (point.name, point.is_counter)
        known = client.values.get(key)
        if known is None or point.labels not in known:
            of_peer = self._series_of[client.peer]
            if self._series >= self._max_series or of_peer >= self._max_series_each:
                return False
            self._series_of[client.peer] = of_peer + 1
            known = client.values.setdefault(key, {})
            client.series += 1
            self._series += 1
        before = known.get(point.labels, 0) if point.is_delta else 0
        known[point.labels] = before + point.value
        return True

    def _forget_silent(self, now_s: float) -> None:
        self._swept_s = now_s
        for instance_id in [one for one, at in self._clients.items() if at.expires_s <= now_s]:
            client = self._clients.pop(instance_id)
            self._series -= client.series
            self._series_of[client.peer] -= client.series
            if not self._series_of[client.peer]:
                del self._series_of[client.peer]


def _samples(clients: list[_Client], name: str, *, is_counter: bool) -> Iterator[tuple[str, float]]:
    for client in clients:
        for labels, value in list(client.values[name, is_counter].items()):
            yield f"{client.labels},{labels}" if labels else client.labels, value


def _labels(facts: Mapping[str, str]) -> str:
    software = f"{facts['client_software_name']} {facts['client_software_version']}"
    values = (facts["client_id"], facts["client_instance_id"], software)
    return label_text(**dict(zip(CLIENT_LABELS, values, strict=True)))


def _peer(facts: Mapping[str, str]) -> str:
    return f"{facts['client_source_address']}:{facts['client_source_port']}"


def _info(facts: Mapping[str, str], attributes: Mapping[str, str]) -> str:
    more = {name: attributes[name] for name in _INFO_ATTRIBUTES if name in attributes}
    address = facts["client_source_address"]
    return f"{_labels(facts)},{label_text(client_source_address=address, **more)}"
