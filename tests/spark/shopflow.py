"""ShopFlow's order events: seeded ones with all that goes wrong, and the seed's own four."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "order_events"
START: Final = datetime(2026, 6, 24, 10, tzinfo=UTC)
RECORDS: Final = "topic string, partition int, offset long, key binary, value binary"

# What the running total 10, 35, 40, 100 comes from.
TRACE: Final = (10, 25, 5, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A record of the topic, and what it says.

    Attributes:
        body: None for a record that is not an event; its value is then `garbage`.
        event_time: UTC.
        amount: None where the event has none.
    """

    partition: int
    offset: int
    key: str
    event_id: str = ""
    order_id: int = 0
    event_type: str = "paid"
    event_time: datetime = START
    amount: Decimal | None = None
    garbage: bytes | None = None
    is_event: bool = True

    @property
    def value(self) -> bytes | None:
        if not self.is_event:
            return self.garbage
        body: dict[str, Any] = {
            "event_id": self.event_id,
            "order_id": self.order_id,
            "event_type": self.event_type,
            "ts": self.event_time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        if self.amount is not None:
            body["amount"] = float(self.amount)
        return json.dumps(body).encode()


def trace() -> list[Event]:
    """Return the four payments of the seed, in one partition."""
    return [
        Event(
            partition=0,
            offset=offset,
            key=f"customer-{offset % 2}",
            event_id=f"e-{offset}",
            order_id=1001 + offset,
            event_time=START + timedelta(minutes=offset),
            amount=Decimal(amount),
        )
        for offset, amount in enumerate(TRACE)
    ]


def order_events(seed: int, count: int, *, partitions: int = 3, customers: int = 12) -> list[Event]:
    """Return a log: out of order, late, twice, unreadable here and there; the same for a seed.

    Keys stay in one partition. Times go on by 7.5 seconds an event on average; most events
    are up to two minutes out of order, some are half an hour to two hours late.
    """
    chance = random.Random(seed)
    log: list[list[Event]] = [[] for _ in range(partitions)]
    now = START
    for number in range(count):
        now += timedelta(seconds=chance.randrange(16))
        customer = chance.randrange(customers)
        written = log[customer % partitions]
        place = Event(
            partition=customer % partitions, offset=len(written), key=f"customer-{customer}"
        )
        what = chance.random()
        if what < 0.05 and written:  # a retry, seconds or hours after the first
            recent = written[-20:] if chance.random() < 0.8 else written
            again = chance.choice(recent)
            written.append(replace(again, partition=place.partition, offset=place.offset))
            continue
        if what < 0.07:
            garbage = chance.choice([None, b"", b"{", b"[1]", b'{"order_id": 7}'])
            written.append(replace(place, is_event=False, garbage=garbage))
            continue
        written.append(_event(chance, number, now, place))
    return [event for part in log for event in part]


def _event(chance: random.Random, number: int, now: datetime, place: Event) -> Event:
    behind_s = chance.randrange(120) if chance.random() < 0.92 else chance.randrange(1800, 7200)
    kind = chance.choices(["paid", "placed", "shipped"], [6, 2, 1])[0]
    has_amount = kind == "paid" and chance.random() < 0.98
    return replace(
        place,
        event_id=f"e-{number}",
        order_id=1000 + number,
        event_type=kind,
        event_time=now - timedelta(seconds=behind_s, microseconds=chance.randrange(1000)),
        amount=Decimal(chance.randrange(100, 20_000)) / 100 if has_amount else None,
    )


def records(session: SparkSession, events: Iterable[Event], *, topic: str = TOPIC) -> DataFrame:
    """Return a log as a source of records gives it."""
    rows = [(topic, each.partition, each.offset, each.key.encode(), each.value) for each in events]
    return session.createDataFrame(rows, RECORDS)


def produce(bootstrap: str, topic: str, events: Iterable[Event]) -> None:
    """Send a log as it is: each event into its partition, in its order."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    for each in events:
        producer.produce(topic, each.value, each.key.encode(), each.partition)
    assert producer.flush(30) == 0
    producer.close()


def in_batches(seed: int, events: Sequence[Event], count: int) -> list[list[Event]]:
    """Cut a log as a source does: each batch goes on in each partition where the last ended."""
    chance = random.Random(seed)
    by_partition: dict[int, list[Event]] = {}
    for event in events:
        by_partition.setdefault(event.partition, []).append(event)
    batches: list[list[Event]] = [[] for _ in range(count)]
    for part in by_partition.values():
        cuts = sorted(chance.choices(range(len(part) + 1), k=count - 1))
        for batch, start, end in zip(batches, [0, *cuts], [*cuts, len(part)], strict=True):
            batch.extend(part[start:end])
    return batches
