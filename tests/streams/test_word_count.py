"""Kafka Streams counts words exactly once, however often it is killed.

STREAMHOUSE_TEST_KILLS is how often. With STREAMHOUSE_TEST_BOOTSTRAP it runs on another broker.
"""

import itertools
import os
import random
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.clients.confluent import Confluent
from tests.streams.word_count import WordCount, killed_in_the_end
from tests.support.broker import running_broker

KILLS: Final = int(os.environ.get("STREAMHOUSE_TEST_KILLS", "2"))
PARTITIONS: Final = 2
WORDS: Final = [f"word-{number}" for number in range(40)]
WORDS_PER_LINE: Final = 4
LINES_PER_S: Final = 100
PROGRESS: Final = 400
PATIENCE_S: Final = 300.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if given := os.environ.get("STREAMHOUSE_TEST_BOOTSTRAP"):
        yield given
        return
    with running_broker(tmp_path_factory.mktemp("streams")) as broker:
        yield broker.bootstrap


def test_words_are_counted_exactly_once(bootstrap: str, tmp_path: Path) -> None:
    # Given an application that counts words, and a stream of lines that does not stop
    name = f"words-{uuid.uuid4().hex[:8]}"
    lines, counts = f"{name}-lines", f"{name}-counts"
    for topic in (lines, counts):
        Confluent(bootstrap=bootstrap).create_topic(topic, partition_count=PARTITIONS)
    application = WordCount(
        bootstrap=bootstrap,
        application=name,
        input_topic=lines,
        output_topic=counts,
        home=tmp_path,
    )
    with (
        killed_in_the_end(application),
        Lines.flowing(bootstrap, lines) as written,
        reading(bootstrap, counts) as read,
    ):
        # When it is killed and started again in the middle of its work, once without its disk
        for kill in range(KILLS):
            application.start()
            read.until_more(PROGRESS, application)
            application.kill()
            if kill == KILLS // 2:
                application.forget()
        application.start()
        read.until_more(PROGRESS, application)
        written.stop()

        # Then each word was counted as often as it was written, one by one, without a repetition
        read.until_total(written.words.total(), application)
        read.until_quiet()
    assert {word: list(range(1, count + 1)) for word, count in written.words.items()} == read.counts


class Lines:
    """Lines of random words, sent at a steady rate.

    Attributes:
        words: what was sent so far, by word.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.words: Counter[str] = Counter()
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._failures: list[object] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lines")

    @classmethod
    @contextmanager
    def flowing(cls, bootstrap: str, topic: str) -> Iterator["Lines"]:
        lines = cls(bootstrap, topic)
        lines._thread.start()
        try:
            yield lines
        finally:
            lines.stop()

    def stop(self) -> None:
        """Stop, and see to it that all are acknowledged."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0
        assert not self._failures, self._failures[:3]

    def _run(self) -> None:
        chosen = random.Random(1)
        began_s = time.monotonic()
        for number in itertools.count(1):
            words = chosen.choices(WORDS, k=WORDS_PER_LINE)
            self._producer.produce(
                self._topic,
                " ".join(words),
                partition=number % PARTITIONS,
                on_delivery=self._delivered,
            )
            self.words.update(words)
            self._producer.poll(0)
            due_s = began_s + number / LINES_PER_S
            if self._stopping.wait(max(due_s - time.monotonic(), 0)):
                return

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failures.append(error)


class Counts:
    """What a consumer of committed records reads of the output.

    Attributes:
        counts: of each word, in the order of the log.
    """

    def __init__(self, consumer: Any) -> None:
        self.counts: dict[str, list[int]] = defaultdict(list)
        self._consumer = consumer
        self._total = 0

    def until_more(self, count: int, application: WordCount) -> None:
        """Read until so many more counts have come."""
        self.until_total(self._total + count, application)

    def until_total(self, total: int, application: WordCount) -> None:
        """Read until there are so many counts in all."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self._total < total:
            self._take(timeout_s=0.2)
            late = time.monotonic() > deadline_s
            assert application.is_running, application.said()
            assert not late, f"{self._total} of {total} counts\n{application.said()}"

    def until_quiet(self) -> None:
        """Read until nothing comes any more: what is too much would be there now."""
        while self._take(timeout_s=2.0):
            continue

    def _take(self, timeout_s: float) -> int:
        messages = self._consumer.consume(1_000, timeout=timeout_s)
        for message in messages:
            if error := message.error():
                raise KafkaException(error)
            self.counts[message.key().decode()].append(int(message.value()))
        self._total += len(messages)
        return len(messages)


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Counts]:
    """Read a topic from its beginning, committed records only."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "assigned-by-hand",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign(
        [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    )
    try:
        yield Counts(consumer)
    finally:
        consumer.close()
