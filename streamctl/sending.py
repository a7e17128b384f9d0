"""Sending records: idempotent, acknowledged by all replicas, every outcome counted."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from streamctl.connection import Connection, Trouble, producer
from streamctl.errors import Failure, kafka_error, refusal

SHOWN: Final = 20  # so many acknowledgements are shown one by one; after that, only counted
_POLL_S: Final = 0.1
_GIVEN_UP: Final = "given up"
_POLL_EVERY: Final = 64  # records; acknowledgements are looked at in heaps, not one by one

# What Java's producer does, so that a key meets its partition whichever client sends it.
SETTINGS: Final[Mapping[str, str]] = {
    "acks": "all",
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",
    "sticky.partitioning.linger.ms": "0",  # a keyless few lines would all meet in one partition
    "linger.ms": "5",
    "message.max.bytes": "104857600",  # the broker's limit is the one that counts
    "queue.buffering.max.kbytes": "131072",
    "delivery.timeout.ms": "30000",
}


Report = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One record to send; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None


class Sender:
    """Sends to one topic and counts what became of each record.

    Attributes:
        sent: records handed over.
        delivered: acknowledged by the broker.
        delivered_bytes: of their values.
        failures: how often each reason was given.
        fixes: what helps against each of them; empty when there is nothing to say.
        stalled: a record waited in vain for delivery.timeout.ms, so the next would, too.
        places: partition@offset of the records to show, by the order they were sent in.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        *,
        partition: int | None,
        headers: Sequence[tuple[str, bytes]],
        compression: str | None,
    ) -> None:
        settings = {**SETTINGS, **({"compression.type": compression} if compression else {})}
        self._trouble = Trouble()
        self._producer = producer(connection, self._trouble, settings)
        self._fixed: dict[str, Any] = {"topic": topic, "headers": list(headers)} | (
            {} if partition is None else {"partition": partition}
        )
        self._looked = time.monotonic()
        self.sent = 0
        self.delivered = 0
        self.delivered_bytes = 0
        self.failures: Counter[str] = Counter()
        self.fixes: dict[str, str] = {}
        self.stalled = False
        self.places: dict[int, str] = {}

    @property
    def failed(self) -> int:
        """Records that are not, or not known to be, in the log."""
        return self.failures.total()

    def send(self, record: Outgoing, *, show: bool) -> None:
        """Hand over a record; waits while too many are on their way, unless stalled.

        Args:
            record: to send.
            show: whether to remember its place.

        Raises:
            Failure: the producer can send nothing any more.
        """
        sequence = self.sent
        self.sent += 1
        report = self._shown_report(sequence) if show else self._report
        while True:
            try:
                self._producer.produce(
                    key=record.key, value=record.value, on_delivery=report, **self._fixed
                )
            except BufferError:  # the queue is full: let acknowledgements come in
                _hear(self._producer.poll, _POLL_S)
                if not self.stalled:
                    continue
                self.failures[_GIVEN_UP] += 1
            except KafkaException as exception:
                error = kafka_error(exception)
                if error.fatal():
                    raise Failure(f"the producer had to stop: {error.str()}") from exception
                self._failed(error)
            if self.sent % _POLL_EVERY == 0 or time.monotonic() - self._looked >= _POLL_S:
                self.look()
            return

    def look(self) -> None:
        """Look at what was acknowledged, or failed, meanwhile."""
        self._looked = time.monotonic()
        _hear(self._producer.poll, 0)

    def wait(self, *, at_most_s: float | None = None) -> bool:
        """Wait for acknowledgements; return whether none is missing.

        Args:
            at_most_s: return after that time; None waits for delivery.timeout.ms of each.
        """
        deadline = None if at_most_s is None else time.monotonic() + at_most_s
        while _hear(self._producer.flush, _POLL_S):  # in slices, so that Ctrl-C is noticed
            if deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    def give_up(self) -> None:
        """Count what is not acknowledged as failed; it may still reach the log."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self.look()

    def why_unreachable(self) -> str:
        """Return librdkafka's latest words on not reaching a broker, or nothing."""
        return self._trouble.reason

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(error)
            self.stalled = self.stalled or error.name() == "_MSG_TIMED_OUT"
            return
        self._trouble.reason = ""  # whatever it was, it is over
        self.delivered += 1
        self.delivered_bytes += len(message)

    def _failed(self, error: KafkaError) -> None:
        reason = _reason(error)
        if reason not in self.fixes:
            topic = self._fixed["topic"]
            self.fixes[reason] = refusal(topic, error, needs=f"write --topic {topic}").fix
        self.failures[reason] += 1

    def _shown_report(self, sequence: int) -> Report:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.places[sequence] = f"{message.partition()}@{message.offset()}"
            self._report(error, message)

        return report


def _hear(call: Callable[[float], int], wait_s: float) -> int:
    """Let reports come in. Raises KeyboardInterrupt, as Python does elsewhere."""
    try:
        return call(wait_s)
    except SystemError:  # how the client shows an interrupt that came inside a callback
        raise KeyboardInterrupt from None


def _reason(error: KafkaError) -> str:
    if error.name() == "_MSG_TIMED_OUT":
        return "no broker acknowledged it in time"
    if error.name().startswith("_PURGE"):
        return _GIVEN_UP
    return f"{error.str().removeprefix('Broker: ')} ({error.name().lstrip('_')})"
