"""A member that reads and commits all the time, a producer to read from, and their pauses."""

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PERIOD_S: Final = 0.02
"""Between two records of a partition, and between two commits."""

POLL_S: Final = 0.05
END_S: Final = 10.0

# A client finds a broker that comes back within moments; all else is as it comes.
_RECONNECT: Final = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


@dataclass(slots=True, kw_only=True)
class Watch:
    """What was seen since a moment; all times are of the monotonic clock, in seconds.

    Attributes:
        began_s: the moment: just before a signal was sent.
        ended_s: when the process was gone; None as long as it may not be.
        commits: when each successful commit began and was confirmed.
        records: of each partition: when each record was sent and read.
    """

    began_s: float
    ended_s: float | None = None
    commits: list[tuple[float, float]] = field(default_factory=list)
    records: dict[int, list[tuple[float, float]]] = field(default_factory=dict)

    def recovered(self, partitions: Collection[int]) -> bool:
        """Return whether commits and all these partitions work without the ended broker."""
        return self.ended_s is not None and all(
            any(started_s >= self.ended_s for started_s, _ in seen)
            for seen in (self.commits, *(self.records.get(one, ()) for one in partitions))
        )

    def commit_pause_s(self) -> float:
        """Return the longest time without a commit, once recovered."""
        return self._pause_s(self.commits)

    def record_pause_s(self, partition: int) -> float:
        """Return the longest time without a record of the partition, once recovered."""
        return self._pause_s(self.records[partition])

    def _pause_s(self, seen: list[tuple[float, float]]) -> float:
        """Look from the signal to the first success that began after the end of the process.

        After kill -9 this is the time from the signal to that success; a broker that was asked to
        stop may go on to serve for a while, which is no pause.
        """
        assert self.ended_s is not None
        done = [self.began_s]
        for started_s, done_s in list(seen):
            done.append(done_s)
            if started_s >= self.ended_s:
                break
        return max(after - before for before, after in pairwise(done))


class SteadyMember:
    """The only member of its group; it owns every partition of its topic."""

    def __init__(self, bootstrap: str, topic: str, group: str, partition_count: int) -> None:
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **_RECONNECT}
        self._producer = Producer({**common, "enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer(
            {
                **common,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "on_commit": self._committed,
            }
        )
        self._topic = topic
        self._partition_count = partition_count
        self._stop = threading.Event()
        self._watch = Watch(began_s=time.monotonic())
        self._next = 0
        self._commit_began_s: float | None = None

    @contextmanager
    def running(self) -> Iterator["SteadyMember"]:
        """Produce, read and commit for the length of a block."""
        self._consumer.subscribe([self._topic])
        works = (self._produce, self._consume)
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(END_S)  # without its coordinator, a consumer takes long to close
            self._producer.purge()

    def watch(self) -> Watch:
        """Begin to note what happens, and forget what did before."""
        self._watch = Watch(began_s=time.monotonic())
        return self._watch

    def _produce(self) -> None:
        while not self._stop.wait(PERIOD_S):
            for partition in range(self._partition_count):
                now = repr(time.monotonic())
                try:
                    self._producer.produce(self._topic, now, partition=partition)
                except BufferError:
                    break  # nobody takes them; there are plenty to be read first
            self._producer.poll(0)

    def _consume(self) -> None:
        """Read and commit in turn; the answers of commits come with the polls, too."""
        due_s = 0.0
        while not self._stop.is_set():
            message = self._consumer.poll(POLL_S)
            if message is not None and not message.error():
                self._note(message)
            now_s = time.monotonic()
            if self._commit_began_s is None and now_s >= due_s:
                due_s = now_s + PERIOD_S
                self._commit(now_s)
        self._consumer.close()

    def _note(self, message: Message) -> None:
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        seen = self._watch.records.setdefault(partition, [])
        seen.append((float(value), time.monotonic()))
        if partition == 0:
            self._next = (message.offset() or 0) + 1

    def _commit(self, now_s: float) -> None:
        place = TopicPartition(self._topic, 0, self._next)
        self._commit_began_s = now_s
        self._consumer.commit(offsets=[place], asynchronous=True)

    def _committed(self, error: KafkaError | None, places: Sequence[TopicPartition]) -> None:
        """Note a commit; one that failed (no coordinator, no member yet) makes the pause longer."""
        began_s, self._commit_began_s = self._commit_began_s, None
        assert began_s is not None, "one commit at a time"
        if error is None and places[0].error is None:
            self._watch.commits.append((began_s, time.monotonic()))
