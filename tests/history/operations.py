"""What clients of one run did, as pure data: the words of every history and of its checks.

Keys stand for partitions: key k is partition k % 2 of the run's topic k // 2. Values are unique
within a key, so a value tells which operation wrote it. All times are of CLOCK_MONOTONIC of one
machine, in nanoseconds, so that they order what happened in different processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

NEVER_NS: Final = 2**63 - 1
"""When an operation ended that nobody saw the end of."""


class Kind(StrEnum):
    """What an operation is.

    Attributes:
        SEND: sends without a transaction; each stands for itself.
        POLL: polls without a transaction.
        TRANSACTION: sends and polls; its sends take effect together, or none of them does.
        ASSIGN: from now on the process reads these keys, each from an offset.
        SUBSCRIBE: from now on the process reads what its group gives it.
        ENDS: an answer to ListOffsets latest.
        CRASH: the process and its clients end; its number is never used again.
    """

    SEND = "send"
    POLL = "poll"
    TRANSACTION = "txn"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    ENDS = "ends"
    CRASH = "crash"


class Outcome(StrEnum):
    """How an operation ended.

    Attributes:
        OK: all of it took effect.
        FAIL: nothing that it sent took effect, nor ever will.
        INFO: nobody knows.
    """

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Entry(NamedTuple):
    """A value of a key: what is written once, and read any number of times."""

    key: int
    value: int


class Read(NamedTuple):
    """One record of a poll."""

    offset: int
    value: int


@dataclass(frozen=True, slots=True)
class Send:
    """One record sent.

    Attributes:
        offset: as acknowledged; None if it is not known.
        source: the record that this one is a copy of, if it is one.
    """

    entry: Entry
    offset: int | None = None
    source: Entry | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """The records of one poll, by key, in the order in which they came."""

    reads: Mapping[int, Sequence[Read]]


Action = Send | Poll


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a process reads.

    Attributes:
        starts: the offset at which each key begins; None if it is not known.
        final: the process reads everything from the beginning, after all is healed.
    """

    starts: Mapping[int, int | None]
    final: bool = False


@dataclass(frozen=True, slots=True)
class EndOffsets:
    """High watermarks (read uncommitted) or last stable offsets (read committed), by key."""

    isolation: Isolation
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation, from its call to its end.

    Attributes:
        index: unique in the history.
        process: one producer and one consumer; does one operation after the other.
        visible_ns: before this, nothing that it sent may be read: the call of its commit, or of
            the operation itself.
        ended_ns: NEVER_NS if nobody saw the end.
        actions: in order, of SEND, POLL and TRANSACTION.
        moved: keys that a rebalance took or gave during the operation.
        codes: Kafka's error codes that its attempts got, as far as they are known.
    """

    index: int
    process: int
    kind: Kind
    outcome: Outcome
    began_ns: int
    visible_ns: int
    ended_ns: int
    actions: Sequence[Action] = ()
    moved: frozenset[int] = frozenset()
    codes: Sequence[int] = ()
    assignment: Assignment | None = None
    ends: EndOffsets | None = None

    @property
    def sends(self) -> Iterator[Send]:
        return (action for action in self.actions if isinstance(action, Send))

    @property
    def reads(self) -> Iterator[tuple[int, Read]]:
        """Yield all records read, with their keys; those of one key in the order of reading."""
        for action in self.actions:
            if isinstance(action, Poll):
                for key, reads in action.reads.items():
                    for read in reads:
                        yield key, read

    def __str__(self) -> str:
        codes = f" {list(self.codes)}" if self.codes else ""
        return f"{self.kind} {self.index} of process {self.process} ({self.outcome}{codes})"
