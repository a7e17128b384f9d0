"""The consumer of a recorded process: it reads assigned keys, and goes back where it has to."""

import random
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message

from tests.crash.payload import decode
from tests.history.kafka_clients import (
    EXCUSED,
    KEYS,
    key_of,
    new_consumer,
    partition_of,
)
from tests.history.operations import Kind, Outcome, Read
from tests.history.record import Recorder, assigned, polled

BATCH: Final = 500
POLL_S: Final = (0.005, 0.05)
LEAST_KEYS: Final = 3
KEPT: Final = 0.8  # how often a key goes on where it was
FINAL_READ_S: Final = 180.0
FINAL_POLL_S: Final = 0.5


class Reading:
    """One consumer.

    Attributes:
        following: by key, the offset after the last operation that succeeded; where the next one
            begins. Of all keys ever assigned.
    """

    def __init__(
        self, bootstrap: str, recorder: Recorder, process: int, following: Mapping[int, int]
    ) -> None:
        self.following = dict(following)
        self.ends: dict[int, int] = {}  # by key, where the client said that nothing more is
        self.consumer: Consumer = new_consumer(bootstrap, f"history-{process}")
        self._recorder = recorder
        self._process = process
        self._keys: list[int] = []
        self._ahead: dict[int, int] = {}

    def assign(self, starts: Mapping[int, int], *, final: bool = False) -> None:
        """Read these keys from now on."""
        value = assigned(starts, final=final)
        index = self._recorder.call(self._process, Kind.ASSIGN, value)
        self._keys = list(starts)
        self.following |= starts
        self.go_back()
        self._recorder.end(index, Outcome.OK, value)

    def assign_some(self, dice: random.Random) -> None:
        """Read some keys: most from where they were, others from somewhere before."""
        keys = sorted(dice.sample(range(KEYS), dice.randint(LEAST_KEYS, KEYS)))
        starts = {}
        for key in keys:
            known = self.following.get(key, 0)
            starts[key] = known if dice.random() < KEPT else dice.randint(0, known)
        self.assign(starts)

    def poll(self, wait_s: float) -> dict[int, list[Read]]:
        """Return what is there, by key, waiting up to `wait_s` for a full batch."""
        reads: dict[int, list[Read]] = {}
        for message in self.consumer.consume(BATCH, timeout=wait_s):
            if error := message.error():
                self._hear(error, message)
                continue
            key = key_of(message.topic(), message.partition())
            offset = message.offset()
            assert offset is not None
            reads.setdefault(key, []).append(Read(offset, decode(message.value())))
            self._ahead[key] = offset + 1
        return reads

    def go_on(self) -> None:
        """The operation has succeeded: the next one begins behind it."""
        self.following |= self._ahead
        self._ahead = {}

    def go_back(self) -> None:
        """The operation has not succeeded: what it read is read again.

        Assigning anew is what makes librdkafka forget what it has fetched; it refuses to seek in a
        partition of which it has not begun to fetch.
        """
        self._ahead = {}
        self.consumer.assign([partition_of(key, self.following[key]) for key in self._keys])

    @property
    def positions(self) -> dict[int, int]:
        """Return where the keys read in this operation would go on."""
        return dict(self._ahead)

    def close(self) -> None:
        self.consumer.close()

    def _hear(self, error: KafkaError, message: Message) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            offset = message.offset()
            assert offset is not None
            self.ends[key_of(message.topic(), message.partition())] = offset
        elif error.code() not in EXCUSED:
            self._recorder.complaints.append(f"consumer of process {self._process}: {error}")


def read_finally(bootstrap: str, recorder: Recorder, ends: Mapping[int, int]) -> None:
    """Read all keys from the beginning up to these ends, with a fresh client.

    What does not come in FINAL_READ_S is not in the history, and will be missed there.
    """
    process = recorder.new_process()
    reading = Reading(bootstrap, recorder, process, {})
    try:
        reading.assign(dict.fromkeys(ends, 0), final=True)
        deadline = time.monotonic() + FINAL_READ_S
        while time.monotonic() < deadline:
            index = recorder.call(process, Kind.POLL, [["poll"]])
            reads = reading.poll(FINAL_POLL_S)
            recorder.end(index, Outcome.OK, [polled(reads)])
            reading.go_on()
            if all(reading.ends.get(key, -1) >= end for key, end in ends.items()):
                return
        recorder.complaints.append(f"read up to {reading.ends}, not to {dict(ends)}, at the end")
    finally:
        reading.close()
