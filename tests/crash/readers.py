"""Readers of the run's topic. Each is a loop for a thread of its own, on a client of its own."""

import random
import time
from collections.abc import Mapping
from threading import Event
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.crash.ledger import EndOffset, Ledger, Position, ReadPass
from tests.crash.payload import decode

BATCH: Final = 1000
BATCH_TIMEOUT_S: Final = 0.1
ASK_TIMEOUT_S: Final = 1.0
SAMPLE_EVERY_S: Final = 0.05
PASS_RECORDS: Final = 20_000  # of each partition
CATCH_UP_S: Final = 120.0
REST_S: Final = 2.0
FINAL_READ_S: Final = 300.0  # after ten minutes, tens of thousands of small objects

# What a client may be told while a fault goes on: it asks again by itself.
_EXCUSED: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,  # of librdkafka's own picture of the cluster
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,  # before it was sent: the broker was away all the time
        KafkaError._TRANSPORT,
        KafkaError._UNKNOWN_PARTITION,  # it has no leader for it while all brokers are down
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


def new_consumer(bootstrap: str) -> Consumer:
    """Return a client that verifies checksums and never jumps to another offset by itself."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "assigned-by-hand",  # librdkafka asks for one; assign() never joins it
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    return Consumer(settings)


class Readers:
    """All that look at one topic while it is written."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, ledger: Ledger) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = range(partitions)
        self._ledger = ledger

    def follow(self, stop: Event, abandon: Event) -> None:
        """Read from offset 0 on and stay at the end, through all faults, with one client."""
        consumer = new_consumer(self._bootstrap)
        try:
            one = self._begin(consumer, "tail", dict.fromkeys(self._partitions, 0))
            while not stop.is_set():
                self._take(consumer.consume(BATCH, timeout=BATCH_TIMEOUT_S), one)
            self._read_to(self._ledger.acknowledged_ends(), consumer, one, stop, abandon)
        finally:
            consumer.close()

    def read_again(self, stop: Event, abandon: Event, dice: random.Random) -> None:
        """Read with a new client each time: from the beginning, or from somewhere on."""
        while not stop.wait(REST_S):
            consumer = new_consumer(self._bootstrap)
            try:
                self._read_some(consumer, stop, abandon, from_start=dice.random() < 0.5, dice=dice)
            finally:
                consumer.close()

    def _read_some(
        self,
        consumer: Consumer,
        stop: Event,
        abandon: Event,
        *,
        from_start: bool,
        dice: random.Random,
    ) -> None:
        ends = {at: self._end_offset(consumer, at) for at in self._partitions}
        known = {at: end for at, end in ends.items() if end is not None and end > 0}
        if not known:
            return  # the broker is away; the next pass may find it
        starts = {at: 0 if from_start else dice.randrange(end) for at, end in known.items()}
        one = self._begin(consumer, f"again from {starts}", starts)
        ends_of_pass = {at: min(end, starts[at] + PASS_RECORDS) for at, end in known.items()}
        self._read_to(ends_of_pass, consumer, one, stop, abandon)

    def _begin(self, consumer: Consumer, reader: str, starts: Mapping[int, int]) -> ReadPass:
        consumer.assign([TopicPartition(self._topic, at, start) for at, start in starts.items()])
        return self._ledger.begin_pass(reader, starts)

    def _read_to(
        self,
        ends: Mapping[int, int],
        consumer: Consumer,
        one: ReadPass,
        stop: Event,
        abandon: Event,
    ) -> None:
        """Read up to these offsets; all was mended CATCH_UP_S ago if that does not come to an end.

        Then the client hangs, and that is a complaint.
        """
        deadline = None
        while (behind := one.behind(ends)) and not abandon.is_set():
            if stop.is_set():
                deadline = deadline or time.monotonic() + CATCH_UP_S
                if time.monotonic() >= deadline:
                    told = f"{one.reader}: read up to {one.following}, and never to {behind}"
                    self._ledger.complaints.append(told)
                    return
            self._take(consumer.consume(BATCH, timeout=BATCH_TIMEOUT_S), one)

    def sample_ends(self, stop: Event) -> None:
        """Ask for the end offset of one partition after the other."""
        consumer = new_consumer(self._bootstrap)
        try:
            while not stop.is_set():
                for at in self._partitions:
                    self._end_offset(consumer, at)
                stop.wait(SAMPLE_EVERY_S)
        finally:
            consumer.close()

    def read_at_the_end(self) -> None:
        """Read everything with a fresh client, up to the end offsets that it is told.

        What does not come in FINAL_READ_S is not in the ledger's final pass.
        """
        consumer = new_consumer(self._bootstrap)
        try:
            self._ledger.final_end_offsets = self._final_end_offsets(consumer)
            consumer.assign([TopicPartition(self._topic, at, 0) for at in self._partitions])
            missing = sum(self._ledger.final_end_offsets.values())
            deadline = time.monotonic() + FINAL_READ_S
            while len(self._ledger.final) < missing and time.monotonic() < deadline:
                messages = consumer.consume(BATCH, timeout=BATCH_TIMEOUT_S)
                self._take(messages, self._ledger.final)
        finally:
            consumer.close()

    def _final_end_offsets(self, consumer: Consumer) -> dict[int, int]:
        """Ask until all are told: of a killed session Postgres hears behind the next commit."""
        deadline = time.monotonic() + CATCH_UP_S
        ends: dict[int, int] = {}
        while len(ends) < len(self._partitions):
            assert time.monotonic() < deadline, "ends unknown after healing"
            for at in self._partitions:
                end = self._end_offset(consumer, at)
                if end is not None:
                    ends[at] = end
        return ends

    def _end_offset(self, consumer: Consumer, partition: int) -> int | None:
        began_s = time.monotonic()
        try:
            answer = consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=ASK_TIMEOUT_S, cached=False
            )
        except KafkaException as failure:
            self._hear("end offset", failure.args[0])
            return None
        end: int = answer[1]
        sample = EndOffset(Position(partition, end), began_s, time.monotonic())
        self._ledger.end_offsets.append(sample)
        return end

    def _take(self, messages: list[Message], one: ReadPass) -> None:
        at_s = time.monotonic()
        for message in messages:
            if error := message.error():
                self._hear(one.reader, error)
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            one.add(Position(partition, offset), decode(message.value()), at_s)

    def _hear(self, who: str, error: KafkaError) -> None:
        if error.code() not in _EXCUSED:
            self._ledger.complaints.append(f"{who}: {error}")
