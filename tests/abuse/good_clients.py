"""Clients that mean well, as a process of their own: what they feel while others misbehave.

A librdkafka producer sends records at a steady rate and times each acknowledgement; a consumer
reads them and times the way from end to end. Lines on standard input name the phase that begins; at
its end one line of JSON tells the latencies of each phase: of the records that were sent in it, so
that none has what was late before.
"""

import json
import struct
import sys
import threading
import time
from collections import defaultdict
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer

WARM_UP: Final = "warm-up"
ACKNOWLEDGED: Final = "acknowledged"
END_TO_END: Final = "end to end"

_SENT: Final = struct.Struct(">d")
_RECORD_BYTES: Final = 200
_TICK_S: Final = 0.005
_DRAIN_S: Final = 20.0

# The error log would be told as the attack's; what fails is counted.
_QUIET: Final = {"log_level": 0}


class GoodClients:
    """A producer and a consumer of one topic.

    Attributes:
        errors: of either of them, by text.
    """

    def __init__(self, bootstrap: str, topic: str, records_per_s: int, linger_ms: float) -> None:
        self._phases = [(0.0, WARM_UP)]  # since when, by the clock of the records
        self.errors: dict[str, int] = defaultdict(int)
        self._bootstrap, self._topic, self._records_per_s = bootstrap, topic, records_per_s
        self._linger_ms = linger_ms
        self._samples: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._stop = threading.Event()
        self._sent = self._acknowledged = self._read = 0

    def run(self) -> dict[str, Any]:
        """Work until standard input ends; return what was felt."""
        threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]
        for thread in threads:
            thread.start()
        for line in sys.stdin:
            self.begin(line.strip())
        self._stop.set()
        for thread in threads:
            thread.join()
        return {
            "sent": self._sent,
            "acknowledged": self._acknowledged,
            "read": self._read,
            "errors": self.errors,
            "samples": [
                {"phase": phase, "kind": kind, "count": len(found), **_quantiles(found)}
                for (phase, kind), found in self._samples.items()
            ],
        }

    def begin(self, phase: str) -> None:
        """Count what is sent from now on for that phase."""
        self._phases.append((time.time(), phase))

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": self._linger_ms,
                "client.id": "good-producer",
                **_QUIET,
            }
        )

        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                self.errors[str(error)] += 1
                return
            self._acknowledged += 1
            self._note(ACKNOWLEDGED, message)

        began_s = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - began_s) * self._records_per_s)
            while self._sent < due:
                value = _SENT.pack(time.time()) + bytes(_RECORD_BYTES)
                producer.produce(self._topic, value, key=b"k", on_delivery=delivered)
                self._sent += 1
            producer.poll(_TICK_S)
        producer.flush(_DRAIN_S)

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "good-group",
                "auto.offset.reset": "earliest",
                "client.id": "good-consumer",
                "fetch.wait.max.ms": 500,
                **_QUIET,
            }
        )
        consumer.subscribe([self._topic])
        end_s = float("inf")
        while time.monotonic() < end_s:
            message = consumer.poll(0.1)
            if self._stop.is_set() and end_s == float("inf"):
                end_s = time.monotonic() + _DRAIN_S
            if self._stop.is_set() and self._read >= self._sent:
                break
            if message is None:
                continue
            if message.error() is not None:
                self.errors[str(message.error())] += 1
                continue
            self._read += 1
            self._note(END_TO_END, message)
        consumer.close()

    def _note(self, kind: str, message: Message) -> None:
        (sent_s,) = _SENT.unpack_from(message.value() or b"")
        phase = next(name for since_s, name in reversed(self._phases) if since_s <= sent_s)
        self._samples[phase, kind].append(time.time() - sent_s)


def _quantiles(seconds: list[float]) -> dict[str, float]:
    """Return latencies in ms."""
    ordered = sorted(seconds)
    return {
        name: round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 3)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("most", 1.0))
    }


if __name__ == "__main__":
    bootstrap, topic, rate, linger_ms = sys.argv[1:]
    json.dump(GoodClients(bootstrap, topic, int(rate), float(linger_ms)).run(), sys.stdout)
