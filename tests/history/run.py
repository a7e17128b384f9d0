"""A recorded run against any Kafka: processes at work, then rest, then everything is read.

python -m tests.history.run BOOTSTRAP FILE.jsonl [SECONDS]   records a run without faults
"""

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from tests.history.check import main as judge
from tests.history.clients import Idempotent, Process, SingleAttempt
from tests.history.kafka_clients import (
    KEYS,
    PARTITIONS,
    TOPICS,
    key_of,
    new_admin,
    partition_of,
)
from tests.history.operations import Isolation, Kind, Outcome
from tests.history.reading import read_finally
from tests.history.record import Recorder, told
from tests.history.transacting import Transactional
from tests.support.host import Stopwatch

WATCHERS: Final = 2
TRANSACTIONAL: Final = 5
IDEMPOTENT: Final = 3
SINGLE_ATTEMPT: Final = 2
TIMEOUTS_MS: Final = (1_000, 5_000)
RESUMES: Final = 0.75  # how often a process goes on where its predecessor was
END_S: Final = 240.0  # longer than any operation waits for anything
ASK_EVERY_S: Final = 0.25
ASK_S: Final = 2.0
ADMIN_S: Final = 30.0
STABLE_S: Final = TIMEOUTS_MS[1] / 1000 + 5.0  # how long a dead producer may hold back readers
ANSWERED_S: Final = 120.0  # by when the end offsets of all keys are told, and are the same
LEVELS: Final = {
    Isolation.READ_COMMITTED: IsolationLevel.READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED,
}
FINAL_READERS: Final = 2

Maker = Callable[[Mapping[int, int]], Process]
"""Makes a process that knows where its predecessor was."""


def create_topics(bootstrap: str) -> None:
    topics = [NewTopic(name, PARTITIONS, 1) for name in TOPICS]
    admin = new_admin(bootstrap)
    for created in admin.create_topics(topics, operation_timeout=ADMIN_S).values():
        created.result(timeout=ADMIN_S)


class Watching:
    """A process that asks for end offsets."""

    def __init__(self, bootstrap: str, recorder: Recorder) -> None:
        self._admin = new_admin(bootstrap)
        self._recorder = recorder
        self._process = recorder.new_process()

    def follow(self, stop: Event) -> None:
        while not stop.wait(ASK_EVERY_S):
            self.ask(Isolation.READ_UNCOMMITTED)
            self.ask(Isolation.READ_COMMITTED)

    def ask(self, isolation: Isolation) -> dict[int, int]:
        """Return the end offsets of the keys whose brokers answer."""
        index = self._recorder.call(self._process, Kind.ENDS, told(isolation, {}))
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(
            {partition_of(key): latest for key in range(KEYS)},
            isolation_level=LEVELS[isolation],
            request_timeout=ASK_S,
        )
        ends = {}
        for partition, answer in asked.items():
            try:
                end = answer.result().offset
            except KafkaException:
                continue  # its broker is away; the history lacks this answer
            if end >= 0:  # librdkafka makes up a negative one where one broker of several is away
                ends[key_of(partition.topic, partition.partition)] = end
        self._recorder.end(index, Outcome.OK, told(isolation, ends))
        return ends

    def await_stable(self, within_s: float) -> dict[int, int]:
        """Return the last stable offsets once no open transaction holds readers back.

        One that does for longer than that is a complaint, but for the time in which the machine had
        others to serve. So is a broker that does not tell.
        """
        stopwatch = Stopwatch()
        while True:
            ends = self.ask(Isolation.READ_UNCOMMITTED)
            stable = self.ask(Isolation.READ_COMMITTED)
            if len(stable) == KEYS and stable == ends:
                return stable
            took_s, late_s = stopwatch.elapsed_s(), stopwatch.waited_s()
            is_told = len(stable) == len(ends) == KEYS
            if took_s >= ANSWERED_S or (is_told and took_s >= within_s + late_s):
                waits = f"after {took_s:.1f} s, {late_s:.1f} s waiting"
                self._recorder.complaints.append(f"{waits}, {stable} of {ends} stable")
                return stable


@contextmanager
def working(bootstrap: str, recorder: Recorder, dice: random.Random) -> Iterator[None]:
    """Keep processes at work for the length of a block.

    One that does not end after it is a complaint, and in the history has not ended what it does.
    """
    stop = Event()
    threads = [
        Thread(target=_succeed, args=(maker, stop, random.Random(dice.random())), daemon=True)
        for maker in _makers(bootstrap, recorder, dice)
    ]
    for _ in range(WATCHERS):
        watching = Watching(bootstrap, recorder)
        threads.append(Thread(target=watching.follow, args=(stop,), daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        deadline = time.monotonic() + END_S
        for number, thread in enumerate(threads):
            thread.join(max(deadline - time.monotonic(), 0))
            if thread.is_alive():
                recorder.complaints.append(f"thread {number} has not ended in {END_S} s")


def _makers(bootstrap: str, recorder: Recorder, dice: random.Random) -> Iterator[Maker]:
    for number in range(TRANSACTIONAL):
        yield partial(
            Transactional,
            bootstrap,
            recorder,
            random.Random(dice.random()),
            transactional_id=f"history-{number}",
            timeout_ms=dice.randint(*TIMEOUTS_MS),
        )
    for kind in (Idempotent,) * IDEMPOTENT + (SingleAttempt,) * SINGLE_ATTEMPT:
        yield partial(kind, bootstrap, recorder, random.Random(dice.random()))


def _succeed(make: Maker, stop: Event, dice: random.Random) -> None:
    """Run one process after the other."""
    following: Mapping[int, int] = {}
    while not stop.is_set():
        process = make(following)
        process.run(stop)
        following = process.following if dice.random() < RESUMES else {}


def finish(bootstrap: str, recorder: Recorder) -> float:
    """Wait until nothing holds readers back, then read everything; return the seconds waited."""
    began_s = time.monotonic()
    ends = Watching(bootstrap, recorder).await_stable(STABLE_S)
    waited_s = time.monotonic() - began_s
    for _ in range(FINAL_READERS):
        read_finally(bootstrap, recorder, ends)
    return waited_s


def main() -> int:
    """Record and judge a run; return the exit code."""
    bootstrap, page = sys.argv[1], Path(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 30.0
    with page.open("w") as lines:
        recorder = Recorder(lines)
        create_topics(bootstrap)
        with working(bootstrap, recorder, random.Random()):
            time.sleep(seconds)
        waited_s = finish(bootstrap, recorder)
    print(f"stable after {waited_s:.2f} s; {recorder.complaints}")  # noqa: T201
    return judge([str(page)]) or int(bool(recorder.complaints))


if __name__ == "__main__":
    sys.exit(main())
