"""How long members pause when the coordinator of their group is killed, or asked to stop."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException

from bench.cluster import Cluster
from bench.results import Figures, MeasurementFailed, Row, percentile
from bench.steady_member import SteadyMember, Watch
from bench.victims import Victims
from tests.support.broker import BrokerFailed

PART: Final = "failover"
GLANCE_S: Final = 0.01
CALM_S: Final = 1.0
CALM_PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverConfig:
    """How often, and how long all of it may take.

    Attributes:
        partitions: of the topic that the member reads; all leaders of a cluster have some.
        recovery_s: how long one recovery may take.
        limit_s: no broker is ended later than that, but each signal is sent once; kills and terms
            share it by their numbers.
    """

    kills: int = 20
    terms: int = 5
    partitions: int = 12
    recovery_s: float = 60.0
    limit_s: float = 140.0


@dataclass(slots=True)
class _Pauses:
    """Seconds, one number for each time that the coordinator was ended.

    Attributes:
        first_record, all_partitions: of those partitions that the coordinator led.
    """

    commit: list[float] = field(default_factory=list)
    first_record: list[float] = field(default_factory=list)
    all_partitions: list[float] = field(default_factory=list)

    def add(self, watch: Watch, moved: Sequence[int]) -> None:
        self.commit.append(watch.commit_pause_s())
        if moved:
            pauses = [watch.record_pause_s(partition) for partition in moved]
            self.first_record.append(min(pauses))
            self.all_partitions.append(max(pauses))

    def rows(self, what: str, failure: str) -> list[Row]:
        note: Figures = {"note": failure} if failure else {}
        return [
            Row(part=PART, case=f"{what}: {case}", figures={**_percentiles(pauses), **note})
            for case, pauses in (
                ("commit", self.commit),
                ("first record of a partition it led", self.first_record),
                ("records of all partitions it led", self.all_partitions),
            )
        ]


def measure(
    cluster: Cluster, victims: Victims, config: FailoverConfig, say: Callable[[str], None]
) -> list[Row]:
    """Return what a member of the group sees: pauses of its commits and of what it reads."""
    deadline_s = time.monotonic() + config.limit_s
    kills_end_s = deadline_s - config.limit_s * config.terms / max(config.kills + config.terms, 1)
    plan = (
        (signal.SIGKILL, config.kills, kills_end_s),
        (signal.SIGTERM, config.terms, deadline_s),
    )
    topic, group = cluster.new_topic(config.partitions), cluster.new_group()
    pauses = {signal_number: _Pauses() for signal_number, _, _ in plan}
    failure = ""
    with SteadyMember(cluster.bootstrap, topic, group, config.partitions).running() as member:
        one = _Ending(cluster, victims, member, topic, group, config)
        try:
            one.until_calm()
            for signal_number, count, end_s in plan:
                for number in range(1, count + 1):
                    if number > 1 and time.monotonic() > end_s:
                        break
                    say(f"failover, {signal_number.name}: {number} of at most {count}")
                    one.run(signal_number, pauses[signal_number])
        except (MeasurementFailed, BrokerFailed, KafkaException) as error:
            failure = str(error)
    return [
        row
        for signal_number, seen in pauses.items()
        for row in seen.rows(signal_number.name, failure)
    ]


class _Ending:
    """The group whose coordinator is ended, again and again."""

    def __init__(
        self,
        cluster: Cluster,
        victims: Victims,
        member: SteadyMember,
        topic: str,
        group: str,
        config: FailoverConfig,
    ) -> None:
        self._cluster = cluster
        self._victims = victims
        self._member = member
        self._topic = topic
        self._group = group
        self._partitions = range(config.partitions)
        self._recovery_s = config.recovery_s

    def run(self, signal_number: signal.Signals, pauses: _Pauses) -> None:
        """End the coordinator, wait until the member recovered, and bring the broker back."""
        coordinator = asyncio.run(self._cluster.coordinator(self._group))
        leaders = self._cluster.leaders(self._topic)
        moved = [partition for partition, leader in leaders.items() if leader == coordinator]
        watch = self._member.watch()
        watch.began_s = self._victims.end(coordinator, signal_number)
        watch.ended_s = time.monotonic()
        if not self._victims.others_take_over:
            self._victims.start()
        self._until_recovered(watch, moved, signal_number.name)
        pauses.add(watch, moved)
        if self._victims.others_take_over:
            self._victims.start()
        self.until_calm()

    def until_calm(self) -> None:
        """Wait until all brokers agree, and commits and records have come evenly for a while."""
        deadline_s = time.monotonic() + self._recovery_s
        while time.monotonic() < deadline_s:
            watch = self._member.watch()
            watch.ended_s = watch.began_s + CALM_S
            while time.monotonic() < deadline_s and not watch.recovered(self._partitions):
                time.sleep(GLANCE_S)
            if self._even(watch) and asyncio.run(self._agreed()):
                return
        raise MeasurementFailed(f"not calm in {self._recovery_s:.0f} s")

    def _until_recovered(self, watch: Watch, moved: Sequence[int], what: str) -> None:
        deadline_s = time.monotonic() + self._recovery_s
        while not watch.recovered(moved):
            if time.monotonic() > deadline_s:
                raise MeasurementFailed(f"{what}: not recovered in {self._recovery_s:.0f} s")
            self._victims.check()
            time.sleep(GLANCE_S)

    def _even(self, watch: Watch) -> bool:
        if not watch.recovered(self._partitions):
            return False
        pauses = [watch.record_pause_s(partition) for partition in self._partitions]
        return max(watch.commit_pause_s(), *pauses) < CALM_PAUSE_S

    async def _agreed(self) -> bool:
        """Return whether every broker of the list names the same coordinator."""
        brokers = [Cluster(one) for one in self._cluster.bootstrap.split(",")]
        named = await asyncio.gather(*(broker.coordinator(self._group) for broker in brokers))
        return len(set(named)) == 1


def _percentiles(pauses: Sequence[float]) -> Figures:
    if not pauses:
        return {"times": 0}
    return {
        "times": len(pauses),
        "min_s": min(pauses),
        "p50_s": percentile(pauses, 0.5),
        "p99_s": percentile(pauses, 0.99),
        "max_s": max(pauses),
    }
