"""The topics of the exactly-once test, read from their beginnings to their ends."""

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.crash.exactly_once_checks import Copy, Output
from tests.crash.exactly_once_settings import (
    MARK,
    SOURCE_PARTITIONS,
    TARGET_PARTITIONS,
    TRANSACTION_TIMEOUT_MS,
)

SILENCE_S: Final = 60.0
LATE_S: Final = 20.0  # a broker that is busy is late


class Reading(NamedTuple):
    """What was read, and the offset of each partition at which the broker said that it ends."""

    messages: Sequence[Message]
    ends: dict[int, int]


def read_topic(bootstrap: str, topic: str, partitions: int, *, committed: bool) -> Reading:
    """Read to the end, which is the last stable offset for committed records.

    Raises:
        AssertionError: the client got nothing more, and no end, for SILENCE_S.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "assigned-by-hand",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, at, OFFSET_BEGINNING) for at in range(partitions)])
    messages: list[Message] = []
    ends: dict[int, int] = {}
    heard_s = time.monotonic()
    try:
        while len(ends) < partitions:
            message = consumer.poll(1.0)
            assert time.monotonic() < heard_s + SILENCE_S, f"{topic} ends nowhere but at {ends}"
            if message is None:
                continue
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[_known(message.partition())] = _known(message.offset())
            else:
                continue  # it asks again by itself
            heard_s = time.monotonic()
    finally:
        consumer.close()
    return Reading(messages, ends)


def read_source(bootstrap: str, topic: str) -> list[int]:
    """Return the numbers in the input."""
    reading = read_topic(bootstrap, topic, SOURCE_PARTITIONS, committed=True)
    return [int(_bytes(message.value())) for message in reading.messages]


def read_output(bootstrap: str, topic: str, output: Output) -> None:
    """Read an output topic in both ways, when no transaction is open any more.

    Whatever a producer that is gone has left open ends within its timeout, and a little more.
    """
    deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000 + LATE_S
    while True:
        everything = read_topic(bootstrap, topic, TARGET_PARTITIONS, committed=False)
        visible = read_topic(bootstrap, topic, TARGET_PARTITIONS, committed=True)
        if visible.ends == everything.ends or time.monotonic() > deadline:
            break
    output.visible = [_copy(message) for message in visible.messages]
    output.everything = [_copy(message) for message in everything.messages]
    output.stable_ends, output.ends = visible.ends, everything.ends


def _copy(message: Message) -> Copy:
    headers = dict(message.headers() or ())
    fate, transaction, size = _bytes(headers[MARK]).decode().split()
    return Copy(
        partition=_known(message.partition()),
        offset=_known(message.offset()),
        key=int(_bytes(message.key())),
        number=int(_bytes(message.value())),
        fate=fate,
        transaction=transaction,
        size=int(size),
    )


def _known(number: int | None) -> int:
    assert number is not None
    return number


def _bytes(found: object) -> bytes:
    assert isinstance(found, bytes)
    return found
