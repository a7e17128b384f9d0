"""A processor on librdkafka; its argument is ProcessorSettings as JSON.

One producer per processor: the group's metadata goes with the offsets, so that a member that has
lost its partitions cannot commit (KIP-447).
"""

import sys
import uuid
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.crash.cluster_member import Page
from tests.crash.exactly_once_settings import (
    ABORT,
    BATCH,
    CALL_S,
    MARK,
    POLL_S,
    ProcessorSettings,
    fate_of,
    mark,
    target_partition,
)
from tests.groups.telling import stopping

QUIET: Final = {"log_level": 0}
T = TypeVar("T")


class Processor:
    """Reads, copies and commits until it is told to stop."""

    def __init__(self, settings: ProcessorSettings, page: Page) -> None:
        self._settings = settings
        self._page = page
        life = uuid.uuid4().hex[:8]
        self._transactions = ((f"{settings.name}-{life}-{at}", fate_of(at)) for at in count())
        self._consumer = Consumer(settings.consumer() | QUIET)
        self._producer = self._new_producer()
        self._batch: list[Message] = []

    def run(self) -> None:
        stop = stopping()
        self._consumer.subscribe(
            [self._settings.source], on_revoke=self._taken, on_lost=self._taken
        )
        while not stop.is_set():
            self._read()
            if self._batch:
                self._process(*next(self._transactions))
                self._batch.clear()
        self._consumer.close()

    def _new_producer(self) -> Producer:
        """Return a producer; whatever another one of this name had begun is aborted."""
        while True:
            producer = Producer(self._settings.producer() | QUIET)
            try:
                until_answered(producer.init_transactions, CALL_S)
            except KafkaException as failure:
                self._page.write("failed", reason=str(failure))
                continue
            return producer

    def _read(self) -> None:
        """Read what is there, up to BATCH records; wait for the first one only."""
        wait_s = POLL_S
        while len(self._batch) < BATCH:
            message = self._consumer.poll(wait_s)
            if message is None:
                return
            if (error := message.error()) is not None:
                if error.fatal():
                    raise KafkaException(error)
                continue  # the client asks again by itself
            wait_s = 0
            self._batch.append(message)

    def _process(self, transaction: str, fate: str) -> None:
        try:
            self._transact(transaction, fate)
        except KafkaException as failure:
            self._recover(transaction, failure.args[0])

    def _transact(self, transaction: str, fate: str) -> None:
        header = mark(fate, transaction, len(self._batch))
        self._producer.begin_transaction()
        for message in self._batch:
            value = message.value()
            assert isinstance(value, bytes)
            self._producer.produce(
                self._settings.target,
                value,
                message.key(),
                partition=target_partition(int(value)),
                headers={MARK: header},
            )
        if fate == ABORT:
            self._producer.flush(CALL_S)  # else the client drops what it has not sent
            until_answered(self._producer.abort_transaction, CALL_S)
            self._page.write("aborted", transaction=transaction, reason="")
            self._rewind()
            return
        until_answered(
            self._producer.send_offsets_to_transaction,
            self._next_offsets(),
            self._consumer.consumer_group_metadata(),
            CALL_S,
        )
        until_answered(self._producer.commit_transaction, CALL_S)
        self._page.write("committed", transaction=transaction, records=len(self._batch))

    def _recover(self, transaction: str, error: KafkaError) -> None:
        """Do what the client asks for: abort, or begin with a new producer; then read again."""
        if not (error.txn_requires_abort() and self._aborts(transaction, str(error))):
            self._page.write("failed", reason=str(error))
            self._producer.purge()
            self._producer = self._new_producer()
        self._rewind()

    def _aborts(self, transaction: str, reason: str) -> bool:
        try:
            until_answered(self._producer.abort_transaction, CALL_S)
        except KafkaException as failure:
            self._page.write("failed", reason=f"abort: {failure}")
            return False
        self._page.write("aborted", transaction=transaction, reason=reason)
        return True

    def _next_offsets(self) -> list[TopicPartition]:
        """Return the offsets behind the batch."""
        offsets: dict[int, int] = {}
        for message in self._batch:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            offsets[partition] = offset + 1
        source = self._settings.source
        return [TopicPartition(source, partition, next_) for partition, next_ in offsets.items()]

    def _rewind(self) -> None:
        """Go back to what is committed."""
        assigned = self._consumer.assignment()
        for place in until_answered(self._committed, assigned) if assigned else ():
            offset = place.offset if place.offset >= 0 else OFFSET_BEGINNING
            until_answered(
                self._consumer.seek, TopicPartition(place.topic, place.partition, offset)
            )

    def _committed(self, assigned: list[TopicPartition]) -> list[TopicPartition]:
        while True:
            try:
                found = self._consumer.committed(assigned, timeout=CALL_S)
            except KafkaException as failure:
                self._page.write("failed", reason=f"committed offsets: {failure}")
                continue
            if all(place.error is None for place in found):
                return list(found)

    def _taken(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        """Forget what was read from partitions that another one has now, and not yet copied."""
        taken = {place.partition for place in places}
        self._batch = [one for one in self._batch if one.partition() not in taken]


def until_answered(call: Callable[..., T], *arguments: object) -> T:
    """Call until the client does not ask for it again.

    Raises:
        KafkaException: that calling again does not help.
    """
    while True:
        try:
            return call(*arguments)
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


if __name__ == "__main__":
    chosen = ProcessorSettings.from_json(sys.argv[1])
    with Path(chosen.page).open("a") as output:
        Processor(chosen, Page(output)).run()
