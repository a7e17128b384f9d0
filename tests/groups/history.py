"""What the members of one group did with its partitions, and what must hold for it.

Whoever owned a partition, one after the other, and what each of them read and committed is put
together from the members' events. `check` then finds every violation of these rules:

- no partition has two owners at a time;
- an owner reads on without gap from where it began;
- it begins no earlier than the last commit that was confirmed (what is read twice is only what no
  commit covered) and no later than what was read before (nothing is skipped);
- after an owner that could commit what it had read, the next one begins exactly there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.groups.member import Event, Member

SHOWN: Final = 10


@dataclass(slots=True, kw_only=True)
class Ownership:
    """One member's time with one partition.

    Attributes:
        ended: how it ended: revoked, leaving, lost, killed or, at the end of the test, runs.
        committed: the last next offset that the broker confirmed to this member, if any.
        excused: it may overlap with another one (`_is_excused`).
    """

    member: str
    partition: int
    began_s: float
    ended_s: float = float("inf")
    ended: str = "runs"
    offsets: list[int] = field(default_factory=list)
    committed: int | None = None
    excused: bool = False

    def __str__(self) -> str:
        read = f"{self.offsets[0]}..{self.offsets[-1]}" if self.offsets else "nothing"
        return (
            f"{self.member} had {self.partition} {self.began_s:.3f}..{self.ended_s:.3f} "
            f"({self.ended}), read {read}, committed {self.committed}"
        )


def ownerships(members: Iterable[Member]) -> dict[int, list[Ownership]]:
    """Return the owners of each partition in the order in which they got it."""
    owners: dict[int, list[Ownership]] = {}
    for member in members:
        for one in _of_member(member):
            owners.setdefault(one.partition, []).append(one)
    for those in owners.values():
        those.sort(key=lambda one: one.began_s)
    return owners


def _of_member(member: Member) -> list[Ownership]:
    done: list[Ownership] = []
    current: dict[int, Ownership] = {}
    first = member.said("assigned")[:1]

    def end(partitions: Iterable[int], how: str, at_s: float) -> None:
        for partition in partitions:
            if ending := current.pop(partition, None):
                ending.ended, ending.ended_s = how, at_s
                done.append(ending)

    for event in member.said("assigned", "revoked", "lost", "leaving", "records", "committed"):
        match event.name:
            case "assigned":
                for partition in event.partitions:
                    current[partition] = Ownership(
                        member=member.name,
                        partition=partition,
                        began_s=event.at_s,
                        excused=event in first and _is_excused(member),
                    )
            case "records" | "committed":
                _progress(member, current, event)
            case "leaving":
                end(list(current), "leaving", event.at_s)
            case _:
                end(event.partitions, event.name, event.at_s)
    if member.killed:
        assert member.ended_s is not None
        end(list(current), "killed", member.ended_s)
    return [*done, *current.values()]


def _is_excused(member: Member) -> bool:
    """Whether the broker cannot know what the member has been assigned first.

    librdkafka (2.16) meets the answer to its KIP-848 join, if that took more than a second, with a
    heartbeat that owns nothing; only then it takes what it was given. The broker, and Apache
    Kafka's is no other, believes the heartbeat and gives the partitions to whom they are due.
    """
    return member.library == "librdkafka" and member.settings.protocol == "consumer"


def _progress(member: Member, current: Mapping[int, Ownership], event: Event) -> None:
    if event.name == "records":
        partition = event.fields["partition"]
        assert partition in current, f"{member.name} reads {partition}, which it does not own"
        current[partition].offsets += event.fields["offsets"]
        return
    for partition, offset in event.offsets.items():
        if partition in current:
            current[partition].committed = offset


def check(owners: Mapping[int, Sequence[Ownership]], record_counts: Mapping[int, int]) -> list[str]:
    """Return every violation of the rules above, as sentences.

    Args:
        owners: as `ownerships` returns them.
        record_counts: how many records each partition has; all of them must have been read.
    """
    found: list[str] = []
    for partition, count in record_counts.items():
        those = owners.get(partition, ())
        read = {offset for one in those for offset in one.offsets}
        if missing := sorted(set(range(count)) - read):
            found.append(f"{partition}: {len(missing)} never read, from {missing[0]} on")
        found += _overlaps(those)
        found += _reading(those)
    return found


def _overlaps(those: Sequence[Ownership]) -> list[str]:
    return [
        f"two owners at a time: {one}; {other}"
        for position, one in enumerate(those)
        for other in those[position + 1 :]
        if other.began_s < one.ended_s and not (one.excused and not one.offsets)
    ]


def _reading(those: Sequence[Ownership]) -> list[str]:
    found: list[str] = []
    position, committed = 0, 0  # next offset after the reads so far; the last confirmed commit
    for one in those:
        if not one.offsets:
            continue
        first, last = one.offsets[0], one.offsets[-1]
        if one.offsets != list(range(first, last + 1)):
            found.append(f"not in order: {one}")
        if not committed <= first <= position:
            found.append(f"begins outside {committed}..{position}: {one}")
        position = max(position, last + 1)
        if one.committed is not None:
            committed = max(committed, one.committed)
        if one.ended in {"revoked", "leaving"} and committed < last + 1:
            found.append(f"went without having committed: {one}")
    return found


def read_twice(owners: Mapping[int, Sequence[Ownership]]) -> int:
    """Return how many reads were of a record that was read before."""
    total = sum(len(one.offsets) for those in owners.values() for one in those)
    different = sum(
        len({offset for one in those for offset in one.offsets}) for those in owners.values()
    )
    return total - different


def report(found: Sequence[str]) -> str:
    return "\n".join([f"{len(found)} violations", *found[:SHOWN]])
