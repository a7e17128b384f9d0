"""What the processors of the exactly-once test have in common, whichever library they use.

A processor copies numbered records from one topic to another, some at a time, in transactions that
also hold its offsets; some it aborts on purpose. It writes what it did to its page, one JSON object
a line; `at_s` is of the machine's monotonic clock:

    committed  transaction, records   the client said so
    aborted    transaction, reason    the client said so; reason "" is on purpose
    failed     reason                 a producer was given up, and another one begun
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

SOURCE_PARTITIONS: Final = 2
TARGET_PARTITIONS: Final = 3
KEYS: Final = 12  # a multiple of both, so that a key is in one partition of each
BATCH: Final = 40
ABORT_EVERY: Final = 10
ABORTED: Final = 3  # of each ABORT_EVERY transactions; so soon that each run has some
POLL_S: Final = 0.05
CALL_S: Final = 10.0
SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
REQUEST_TIMEOUT_MS: Final = 5_000
TRANSACTION_TIMEOUT_MS: Final = 10_000
MARK: Final = "transaction"
"""The header of a copy: fate, transaction and how many records that has, separated by spaces."""
COMMIT: Final = "commit"
ABORT: Final = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorSettings:
    """One processor.

    Attributes:
        name: who it is: its transactional id, or the first part of them.
        protocol: group.protocol of its consumer.
        page: the file to which it adds what it does.
    """

    name: str
    bootstrap: str
    group: str
    protocol: str
    source: str
    target: str
    page: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ProcessorSettings":
        return cls(**json.loads(text))

    def consumer(self) -> dict[str, Any]:
        """Return the settings of a librdkafka or Java consumer."""
        sessions = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        return (sessions if self.protocol == "classic" else {}) | {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.name,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "check.crcs": "true",
            **_quick(),
        }

    def producer(self) -> dict[str, Any]:
        """Return the settings of a librdkafka or Java producer."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.name,
            "transactional.id": self.name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "linger.ms": 5,
            **_quick(),
        }


def _quick() -> dict[str, Any]:
    """Return what makes a client find new brokers soon."""
    return {
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 200,
    }


def fate_of(count: int) -> str:
    """Return what a processor is to do with a transaction, by how many it had before."""
    return ABORT if count % ABORT_EVERY == ABORTED else COMMIT


def key_of(number: int) -> int:
    return number % KEYS


def target_partition(number: int) -> int:
    return key_of(number) % TARGET_PARTITIONS


def mark(fate: str, transaction: str, size: int) -> bytes:
    """Return the value of the header MARK."""
    return f"{fate} {transaction} {size}".encode()
