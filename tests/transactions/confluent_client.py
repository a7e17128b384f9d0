"""librdkafka, by confluent-kafka."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.transactions.client import (
    CALL_S,
    FETCH_WAIT_MS,
    TIMEOUT_MS,
    Fenced,
    Member,
    MustAbort,
    Read,
    TooLate,
)

SESSION_MS: Final = 45_000
FENCED: Final = (
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)
QUICK: Final = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


class ConfluentMember:
    """A consumer of a group."""

    def __init__(self, settings: Mapping[str, Any], topic: str, record_count: int) -> None:
        self._consumer = Consumer(dict(settings))
        self._consumer.subscribe([topic])
        for _ in range(record_count):
            message = self._consumer.poll(CALL_S)
            assert message is not None, f"nothing came in {CALL_S} s"
            assert message.error() is None, message.error()
        self.metadata = self._consumer.consumer_group_metadata()

    def leave(self) -> None:
        self._consumer.close()


class ConfluentWriter:
    """A transactional producer."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = Producer(dict(settings))

    def init(self) -> None:
        self._call(self._producer.init_transactions, CALL_S)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, records: Sequence[tuple[int, str]]) -> None:
        self._call(self._send, topic, records)

    def _send(self, topic: str, records: Sequence[tuple[int, str]]) -> None:
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        for partition, value in records:
            self._producer.produce(topic, value, partition=partition, on_delivery=delivered)
        unsent = self._producer.flush(CALL_S)
        assert not unsent, f"{unsent} records are not acknowledged"
        if failures:
            raise _named(failures[0])

    def send_offsets(self, topic: str, offsets: Mapping[int, int], member: Member) -> None:
        assert isinstance(member, ConfluentMember)
        places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        self._call(self._producer.send_offsets_to_transaction, places, member.metadata, CALL_S)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, CALL_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, CALL_S)

    def close(self) -> None:
        self._producer.purge()
        del self._producer

    def _call(self, call: Callable[..., object], *arguments: object) -> None:
        while True:
            try:
                call(*arguments)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.retriable():
                    continue
                raise _named(error) from failure
            return


def _named(error: KafkaError) -> Exception:
    if error.code() in FENCED:
        return Fenced(str(error))
    if error.txn_requires_abort():
        return MustAbort(str(error))
    if error.code() == KafkaError.INVALID_TXN_STATE:
        return TooLate(str(error))
    return KafkaException(error)


class ConfluentLibrary:
    """confluent-kafka."""

    name = "confluent"
    tells_group_metadata = True

    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap.servers": bootstrap, **QUICK}

    def writer(self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> ConfluentWriter:
        transactional = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "message.timeout.ms": timeout_ms,
            "linger.ms": 5,
        }
        return ConfluentWriter(self._common | transactional)

    def member(self, group: str, topic: str, record_count: int) -> ConfluentMember:
        settings = {
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        return ConfluentMember(self._common | settings, topic, record_count)

    def read(self, topic: str, *, committed: bool = True) -> list[Read]:
        settings = {
            "group.id": "assigned-by-hand",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "enable.partition.eof": True,  # said at the last stable offset to read_committed
        }
        consumer = Consumer(self._common | settings)
        try:
            unfinished = set(consumer.list_topics(topic, CALL_S).topics[topic].partitions)
            consumer.assign(
                [TopicPartition(topic, number, OFFSET_BEGINNING) for number in unfinished]
            )
            found = []
            while unfinished:
                message = consumer.poll(CALL_S)
                assert message is not None, f"{topic} does not end: {unfinished}"
                partition, offset, error = message.partition(), message.offset(), message.error()
                if error is None:
                    assert partition is not None
                    assert offset is not None
                    found.append(Read(partition, offset, _text(message.value())))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(partition)
                else:
                    raise KafkaException(error)
        finally:
            consumer.close()
        return found

    def end(self) -> None:
        """There is neither process nor thread of its own."""


def _text(value: str | bytes | None) -> str:
    assert isinstance(value, bytes)
    return value.decode()
