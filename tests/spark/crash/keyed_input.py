"""A topic of keyed records, some of which no reader may ever see: their transaction was aborted."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Message, Producer

from tests.clients.confluent import Confluent, record_of_confluent

CALL_S: Final = 60.0
KEYS: Final = 97
TRANSACTION_RECORDS: Final = 250
ABORTED_EVERY: Final = 4  # transactions
DRIFTED_EVERY: Final = 50  # records


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Sent:
    """One acknowledged record.

    Attributes:
        number: unique, and rising in the order in which the records of a key were sent.
    """

    partition: int
    offset: int
    key: bytes
    value: bytes
    number: int

    @property
    def is_drifted(self) -> bool:
        """Whether its amount is text, and no number as of the others."""
        return self.number % DRIFTED_EVERY == 0


@dataclass(slots=True)
class KeyedInput:
    """What was sent.

    Attributes:
        visible: in committed transactions, in the order sent.
        invisible: numbers of those in aborted ones.
    """

    visible: list[Sent] = field(default_factory=list)
    invisible: set[int] = field(default_factory=set)

    def of_key(self) -> dict[bytes, list[int]]:
        """Return the numbers of each key, in the order sent."""
        found: dict[bytes, list[int]] = {}
        for sent in self.visible:
            found.setdefault(sent.key, []).append(sent.number)
        return found


def send(confluent: Confluent, topic: str, count: int, *, partitions: int) -> KeyedInput:
    """Make a topic; send `count` records in transactions of which every fourth is aborted."""
    confluent.create_topic(topic, partition_count=partitions)
    producer = Producer(
        {
            "bootstrap.servers": confluent.bootstrap,
            "transactional.id": f"input-of-{topic}",
            "compression.type": "lz4",
            "log_level": 0,
        }
    )
    producer.init_transactions(CALL_S)
    given = KeyedInput()
    for at, numbers in enumerate(_blocks(count)):
        producer.begin_transaction()
        sent = _send_all(producer, topic, numbers)
        if at % ABORTED_EVERY == ABORTED_EVERY - 1:
            producer.abort_transaction(CALL_S)
            given.invisible.update(numbers)
        else:
            producer.commit_transaction(CALL_S)
            given.visible.extend(sent)
    return given


def _blocks(count: int) -> Iterator[range]:
    for first in range(0, count, TRANSACTION_RECORDS):
        yield range(first, min(first + TRANSACTION_RECORDS, count))


def _send_all(producer: Any, topic: str, numbers: range) -> list[Sent]:
    """Return what the broker has acknowledged; all of it is in the log by then."""
    sent: dict[int, Sent] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        one = record_of_confluent(message)
        assert one.key is not None
        assert one.value is not None
        number = number_of(one.value)
        sent[number] = Sent(
            partition=one.partition,
            offset=one.offset,
            key=one.key,
            value=one.value,
            number=number,
        )

    for number in numbers:
        amount = "many" if number % DRIFTED_EVERY == 0 else number % 60
        value = {"event_id": f"e-{number}", "number": number, "amount": amount}
        producer.produce(topic, json.dumps(value), f"key-{number % KEYS}", on_delivery=delivered)
    assert producer.flush(CALL_S) == 0, "not acknowledged in time"
    return [sent[number] for number in numbers]


def number_of(value: bytes | str | None) -> int:
    """Return which record it is."""
    assert value is not None
    return int(json.loads(value)["number"])
