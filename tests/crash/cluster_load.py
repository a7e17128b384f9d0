"""What runs all the time: producers that never give up, and questions of how far all got."""

import asyncio
import time
from collections.abc import Callable
from itertools import count
from threading import Event, Lock
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

from tests.crash.cluster_ledger import (
    NO_OFFSET,
    PARTITIONS,
    PLACES,
    PRODUCERS,
    TOPICS,
    ClusterLedger,
    Sample,
    place_of,
)
from tests.crash.ledger import EndOffset, Position
from tests.crash.payload import encode
from tests.support.group_wire import fetch_request
from tests.support.wire import (
    ConnectionEnded,
    WireClient,
    build,
    milliseconds,
    request_entities,
)

RECORDS_PER_S: Final = 40  # of each producer; the faults are what the machine is to be busy with
MAX_UNACKNOWLEDGED: Final = 20_000
POLL_S: Final = 0.02
FLUSH_S: Final = 90.0
SAMPLE_EVERY_S: Final = 0.75  # of each broker
ASK_S: Final = 10.0  # a paused broker answers with what it knows when it goes on
LIST_OFFSETS: Final = 2
LIST_OFFSETS_VERSION: Final = 7
LATEST: Final = -1


class Producing:
    """The producers; each is a loop for a thread of its own, on a client of its own."""

    def __init__(self, bootstrap: str, ledger: ClusterLedger) -> None:
        self._bootstrap = bootstrap
        self._ledger = ledger
        self._one_at_a_time = Lock()  # acknowledgements are written down in the order of time

    def send(self, number: int, stop: Event) -> None:
        """Send values number, number + PRODUCERS, ... until `stop`; wait for their acks."""
        producer = Producer(_settings(self._bootstrap, number, self._hear))
        values = count(number, PRODUCERS)
        began_s = time.monotonic()
        sent = 0
        while not stop.is_set():
            due = int((time.monotonic() - began_s) * RECORDS_PER_S)
            while sent < due and len(producer) < MAX_UNACKNOWLEDGED:
                self._send(producer, next(values))
                sent += 1
            producer.poll(POLL_S)
        deadline = time.monotonic() + FLUSH_S
        while len(producer) and time.monotonic() < deadline:
            producer.poll(POLL_S)

    def _send(self, producer: Producer, value: int) -> None:
        place = value // PRODUCERS % PLACES
        self._ledger.log.sent[value] = place
        self._ledger.sent_s[value] = time.monotonic()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(value, error, message)

        producer.produce(
            TOPICS[place // PARTITIONS],
            value=encode(value),
            partition=place % PARTITIONS,
            on_delivery=delivered,
        )

    def _delivered(self, value: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._ledger.log.refused[value] = str(error)
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        if offset is None:
            with self._one_at_a_time:
                self._ledger.log.acknowledge_somewhere(value, time.monotonic())
            return
        position = Position(place_of(topic, partition), offset)
        with self._one_at_a_time:
            self._ledger.log.acknowledge(value, position, time.monotonic())

    def _hear(self, error: KafkaError) -> None:
        if error.fatal():
            self._ledger.log.complaints.append(f"producer: {error}")


def _settings(bootstrap: str, number: int, hear: Callable[[KafkaError], None]) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": f"producer-{number}",
        "enable.idempotence": True,
        "acks": "all",
        "message.timeout.ms": 0,  # never gives up
        "request.timeout.ms": 5_000,  # a paused broker is asked again before it goes on
        "linger.ms": 5,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 200,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "error_cb": hear,
        "log_level": 0,
    }


class Sampling:
    """Asks brokers for the committed offsets of all groups, and for the end offsets.

    It asks each of them, also about what it does not lead or coordinate: one that was away and
    believes that it does must not know less than was told before.
    """

    def __init__(self, ledger: ClusterLedger) -> None:
        self._ledger = ledger

    def follow(self, bootstrap: str, stop: Event) -> None:
        """Ask one broker again and again until `stop`; a loop for a thread of its own."""
        while not stop.wait(SAMPLE_EVERY_S):
            self.ask(bootstrap)

    def ask(self, bootstrap: str) -> None:
        """Ask one broker; one that does not answer, or coordinates elsewhere, says nothing."""
        try:
            asyncio.run(self._ask(bootstrap))
        except (OSError, ConnectionEnded, TimeoutError):
            return

    async def _ask(self, bootstrap: str) -> None:
        async with asyncio.timeout(ASK_S), await WireClient.connect(bootstrap) as wire:
            await self._ask_for_ends(wire)
            for group in self._ledger.groups:
                await self._ask_for_commits(wire, bootstrap, group)

    async def _ask_for_commits(self, wire: WireClient, bootstrap: str, group: str) -> None:
        request = fetch_request(group, {topic: range(PARTITIONS) for topic in TOPICS})
        began_s = time.monotonic()
        (answer,) = (await wire.ask(request)).groups
        ended_s = time.monotonic()
        told = [] if answer.error_code else answer.topics
        self._ledger.samples += [
            Sample(
                group=group,
                broker=bootstrap,
                place=place_of(topic.name, one.partition_index),
                offset=one.committed_offset,
                began_s=began_s,
                ended_s=ended_s,
            )
            for topic in told
            for one in topic.partitions
            if not one.error_code
        ]

    async def _ask_for_ends(self, wire: WireClient) -> None:
        began_s = time.monotonic()
        answer = await wire.ask(_ends_request())
        ended_s = time.monotonic()
        self._ledger.log.end_offsets += [
            EndOffset(
                Position(place_of(topic.name, one.partition_index), one.offset), began_s, ended_s
            )
            for topic in answer.topics
            for one in topic.partitions
            if not one.error_code
        ]

    def committed(self, group: str) -> dict[int, int]:
        """Return the latest answers: next offsets by place."""
        latest = (one for one in self._ledger.samples if one.group == group)
        return {one.place: one.offset for one in latest if one.offset != NO_OFFSET}


def _ends_request() -> Any:
    module = request_entities(LIST_OFFSETS, LIST_OFFSETS_VERSION)
    partitions = tuple(
        module.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=-1, timestamp=LATEST
        )
        for partition in range(PARTITIONS)
    )
    return build(
        module,
        "ListOffsetsRequest",
        replica_id=-1,
        isolation_level=0,
        topics=tuple(
            module.ListOffsetsTopic(name=topic, partitions=partitions) for topic in TOPICS
        ),
        timeout=milliseconds(1000),
    )
