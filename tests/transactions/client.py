"""What the tests ask of a stock client library, whichever it is."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from tests.support.host import Stopwatch

CALL_S: Final = 90.0
TIMEOUT_MS: Final = 90_000
FETCH_WAIT_MS: Final = 50  # readers are asked for the end of a topic all the time
GLANCE_S: Final = 0.05


class Fenced(Exception):
    """The client said that its producer is fenced: nothing more can be done with it."""


class MustAbort(Exception):
    """The client said that the transaction has failed and has to be aborted."""


class TooLate(Exception):
    """The client said that the broker has ended the transaction already, in another way."""


class Read(NamedTuple):
    """A record as a reader got it."""

    partition: int
    offset: int
    value: str


class Writer(Protocol):
    """A transactional producer. Every call returns when the broker has answered.

    Every call but `close` raises Fenced, MustAbort or TooLate, or what the library raises else.
    """

    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, records: Sequence[tuple[int, str]]) -> None:
        """Send values, each with its partition; return when all are acknowledged."""

    def send_offsets(self, topic: str, offsets: Mapping[int, int], member: "Member") -> None:
        """Let the next offsets of partitions be committed for a member's group."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Leave an open transaction as it is, as a client that crashes does."""


class Member(Protocol):
    """A consumer that has joined a group; what it knows of that is what it knew then."""

    def leave(self) -> None: ...


class Library(Protocol):
    """A client library, pointed at one cluster."""

    name: str
    tells_group_metadata: bool
    """Its offsets come with member and generation (KIP-447)."""

    def writer(self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> Writer: ...

    def member(self, group: str, topic: str, record_count: int) -> Member:
        """Have a consumer join a group, and read so many records."""

    def read(self, topic: str, *, committed: bool = True) -> list[Read]:
        """Read all partitions to their ends: the last stable offsets for read_committed."""

    def end(self) -> None:
        """Leave no process and no thread."""


def within(seconds: float, condition: Callable[[], bool], what: str) -> None:
    """Return when a condition has come true; time in which somebody waits for a processor is extra.

    Raises:
        AssertionError: it has not, in time.
    """
    stopwatch = Stopwatch()
    while not condition():
        assert stopwatch.is_within(seconds), f"no {what} in {seconds} s"
        time.sleep(GLANCE_S)


def read_when_there(
    library: Library, topic: str, count: int, *, committed: bool = True
) -> list[Read]:
    """Read a topic when so many records are there.

    Apache Kafka answers a commit before it has written the markers of all partitions.
    """
    found: list[Read] = []

    def are_there() -> bool:
        found[:] = library.read(topic, committed=committed)
        return len(found) >= count

    within(CALL_S, are_there, f"{count} records in {topic}")
    return found


def read_values(library: Library, topic: str, count: int, *, committed: bool = True) -> list[str]:
    """Return the values that `read_when_there` reads, partition by partition."""
    reads = read_when_there(library, topic, count, committed=committed)
    return [one.value for one in sorted(reads)]
