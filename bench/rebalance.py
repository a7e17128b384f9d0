"""How long a group takes to settle: all members at once, one more, one less."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.cluster import Cluster, group_state
from bench.crowd import Crowd, running_crowd
from bench.crowd_member import Properties
from bench.results import MeasurementFailed, Row, spread

PART: Final = "rebalance"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceConfig:
    """How a group is measured.

    Attributes:
        members: that start at once; fewer than partitions.
        heartbeat_ms, session_ms: of classic members; with KIP-848 the broker says.
        timeout_s: how long one step may take; the rounds of a protocol end with the first that
            takes longer.
    """

    members: int = 50
    partitions: int = 100
    rounds: int = 3
    processes: int = 2
    heartbeat_ms: int = 1_000
    session_ms: int = 10_000
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class GroupKind:
    """How the members of a group agree: group.protocol, and who computes the assignment how."""

    protocol: str
    assignor: str

    def __str__(self) -> str:
        return f"{self.protocol} {self.assignor}"

    def properties(self, config: RebalanceConfig) -> Properties:
        """Return what a librdkafka consumer needs to know."""
        if self.protocol == "consumer":
            return {"group.protocol": "consumer", "group.remote.assignor": self.assignor}
        return {
            "group.protocol": "classic",
            "partition.assignment.strategy": self.assignor,
            "session.timeout.ms": config.session_ms,
            "heartbeat.interval.ms": config.heartbeat_ms,
        }


KINDS: Final = (
    GroupKind("classic", "range"),
    GroupKind("classic", "cooperative-sticky"),
    GroupKind("consumer", "uniform"),
)


def measure(cluster: Cluster, config: RebalanceConfig, say: Callable[[str], None]) -> list[Row]:
    """Return three rows for each kind of group."""
    assert config.members < config.partitions, "each member shall own a partition"
    topic = cluster.new_topic(config.partitions)
    rows: list[Row] = []
    for kind in KINDS:
        rows += _measure_kind(cluster, kind, topic, config, say)
    return rows


def _measure_kind(
    cluster: Cluster,
    kind: GroupKind,
    topic: str,
    config: RebalanceConfig,
    say: Callable[[str], None],
) -> list[Row]:
    steps = (f"{config.members} members start", "one more joins", "one leaves")
    taken_s: list[list[float]] = [[] for _ in steps]
    failure = ""
    with running_crowd(config.processes, config.timeout_s) as crowd:
        for number in range(1, config.rounds + 1):
            say(f"rebalance, {kind}: round {number} of {config.rounds}")
            measured = _Round(cluster, crowd, kind, topic, config, number)
            try:
                for taken, step in zip(taken_s, measured.steps(), strict=True):
                    taken.append(step())
                measured.end()
            except MeasurementFailed as error:
                failure = f"round {number}: {error}"
                break
    return [
        Row(
            part=PART,
            case=f"{kind}: {step}",
            figures={**(spread(taken) if taken else {}), **({"note": failure} if failure else {})},
        )
        for step, taken in zip(steps, taken_s, strict=True)
    ]


class _Round:
    """One group from its first member to its last."""

    def __init__(
        self,
        cluster: Cluster,
        crowd: Crowd,
        kind: GroupKind,
        topic: str,
        config: RebalanceConfig,
        number: int,
    ) -> None:
        self._crowd = crowd
        self._kind = kind
        self._config = config
        self._group = cluster.new_group()
        self._coordinator = asyncio.run(cluster.coordinator(self._group))
        self._first = [f"{number}-{member}" for member in range(config.members)]
        self._newcomer = f"{number}-newcomer"
        properties = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": self._group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **kind.properties(config),
        }
        crowd.create([*self._first, self._newcomer], properties, topic)

    def steps(self) -> Sequence[Callable[[], float]]:
        """Return what is to be done in turn; each returns the seconds that it took."""
        return (self._start, self._add, self._remove)

    def end(self) -> None:
        rest = [*self._first[1:], self._newcomer]
        self._crowd.leave(rest)
        self._crowd.until_closed([*self._first, self._newcomer])

    def _start(self) -> float:
        began_s = self._crowd.join(self._first)
        return self._settled_s(self._first) - began_s

    def _add(self) -> float:
        began_s = self._crowd.join([self._newcomer])
        return self._settled_s([*self._first, self._newcomer]) - began_s

    def _remove(self) -> float:
        began_s = self._crowd.leave(self._first[:1])
        return self._settled_s([*self._first[1:], self._newcomer]) - began_s

    def _settled_s(self, members: Sequence[str]) -> float:
        def stable() -> bool:
            state = asyncio.run(group_state(self._coordinator, self._group, self._kind.protocol))
            return state == ("Stable", len(members))

        return self._crowd.until_settled(members, self._config.partitions, stable)
