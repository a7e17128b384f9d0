"""One librdkafka consumer of a group, as a program. Its argument is a Settings as JSON."""

import sys
import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.groups.settings import Settings, librdkafka_properties
from tests.groups.telling import SOURCE, Reading, say, stopping

POLL_S: Final = 0.05
BATCH: Final = 200
CALL_S: Final = 90.0


class Copier:
    """Sends records on, idempotently; what was sent is acknowledged when `flush` returns."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(CALL_S * 1000),
            }
        )

    def send(self, message: Message) -> None:
        source = f"{message.partition()} {message.offset()}"
        self._producer.produce(
            self._topic, value=message.value(), headers={SOURCE: source}, on_delivery=_delivered
        )

    def flush(self) -> None:
        unsent = self._producer.flush(CALL_S)
        assert unsent == 0, f"{unsent} records are not acknowledged"


class Member:
    """A consumer that reads, tells, copies and commits until it is told to stop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._consumer = Consumer(librdkafka_properties(settings))
        self._copier = Copier(settings.bootstrap, settings.copy_to) if settings.copy_to else None
        self._reading = Reading()
        self._uncopied: list[Message] = []

    def run(self) -> None:
        stop = stopping()
        self._begin()
        commit_s = self._settings.commit_ms / 1000
        due_s = time.monotonic() + commit_s
        while not stop.is_set():
            self._poll()
            self._pass_on()
            if time.monotonic() >= due_s:
                self._commit()
                due_s = time.monotonic() + commit_s
        self._commit()
        say("leaving")
        began_s = time.monotonic()
        self._consumer.close()
        say("closed", took_s=time.monotonic() - began_s)

    def _begin(self) -> None:
        topic = self._settings.topic
        if not self._settings.assigned:
            self._consumer.subscribe(
                [topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
            return
        partitions = [TopicPartition(topic, number) for number in self._settings.assigned]
        committed = self._consumer.committed(partitions, timeout=CALL_S)
        offsets = {
            place.partition: None if place.offset < 0 else [place.offset, place.metadata or ""]
            for place in committed
        }
        say("found", offsets=offsets)
        self._consumer.assign(partitions)
        say("assigned", partitions=list(self._settings.assigned))

    def _poll(self) -> None:
        """Read what is there, up to BATCH records; wait for the first one only."""
        wait_s = POLL_S
        for _ in range(BATCH):
            message = self._consumer.poll(wait_s)
            if message is None:
                return
            wait_s = 0
            if error := message.error():
                raise KafkaException(error)
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self._reading.add(partition, offset, message.value())
            self._uncopied.append(message)

    def _pass_on(self) -> None:
        """Tell what was read, then copy it: nothing is copied that nobody has heard of."""
        self._reading.tell()
        if self._copier is not None:
            for message in self._uncopied:
                self._copier.send(message)
        self._uncopied.clear()

    def _commit(self) -> None:
        self._pass_on()
        if self._copier is not None:
            self._copier.flush()
        offsets = dict(self._reading.uncommitted)
        if self._settings.auto_commit or not offsets:
            return
        places = [
            TopicPartition(self._settings.topic, partition, offset, self._settings.metadata)
            for partition, offset in offsets.items()
        ]
        try:
            answered = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as refused:
            say("refused", error=str(refused))
            return
        for place in answered or ():
            if place.error is not None:
                say("refused", error=str(place.error))
                return
        self._reading.committed(offsets)

    def _assigned(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        say("assigned", partitions=_numbers(places))

    def _revoked(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self._commit()
        self._gone("revoked", places)

    def _lost(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self._pass_on()
        self._gone("lost", places)

    def _gone(self, event: str, places: list[TopicPartition]) -> None:
        say(event, partitions=_numbers(places))
        self._reading.forget(_numbers(places))


def _numbers(places: list[TopicPartition]) -> list[int]:
    return sorted(place.partition for place in places)


def _delivered(error: object, _message: Message) -> None:
    assert error is None, f"a copy was not acknowledged: {error}"


if __name__ == "__main__":
    try:
        Member(Settings.from_json(sys.argv[1])).run()
    except KafkaException as failure:
        say("error", error=str(failure))
