"""The producers of a recorded process: what they send, and what became of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.crash.payload import encode
from tests.history.kafka_clients import PARTITIONS, TOPICS
from tests.history.operations import Entry

DELIVERED_S: Final = 15.0  # later than the client gives up
ENDED_S: Final = 60.0
ENDING_S: Final = 5.0  # of one attempt
STEP_S: Final = 0.05
STUCK_S: Final = 20.0


@dataclass(slots=True)
class Sending:
    """A record on its way.

    Attributes:
        error: why the client gave up; None if it did not, or has not yet.
    """

    entry: Entry
    done: bool = False
    offset: int | None = None
    error: KafkaError | None = None

    @property
    def acknowledged(self) -> bool:
        return self.done and self.error is None

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        self.error = error
        if error is None and offset is not None and offset >= 0:
            self.offset = offset
        self.done = True

    def to_line(self) -> list[Any]:
        return ["send", self.entry.key, [self.offset, self.entry.value]]


def send(producer: Producer, sending: Sending) -> None:
    """Hand a record to the client.

    Raises:
        KafkaException: the client takes nothing in its state.
    """
    key, value = sending.entry
    producer.produce(
        TOPICS[key // PARTITIONS],
        value=encode(value),
        partition=key % PARTITIONS,
        on_delivery=sending.delivered,
    )


def await_deliveries(producer: Producer, sendings: Sequence[Sending]) -> None:
    """Return when the client has said of all what became of them, or says nothing any more."""
    deadline = time.monotonic() + DELIVERED_S
    while not all(one.done for one in sendings) and time.monotonic() < deadline:
        producer.poll(STEP_S)


class Stuck(Exception):
    """The client does not come back from a call, whatever timeout it was given."""


def send_offsets(
    producer: Producer, offsets: Sequence[TopicPartition], group_metadata: object
) -> None:
    """Add what was read to the transaction.

    librdkafka waits for ever if the group's coordinator is gone from the cluster at the wrong
    moment (its issues 5456 and 5511), so it waits in a thread that nobody waits for.

    Raises:
        KafkaException: it was refused.
        Stuck: it waits.
    """
    refusals: list[KafkaException] = []

    def call() -> None:
        try:
            producer.send_offsets_to_transaction(list(offsets), group_metadata, ENDING_S)
        except KafkaException as refusal:
            refusals.append(refusal)

    thread = Thread(target=call, daemon=True)
    thread.start()
    thread.join(STUCK_S)
    if thread.is_alive():
        raise Stuck
    if refusals:
        raise refusals[0]


def end_transaction(attempt: Callable[[float], None]) -> KafkaError | None:
    """Commit or abort, again and again while the client says that this helps.

    Returns:
        None if it succeeded, else what the last attempt ended with.
    """
    deadline = time.monotonic() + ENDED_S
    while True:
        try:
            attempt(ENDING_S)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.retriable() or time.monotonic() >= deadline:
                return error
        else:
            return None
