"""The stock clients of a recorded run, and where its keys are."""

from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

KEYS: Final = 8
PARTITIONS: Final = 2
TOPICS: Final = tuple(f"history-{number}" for number in range(KEYS // PARTITIONS))
DELIVERY_MS: Final = 10_000
REQUEST_MS: Final = 3_000

# What a client may be told while brokers are away: it goes on by itself.
EXCUSED: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,  # of librdkafka's own picture of the cluster
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,  # before it was sent: the broker was away all the time
        KafkaError._TRANSPORT,
        KafkaError._UNKNOWN_PARTITION,  # it has no leader for it while its broker is down
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)

_ANY: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "log_level": 0,
}


def partition_of(key: int, offset: int = OFFSET_INVALID) -> TopicPartition:
    return TopicPartition(TOPICS[key // PARTITIONS], key % PARTITIONS, offset)


def key_of(topic: str | None, partition: int | None) -> int:
    assert topic is not None
    assert partition is not None
    return TOPICS.index(topic) * PARTITIONS + partition


def new_consumer(bootstrap: str, group_id: str) -> Consumer:
    """Return a client that reads committed records, and never jumps by itself."""
    return Consumer(
        _ANY
        | {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
        }
    )


def idempotent_producer(bootstrap: str) -> Producer:
    return Producer(
        _ANY
        | {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": DELIVERY_MS,
            "socket.timeout.ms": REQUEST_MS,
            "linger.ms": 2,
        }
    )


def single_attempt_producer(bootstrap: str) -> Producer:
    """Return a client that tells the code of its only attempt, which a retry would hide.

    It may try again where it knows that it has sent nothing, or is told that by the broker.
    """
    return Producer(
        _ANY
        | {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": False,
            "message.send.max.retries": 0,
            "acks": "all",
            "message.timeout.ms": DELIVERY_MS,
            "socket.timeout.ms": REQUEST_MS,
            "linger.ms": 0,
        }
    )


def transactional_producer(bootstrap: str, transactional_id: str, timeout_ms: int) -> Producer:
    """Return a client whose deliveries and requests take no longer than its transactions."""
    return Producer(
        _ANY
        | {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "acks": "all",
            "message.timeout.ms": min(DELIVERY_MS, timeout_ms),
            "socket.timeout.ms": min(REQUEST_MS, timeout_ms),
            "linger.ms": 2,
        }
    )


def new_admin(bootstrap: str) -> AdminClient:
    return AdminClient(_ANY | {"bootstrap.servers": bootstrap})
