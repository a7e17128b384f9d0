"""Reading records from chosen partitions and offsets, without a consumer group."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Message,
    TopicPartition,
)

from streamctl.connection import MOST_ANSWER, Connection, Trouble, consumer
from streamctl.errors import refusal
from streamctl.printable import Bytes, Record
from streamctl.stall_watch import StallWatch

_POLL_S: Final = 0.2
_BATCH: Final = 500
_TIMESTAMP_TYPES: Final = {
    TIMESTAMP_CREATE_TIME: "create",
    TIMESTAMP_LOG_APPEND_TIME: "log-append",
}
SETTINGS: Final[Mapping[str, str]] = {
    **MOST_ANSWER,
    # librdkafka wants a group's name even where no group is joined and no offset committed
    "group.id": "streamctl",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # starts are checked before; later, retention may have overtaken a slow reader
    "auto.offset.reset": "earliest",
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": "250",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What to read.

    Attributes:
        starts: first offset by partition.
        stops: exclusive; a partition is finished there. None to go on for ever.
        limit: records in all; None for no limit.
        idle_s: stop when nothing came for so long; None to wait for ever.
    """

    topic: str
    starts: Mapping[int, int]
    stops: Mapping[int, int] | None
    limit: int | None
    idle_s: float | None


class Reader:
    """Reads a plan once.

    Attributes:
        count: records yielded so far.
    """

    def __init__(self, connection: Connection, plan: ReadPlan) -> None:
        self._plan = plan
        self._trouble = Trouble()
        self._consumer = consumer(connection, self._trouble, SETTINGS)
        self._behind = {
            at: start
            for at, start in sorted(plan.starts.items())
            if plan.stops is None or start < plan.stops[at]
        }
        self._consumer.assign(
            [TopicPartition(plan.topic, at, start) for at, start in self._behind.items()]
        )
        self._watch = StallWatch(
            connection, plan.topic, self._trouble, gives_up=plan.stops is not None
        )
        self.count = 0

    def batches(self) -> Iterator[list[Record]]:
        """Yield records as they come, those of one partition in order, until the plan is done.

        Raises:
            Failure: the broker refuses to go on, e.g. because the topic was deleted.
        """
        heard = time.monotonic()
        while (self._behind or self._plan.stops is None) and self._wanted() > 0:
            wait_s = _POLL_S
            if self._plan.idle_s is not None:
                left_s = heard + self._plan.idle_s - time.monotonic()
                if left_s <= 0:
                    if self._plan.stops is not None:
                        self._watch.give_up(self._behind)
                    return
                wait_s = min(wait_s, left_s)
            try:
                first = self._consumer.poll(wait_s)
            except SystemError:  # how the client shows an interrupt that came inside a callback
                raise KeyboardInterrupt from None
            self._watch.look(self._behind)
            if first is None:
                continue
            # poll answers at once with the first record; what else is there comes with it
            rest = min(_BATCH, self._wanted()) - 1
            more = self._consumer.consume(rest, 0) if rest else []
            records = self._taken([first, *more])
            if records:
                heard = time.monotonic()
                self.count += len(records)
                yield records

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def _wanted(self) -> int:
        """Return how many records may be asked for at once."""
        return _BATCH if self._plan.limit is None else self._plan.limit - self.count

    def _ended(self, message: Message) -> None:
        """Take a partition's end; one that is read for ever is watched there, too."""
        partition, offset = message.partition(), message.offset()
        assert partition is not None  # an end is a partition's
        assert offset is not None
        if self._plan.stops is not None:
            self._behind.pop(partition, None)
        else:
            self._behind[partition] = offset

    def _taken(self, messages: list[Message]) -> list[Record]:
        taken: list[Record] = []
        for message in messages:
            error = message.error()
            partition = message.partition()
            if error is not None:
                if error.name() == "_PARTITION_EOF":
                    self._ended(message)
                elif message.topic() is not None:
                    raise refusal(
                        *(f"topic {self._plan.topic!r} partition {partition}", error),
                        needs=f"read --topic {self._plan.topic}",
                    )
                continue  # errors of no partition are the coordinator's, and nobody asked it
            record = record_of(message)
            stop = None if self._plan.stops is None else self._plan.stops[record.partition]
            if stop is not None and record.offset >= stop - 1:
                self._behind.pop(record.partition, None)
            elif record.partition in self._behind:
                self._behind[record.partition] = record.offset + 1
            if stop is None or record.offset < stop:
                taken.append(record)
        return taken


def timestamp_of(message: Message) -> tuple[str, int | None]:
    """Return the timestamp's type (create, log-append or none) and its milliseconds."""
    kind, timestamp_ms = message.timestamp()
    named = _TIMESTAMP_TYPES.get(kind)
    return ("none", None) if named is None else (named, timestamp_ms)


def record_of(message: Message) -> Record:
    """Return a message that is not an error as a record."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None  # a message without an error has a place
    assert partition is not None
    assert offset is not None
    timestamp_type, timestamp_ms = timestamp_of(message)
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        timestamp_type=timestamp_type,
        key=message.key(),
        value=message.value(),
        headers=_headers_of(message),
    )


def _headers_of(message: Message) -> list[tuple[str, Bytes]] | None:
    try:
        headers = message.headers() or []
    except SystemError:  # how the client shows a name that is not UTF-8
        return None
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]
