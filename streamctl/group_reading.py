"""Reading a topic as a member of a consumer group, which remembers how far its members came."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streamctl.connection import MOST_ANSWER, Connection, Trouble, consumer
from streamctl.errors import Failure, kafka_error, refusal
from streamctl.group_commits import PASSING, Commits, MembershipLost
from streamctl.group_plan import GroupPlan
from streamctl.groups import group_needs
from streamctl.output import counted, note
from streamctl.printable import Record
from streamctl.reading import record_of
from streamctl.requests import REQUEST_TIMEOUT_S
from streamctl.stall_watch import StallWatch

_POLL_S: Final = 0.2
_BATCH: Final = 500
_JOIN_S: Final = 60.0
_SHOWN: Final = 20  # partitions in a note
# Conditions of the coordinator that the client library itself gets over.
_PASSING: Final = PASSING | {
    "_RESOLVE",
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "FENCED_MEMBER_EPOCH",
}


class GroupReader:
    """Reads what a group has not read yet, and commits what `written` is told of.

    A partition without an offset gets one committed before it is read, so that a crash before
    the first record skips nothing.

    Attributes:
        count: records written so far.
    """

    def __init__(self, connection: Connection, plan: GroupPlan) -> None:
        self.count = 0
        self._plan = plan
        self._assigned: set[int] = set()
        self._joined = False  # ever
        self._rebalancing = True
        self._started = time.monotonic()
        self._next: dict[int, int] = {}
        self._finished: set[int] = set()
        self._batch: list[Record] = []
        self._heard = time.monotonic()
        self._committed_at = time.monotonic()
        self._failure: Failure | None = None  # of a callback
        settings = {
            **MOST_ANSWER,
            "group.id": plan.group,
            "enable.auto.commit": "false",  # the library cannot know what was written
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "earliest" if plan.from_beginning else "latest",
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": "250",
        }
        trouble = Trouble()
        self._consumer = consumer(connection, trouble, settings)
        self._watch = StallWatch(connection, plan.topic, trouble, gives_up=plan.stops is not None)
        self._commits = Commits(self._consumer, plan.topic)
        self._consumer.subscribe(
            [plan.topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def batches(self, stopped: Callable[[], bool]) -> Iterator[list[Record]]:
        """Yield records as they come, those of one partition in order, until the plan is done.

        Raises:
            Failure: the group or the broker refuses to go on.
        """
        while not stopped() and not self._done():
            self._gather(self._wait_s())
            self._watch.look(self._behind())
            if self._batch:
                self._heard = time.monotonic()
                yield self._batch
            elif self._idle():
                if self._plan.stops is not None:
                    self._watch.give_up(self._behind())
                return
            if time.monotonic() - self._committed_at >= self._plan.commit_every_s:
                self._commit()

    def written(self, records: Iterable[Record]) -> None:
        """Count records that reached their reader; their offsets are committed as planned."""
        for record in records:
            self.count += 1
            self._commits.add(record.partition, record.offset + 1)
        if not self._plan.commit_every_s:
            self._commit()

    def finish(self) -> None:
        """Commit all that was written. Raises Failure if that is refused."""
        self._commits.commit()

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _done(self) -> bool:
        if self._plan.limit is not None and self.count >= self._plan.limit:
            return True
        if self._plan.stops is None or self._rebalancing:
            return False
        return self._assigned <= self._finished

    def _behind(self) -> dict[int, int]:
        """Return the next offset of each partition that is not finished."""
        return {at: self._next[at] for at in self._assigned - self._finished if at in self._next}

    def _idle(self) -> bool:
        """Tell whether nothing came for too long since the group let us in."""
        idle_s, now = self._plan.idle_s, time.monotonic()
        if idle_s is None:
            return False
        if not self._joined and now - self._started >= max(_JOIN_S, idle_s):
            group = self._plan.group
            raise Failure(
                f"group {group!r} gave this member nothing to read for {_JOIN_S:g} s",
                fix=f"see who is in it: streamctl group describe {group} --members",
            )
        return self._joined and now - self._heard >= idle_s

    def _wait_s(self) -> float:
        if self._plan.idle_s is None or not self._joined:
            return _POLL_S
        return max(0.0, min(_POLL_S, self._heard + self._plan.idle_s - time.monotonic()))

    def _gather(self, wait_s: float) -> None:
        """Fill the batch; a partition revoked meanwhile takes its records out again."""
        self._batch = []
        left = None if self._plan.limit is None else self._plan.limit - self.count
        for _ in range(_BATCH if left is None else min(_BATCH, left)):
            message = self._poll(0 if self._batch else wait_s)
            if message is None:
                return
            self._take(message)

    def _poll(self, wait_s: float) -> Message | None:
        try:
            message = self._consumer.poll(wait_s)
        except SystemError:  # how the client shows an interrupt that came inside a callback
            raise KeyboardInterrupt from None
        if self._failure is not None:
            raise self._failure
        return message

    def _take(self, message: Message) -> None:
        error, partition = message.error(), message.partition()
        if error is None:
            record = record_of(message)
            self._next[record.partition] = record.offset + 1
            stop = None if self._plan.stops is None else self._plan.stops.get(record.partition)
            if stop is not None and record.offset >= stop - 1:
                self._finished.add(record.partition)
            if stop is None or record.offset < stop:
                self._batch.append(record)
        elif error.name() == "_PARTITION_EOF":
            self._ended(message)
        else:
            self._refused(error, partition if message.topic() is not None else None)

    def _ended(self, message: Message) -> None:
        """Take a partition's end; one that is read for ever is watched there, too."""
        partition, offset = message.partition(), message.offset()
        assert partition is not None  # an end is a partition's
        assert offset is not None
        self._next[partition] = offset
        if self._plan.stops is not None:
            self._finished.add(partition)

    def _refused(self, error: KafkaError, partition: int | None) -> None:
        if partition is not None:
            topic = self._plan.topic
            subject = f"topic {topic!r} partition {partition}"
            raise refusal(subject, error, needs=f"read --topic {topic}")
        if error.name() == "_MAX_POLL_EXCEEDED":
            note("out of the group: the output was not read for too long; joining again")
        elif error.name() not in _PASSING or error.fatal():
            raise self._group_refusal(error)

    def _group_refusal(self, error: KafkaError) -> Failure:
        group = self._plan.group
        return refusal(f"group {group!r}", error, needs=group_needs("read", group))

    def _commit(self) -> None:
        """Commit; go on when other members took over, since they read the same again."""
        try:
            self._commits.commit()
        except MembershipLost as refused:
            note(f"{refused.message}; {refused.fix}")
        self._committed_at = time.monotonic()

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._heard = time.monotonic()
        self._joined = True
        self._rebalancing = False
        self._assigned |= {at.partition for at in partitions}
        self._finished -= {at.partition for at in partitions}
        try:
            self._place(partitions)
        except Failure as failure:  # an exception in a callback would lose its type
            self._failure = failure
            return
        held = ", ".join(map(str, sorted(self._assigned)[:_SHOWN])) or "none"
        if len(self._assigned) > _SHOWN:
            held += ", …"
        count = counted(len(self._assigned), "partition")
        note(f"group {self._plan.group} reads {count} of {self._plan.topic}: {held}; Ctrl-C ends")

    def _place(self, partitions: list[TopicPartition]) -> None:
        """Commit where to start in those partitions that the group has no offset for."""
        if not partitions:
            return
        try:
            committed = self._consumer.committed(partitions, timeout=REQUEST_TIMEOUT_S)
        except KafkaException as exception:
            raise self._group_refusal(kafka_error(exception)) from exception
        for at in committed:
            if at.error is not None:
                raise refusal(f"offset of {at.topic!r} partition {at.partition}", at.error)
        self._next |= {at.partition: at.offset for at in committed}
        fresh = [at.partition for at in committed if at.offset < 0]
        if fresh:
            for index, offset in self._plan.starts(fresh).items():
                self._next[index] = offset
                self._commits.add(index, offset)
            self._commits.commit()
        stops = self._plan.stops or {}  # of what has been read already no end may be told in time
        self._finished |= {at for at, stop in stops.items() if self._next.get(at, -1) >= stop}

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit before another member takes over, and forget what was not written."""
        try:
            self._commits.commit_once()
        except Failure as refused:
            note(f"{refused.message}; {refused.fix}")
        self._forget(partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Forget partitions that another member may have taken over already."""
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        gone = {at.partition for at in partitions}
        self._assigned -= gone
        self._rebalancing = not self._assigned  # what is left is read on (KIP-429, KIP-848)
        self._commits.forget(gone)
        self._batch = [record for record in self._batch if record.partition not in gone]
