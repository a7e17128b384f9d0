"""What a run of producers and groups against a cluster did and was told: the history to check.

The log's part is a Ledger of tests/crash/ledger.py, in which the partitions of all topics are
numbered through: a place. What members of groups read is in it as well, one pass per ownership.
Times are of the machine's monotonic clock, in seconds, which all its processes share.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final, NamedTuple

from tests.crash.ledger import Ledger, Position, ReadPass

TOPICS: Final = ("crash-a", "crash-b")
PARTITIONS: Final = 6
PLACES: Final = len(TOPICS) * PARTITIONS
PRODUCERS: Final = 3
REJOIN_S: Final = 2.0
FOREVER: Final = float("inf")
NO_OFFSET: Final = -1
NO_GENERATION: Final = -1


def place_of(topic: str, partition: int) -> int:
    """Return the number of a partition among those of all topics."""
    return TOPICS.index(topic) * PARTITIONS + partition


@dataclass(slots=True, kw_only=True)
class Ownership:
    """One member's time with one partition.

    Attributes:
        generation: of the member when it got the partition; its member epoch with KIP-848.
        began_s: when the member was told, before it asked for the committed offset.
        ended_s: when the member had given it up, after its last commit.
        ended: how: revoked, lost, or runs.
        reads: its records, in the order of its reads.
    """

    group: str
    member: str
    place: int
    generation: int
    began_s: float
    ended_s: float = FOREVER
    ended: str = "runs"
    reads: ReadPass

    def __str__(self) -> str:
        return (
            f"{self.member} had {self.place} {self.began_s:.3f}..{self.ended_s:.3f} "
            f"(generation {self.generation}, {self.ended}, {len(self.reads)} reads)"
        )


class Commit(NamedTuple):
    """A member's commit of one partition.

    Attributes:
        generation: of the member just before it sent the commit, or NO_GENERATION.
        ended_s: FOREVER while there is no answer.
        confirmed: the broker said that it is done; else nobody knows whether it is.
    """

    group: str
    member: str
    generation: int
    place: int
    offset: int
    began_s: float
    ended_s: float
    confirmed: bool

    def __str__(self) -> str:
        return (
            f"{self.member} committed {self.offset} of {self.place} in generation "
            f"{self.generation} at {self.began_s:.3f}..{self.ended_s:.3f}"
        )


class Sample(NamedTuple):
    """An answer to OffsetFetch: the offset, or NO_OFFSET."""

    group: str
    broker: str
    place: int
    offset: int
    began_s: float
    ended_s: float

    def __str__(self) -> str:
        return (
            f"{self.broker} said {self.offset} of {self.place} "
            f"at {self.began_s:.3f}..{self.ended_s:.3f}"
        )


class GroupAtEnd(NamedTuple):
    """A group as it was described when all was mended and read: places by member id."""

    state: str
    assignments: Mapping[str, frozenset[int]]


class Trouble(NamedTuple):
    """What was done to brokers.

    Attributes:
        kind: "kill", "stop", "pause", or what happened to the upkeep process: "upkeep killed",
            "upkeep paused"; joined with "+" if several brokers were hit at once.
        brokers: which, by their number.
    """

    kind: str
    brokers: tuple[int, ...]
    began_s: float


class Pause(NamedTuple):
    """A member of a group was stopped for so long that the others took over from it."""

    group: str
    began_s: float
    ended_s: float


@dataclass(slots=True, kw_only=True)
class ClusterLedger:
    """The history of one run.

    Attributes:
        log: producers and readers; values are numbered so that value % PRODUCERS names the
            producer, and each producer's values grow.
        sent_s: value -> when it was given to the producer.
        strays: records that a member read from a partition that it did not own.
        settled_s: when all was mended, read and committed, just before the members left.
        prefetched: records that a client gave to the wrong assignment (cluster_prefetched.py).
        rebalances: of each group, how often its members were given partitions, all together.
        bugs: lines of the brokers' logs that tell of one.
    """

    log: Ledger = field(default_factory=Ledger)
    sent_s: dict[int, float] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    ownerships: list[Ownership] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    at_the_end: dict[str, GroupAtEnd] = field(default_factory=dict)
    settled_s: float = FOREVER
    troubles: list[Trouble] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    rebalances: dict[str, int] = field(default_factory=dict)
    prefetched: int = 0
    bugs: list[str] = field(default_factory=list)

    def own(
        self, group: str, member: str, place: int, *, generation: int, began_s: float
    ) -> Ownership:
        """Open the page of one more ownership."""
        one = Ownership(
            group=group,
            member=member,
            place=place,
            generation=generation,
            began_s=began_s,
            reads=self.log.begin_pass(f"{member} in generation {generation}"),
        )
        self.ownerships.append(one)
        return one

    def summary(self) -> str:
        """Return what this run did and how soon it recovered, one line for each kind."""
        confirmed = sum(one.confirmed for one in self.commits)
        kinds = sorted({one.kind for one in self.troubles})
        counts = {kind: sum(one.kind == kind for one in self.troubles) for kind in kinds}
        what = (
            f"sent={len(self.log.sent)} acked={len(self.log.acked)} "
            f"of_these_without_offset={self.log.placed} "
            f"read_at_the_end={len(self.log.final)} commits={confirmed} "
            f"refused_commits={len(self.commits) - confirmed} samples={len(self.samples)} "
            f"faults={len(self.troubles)} {counts} members_paused={len(self.pauses)} "
            f"assignments={self.rebalances} given_to_the_wrong_assignment={self.prefetched}"
        )
        return "\n".join([what, *(self._recovery(kind) for kind in kinds)])

    def _recovery(self, kind: str) -> str:
        moments = [one.began_s for one in self.troubles if one.kind == kind]
        acks = self._acknowledgements()
        words = [f"  {kind}: until all partitions acknowledge new records: "]
        words.append(spread([recovered_s(acks, moment) for moment in moments]))
        for group in self.groups:
            words.append(f"; until {group} has committed new records of all partitions: ")
            words.append(spread(self._group_recoveries_s(group, moments)))
        return "".join(words)

    def _group_recoveries_s(self, group: str, moments: Sequence[float]) -> list[float]:
        """Leave out those that include the time in which a member was paused."""
        commits = self._commits(group)
        pauses = [one for one in self.pauses if one.group == group]
        found = []
        for moment in moments:
            took_s = recovered_s(commits, moment)
            if not any(
                one.began_s < moment + took_s and moment < one.ended_s + REJOIN_S for one in pauses
            ):
                found.append(took_s)
        return found

    def _acknowledgements(self) -> list[list[tuple[float, float]]]:
        """Return, of each place, when each record was sent and acknowledged."""
        pairs: list[list[tuple[float, float]]] = [[] for _ in range(PLACES)]
        for value, ack in self.log.acked.items():
            pairs[ack.position.partition].append((self.sent_s[value], ack.at_s))
        return pairs

    def _commits(self, group: str) -> list[list[tuple[float, float]]]:
        """Return, of each place, when a record was sent and a commit just past it confirmed."""
        sent_s = {ack.position: self.sent_s[value] for value, ack in self.log.acked.items()}
        pairs: list[list[tuple[float, float]]] = [[] for _ in range(PLACES)]
        for one in self.commits:
            last = Position(one.place, one.offset - 1)
            if one.group == group and one.confirmed and last in sent_s:
                pairs[one.place].append((sent_s[last], one.ended_s))
        return pairs


def recovered_s(pairs: Sequence[Sequence[tuple[float, float]]], moment_s: float) -> float:
    """Return how long after a moment something begun after it had ended, in every place.

    Args:
        pairs: of each place, when each of its deeds began and ended.

    Returns:
        Seconds; FOREVER if it never did.
    """
    return max(_first_end(sorted(place), moment_s) for place in pairs) - moment_s


def _first_end(place: Sequence[tuple[float, float]], moment_s: float) -> float:
    later = place[bisect_left(place, (moment_s, 0.0)) :]
    return min(_while_earlier(later), default=FOREVER)


def _while_earlier(later: Sequence[tuple[float, float]]) -> Iterator[float]:
    """Yield the ends of deeds that began before the earliest end so far."""
    earliest = FOREVER
    for began_s, ended_s in later:
        if began_s > earliest:
            return
        earliest = min(earliest, ended_s)
        yield ended_s


def spread(seconds: Sequence[float]) -> str:
    """Return median, 99th percentile and maximum."""
    if not seconds:
        return "-"
    ordered = sorted(seconds)
    middle, rare = (ordered[ceil(len(ordered) * share) - 1] for share in (0.5, 0.99))
    return f"n={len(ordered)} p50={middle:.2f} p99={rare:.2f} max={ordered[-1]:.2f} s"
