"""One run of the exactly-once test: processors of each library and brokers, which are killed."""

import random
import statistics
import subprocess
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.crash.exactly_once_checks import History, Output
from tests.crash.exactly_once_processor import Processor
from tests.crash.exactly_once_settings import (
    CALL_S,
    SOURCE_PARTITIONS,
    ProcessorSettings,
)
from tests.support.three_brokers import Trio

PROTOCOLS: Final = {"librdkafka": "classic", "aiokafka": "classic", "java": "consumer"}
PER_LIBRARY: Final = 2
BOTH: Final = 0.25  # how often two brokers are hit at the same time
BROKERS_CALM_S: Final = 2.0  # at most, as the others
PROCESSORS_CALM_S: Final = 5.0
MOST_AWAY_S: Final = 2.0
WARM_S: Final = 180.0
SETTLE_S: Final = 240.0
LEAVE_S: Final = 90.0
GLANCE_S: Final = 0.2


@dataclass(slots=True)
class Run:
    """One run.

    Attributes:
        target_of: the output topic of each library; its group is named like that.
        troubles: when something was killed, and whose work that stopped.
    """

    bootstrap: str
    source: str
    target_of: dict[str, str]
    processors: list[Processor]
    troubles: list[tuple[float, Sequence[str]]] = field(default_factory=list)
    broker_kills: int = 0
    processor_kills: int = 0

    def await_commits(self) -> None:
        """Return when every library has committed a transaction."""
        deadline = time.monotonic() + WARM_S
        while missing := [one for one in self.target_of if not self._times(one)]:
            assert time.monotonic() < deadline, f"no commit of {missing} in {WARM_S} s"
            time.sleep(GLANCE_S)

    def kill(self, trio: Trio | None, dice: random.Random, seconds: float) -> None:
        """Kill brokers and processors for a while; all run again when this returns."""
        ended = Event()
        with ThreadPoolExecutor(2) as pool:
            killing = [pool.submit(self._kill_processors, ended, random.Random(dice.random()))]
            if trio is not None:
                other = random.Random(dice.random())
                killing.append(pool.submit(self._kill_brokers, trio, ended, other))
            ended.wait(seconds)
            ended.set()
            for one in killing:
                one.result()

    def _kill_processors(self, ended: Event, dice: random.Random) -> None:
        while not ended.wait(dice.uniform(0, PROCESSORS_CALM_S)):  # the moment is not chosen
            victim = dice.choice(self.processors)
            victim.kill()
            self.processor_kills += 1
            self.troubles.append((time.monotonic(), (victim.library,)))
            ended.wait(dice.uniform(0, MOST_AWAY_S))
            victim.restart()

    def _kill_brokers(self, trio: Trio, ended: Event, dice: random.Random) -> None:
        while not ended.wait(dice.uniform(0, BROKERS_CALM_S)):
            count = 2 if dice.random() < BOTH else 1
            victims = dice.sample(range(len(trio.brokers)), count)
            for at in victims:
                trio.brokers[at].kill()
            self.broker_kills += count
            self.troubles.append((time.monotonic(), tuple(self.target_of)))
            for at in victims:
                ended.wait(dice.uniform(0, MOST_AWAY_S))
                trio.restart(at)

    def settle(self, counts: dict[int, int]) -> list[str]:
        """Wait until every group has committed all of the input; return which have not."""
        deadline = time.monotonic() + SETTLE_S
        found = []
        for group in self.target_of.values():
            consumer = Consumer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "group.id": group,  # which it asks for and does not join
                    "isolation.level": "read_committed",
                    "log_level": 0,
                }
            )
            while (offsets := self._committed(consumer)) != counts:
                if time.monotonic() > deadline:
                    found.append(f"{group} has committed {offsets} of {counts}")
                    break
                time.sleep(GLANCE_S)
            consumer.close()
        return found

    def _committed(self, consumer: Consumer) -> dict[int, int]:
        places = [TopicPartition(self.source, at) for at in range(SOURCE_PARTITIONS)]
        try:
            found = consumer.committed(places, timeout=CALL_S)
        except KafkaException:  # asked again
            return {}
        return {place.partition: place.offset for place in found if place.error is None}

    def stop(self) -> list[str]:
        """Have the processors leave; return what is to be said of those that do not."""
        for one in self.processors:
            one.leave()
        found = []
        for one in self.processors:
            try:
                code = one.process.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                found.append(f"{one.settings.name} did not leave in {LEAVE_S} s")
                continue
            if code != 0:
                found.append(f"{one.settings.name} ended with {code}: {one.errors}")
        return found

    def outputs(self) -> list[Output]:
        """Return what the pages say of each library; the topics are not read yet."""
        return [
            Output(
                library=library,
                committed={one["transaction"] for one in self._events(library, "committed")},
                aborted={one["transaction"] for one in self._events(library, "aborted")},
            )
            for library in self.target_of
        ]

    def summary(self, history: History) -> str:
        committed_, aborted = (
            sum(len(output.committed) for output in history.outputs),
            sum(len(output.aborted) for output in history.outputs),
        )
        recoveries = ", ".join(
            f"{library} {statistics.median(found):.1f}/{max(found):.1f} s"
            for library in self.target_of
            if (found := self._recoveries_s(library))
        )
        return (
            f"{len(history.source)} records x {len(self.target_of)} libraries, transactions: "
            f"{committed_} committed, {aborted} aborted; kills: {self.broker_kills} of brokers, "
            f"{self.processor_kills} of processors; next commit after (median/most): {recoveries}"
        )

    def _recoveries_s(self, library: str) -> list[float]:
        """Return how long after each kill that concerns a library it committed again."""
        times = self._times(library)
        return [
            times[at] - killed_s
            for killed_s, concerned in self.troubles
            if library in concerned and (at := bisect_right(times, killed_s)) < len(times)
        ]

    def _times(self, library: str) -> list[float]:
        return sorted(one["at_s"] for one in self._events(library, "committed"))

    def _events(self, library: str, name: str) -> Iterator[dict[str, Any]]:
        for processor in self.processors:
            if processor.library == library:
                yield from (one for one in processor.events if one["event"] == name)


@contextmanager
def running_processors(
    bootstrap: str, home: Path, source: str, target_of: dict[str, str]
) -> Iterator[Run]:
    """Start two processors of each library; none runs after the block."""
    home.mkdir()
    run = Run(bootstrap, source, target_of, [])
    try:
        for library, target in target_of.items():
            for number in range(PER_LIBRARY):
                name = f"{target}-{number}"
                settings = ProcessorSettings(
                    name=name,
                    bootstrap=bootstrap,
                    group=target,
                    protocol=PROTOCOLS[library],
                    source=source,
                    target=target,
                    page=str(home / f"{name}.jsonl"),
                )
                run.processors.append(Processor.start(library, settings))
        yield run
    finally:
        for one in run.processors:
            one.kill()
