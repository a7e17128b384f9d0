"""Offsets on their way into a group: what was written and is not committed yet."""

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamctl.errors import Failure, kafka_error
from streamctl.output import counted

COMMIT_TIMEOUT_S: Final = 30.0
_RETRY_S: Final = 0.1
# The coordinator is moving, or the group is about to know this member again.
PASSING: Final = frozenset(
    {
        "_TRANSPORT",
        "_TIMED_OUT",
        "_ALL_BROKERS_DOWN",
        "_WAIT_COORD",
        "REQUEST_TIMED_OUT",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "REBALANCE_IN_PROGRESS",
        "STALE_MEMBER_EPOCH",
    }
)
# Other members may own the partitions by now.
_LOST: Final = frozenset(
    {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "_ASSIGNMENT_LOST"}
)


class MembershipLost(Failure):
    """The group does not know this member any more, so it takes no offsets from it."""


class Commits:
    """Offsets of one topic that a consumer shall commit: the next to read, by partition."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._offsets: dict[int, int] = {}

    def add(self, partition: int, offset: int) -> None:
        """Note that all records before `offset` were written."""
        self._offsets[partition] = offset

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop the offsets of partitions that another member may own now."""
        for partition in partitions:
            self._offsets.pop(partition, None)

    def commit(self) -> None:
        """Commit, and wait for the answer; try again while the coordinator is moving.

        Raises:
            MembershipLost: the offsets are dropped: to commit them later could move the
                group back.
            Failure: refused, or nobody took them within COMMIT_TIMEOUT_S.
        """
        give_up = time.monotonic() + COMMIT_TIMEOUT_S
        while self._offsets:
            error = self._try()
            if error is None:
                self._offsets = {}
            elif error.name() in PASSING and time.monotonic() < give_up:
                time.sleep(_RETRY_S)
            else:
                raise self._refused(error)

    def commit_once(self) -> None:
        """Commit with a single try: a rebalance waits meanwhile. Raises as commit does."""
        if self._offsets:
            error = self._try()
            if error is not None:
                raise self._refused(error)
            self._offsets = {}

    def _try(self) -> KafkaError | None:
        wanted = [TopicPartition(self._topic, at, offset) for at, offset in self._offsets.items()]
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as exception:
            return kafka_error(exception)
        return next((at.error for at in answers or () if at.error is not None), None)

    def _refused(self, error: KafkaError) -> Failure:
        kind = MembershipLost if error.name() in _LOST else Failure
        refused = kind(
            f"messages of {counted(len(self._offsets), 'partition')} were shown but not "
            f"committed: {error.str().removeprefix('Broker: ')} ({error.name().lstrip('_')})",
            fix="whoever reads on in the group gets them again",
        )
        self._offsets = {}
        return refused
