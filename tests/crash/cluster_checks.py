"""What groups of a cluster must not do: each check returns what is wrong, in words, or nothing.

The log is judged by tests/crash/checks.py, with what members of groups read among its passes. A
history that fails a check is planted for each of them in tests/crash/test_cluster_checks.py.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from tests.crash import checks
from tests.crash.cluster_ledger import (
    NO_GENERATION,
    NO_OFFSET,
    PLACES,
    PRODUCERS,
    ClusterLedger,
    Commit,
    Ownership,
    Sample,
)

Share = tuple[str, int]
"""A group and a place."""


class Maxima(NamedTuple):
    """The greatest offset known at each moment, of one share."""

    times: list[float]
    offsets: list[int]

    def before(self, moment_s: float, otherwise: int) -> int:
        at = bisect_left(self.times, moment_s)
        return self.offsets[at - 1] if at else otherwise


def reordered(ledger: ClusterLedger) -> list[str]:
    """Find records of one producer and partition that are not in the order of sending."""
    places: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for read in ledger.log.final:
        share = (read.position.partition, read.value % PRODUCERS)
        places[share].append((read.position.offset, read.value))
    return [
        f"partition {place}: {later} at {offset} behind {sooner}"
        for (place, _), records in places.items()
        for (_, sooner), (offset, later) in pairwise(sorted(records))
        if later < sooner
    ]


def unread(ledger: ClusterLedger) -> list[str]:
    """Find records that no member of a group has read."""
    found = []
    for group in ledger.groups:
        seen = {
            read.position for one in ledger.ownerships if one.group == group for read in one.reads
        }
        found += [
            f"{group} never read {read.value} at {read.position}"
            for read in ledger.log.final
            if read.position not in seen
        ]
    return found


def strays(ledger: ClusterLedger) -> list[str]:
    """Return what members read from partitions that they did not own."""
    return ledger.strays


def began_late(ledger: ClusterLedger) -> list[str]:
    """Find owners that began after all that anybody had tried to commit: they skipped records."""
    tried = _maxima((one, one.began_s) for one in ledger.commits)
    found = []
    for owner, first, at_s in _beginnings(ledger):
        most = tried[owner.group, owner.place].before(at_s, otherwise=0)
        if first > most:
            found.append(f"began at {first}, at most {most} was committed: {owner}")
    return found


def began_early(ledger: ClusterLedger) -> list[str]:
    """Find owners that began before a commit confirmed earlier: it was lost, or not looked at."""
    committed = confirmed_before(ledger)
    found = []
    for owner, first, _ in _beginnings(ledger):
        least = committed(owner)
        if first < least:
            found.append(f"began at {first}, {least} was committed: {owner}")
    return found


def confirmed_before(ledger: ClusterLedger) -> Callable[[Ownership], int]:
    """Return what tells the greatest offset whose commit was confirmed when an owner began."""
    confirmed = _maxima((one, one.ended_s) for one in ledger.commits if one.confirmed)
    return lambda owner: confirmed[owner.group, owner.place].before(owner.began_s, otherwise=0)


def _beginnings(ledger: ClusterLedger) -> Iterable[tuple[Ownership, int, float]]:
    """Yield owners that read, their first offset and when it came."""
    for owner in ledger.ownerships:
        first = next(iter(owner.reads), None)
        if first is not None:
            yield owner, first.position.offset, first.at_s


def commits_went_back(ledger: ClusterLedger) -> list[str]:
    """Find offsets committed or told after a greater one was committed or told."""
    told: list[Commit | Sample] = [one for one in ledger.commits if one.confirmed]
    told += ledger.samples
    known = _maxima((one, one.ended_s) for one in told)
    found = []
    for one in told:
        most = known[one.group, one.place].before(one.began_s, otherwise=NO_OFFSET)
        if one.offset < most:
            found.append(f"{one.group}: {one}, after {most} was known")
    return found


def uncommitted(ledger: ClusterLedger) -> list[str]:
    """Find groups that, by the last answer, have not committed all that is in the log."""
    in_order = sorted(ledger.samples, key=lambda one: one.ended_s)
    latest = {(one.group, one.place): one.offset for one in in_order}
    return [
        f"{group} committed {latest.get((group, place), NO_OFFSET)} of {end} of {place}"
        for group in ledger.groups
        for place, end in ledger.log.final_end_offsets.items()
        if latest.get((group, place), NO_OFFSET) < end
    ]


def commits_nobody_made(ledger: ClusterLedger) -> list[str]:
    """Find offsets told that nobody had tried to commit."""
    tried: dict[tuple[str, int, int], float] = {}
    for one in ledger.commits:
        key = (one.group, one.place, one.offset)
        tried[key] = min(one.began_s, tried.get(key, one.began_s))
    return [
        f"{one.group}: {one}"
        for one in ledger.samples
        if one.offset != NO_OFFSET
        and tried.get((one.group, one.place, one.offset), one.ended_s) >= one.ended_s
    ]


def zombie_commits(ledger: ClusterLedger) -> list[str]:
    """Find commits begun and confirmed after the partition had an owner of a later generation.

    A client that is about to join again may tell no generation; then that counts in which it got
    the partition.
    """
    owners = _owners(ledger)
    latest = {share: _latest_generations(those) for share, (those, _) in owners.items()}
    found = []
    for one in ledger.commits:
        share = (one.group, one.place)
        those, starts = owners.get(share, ([], []))
        count = bisect_right(starts, one.began_s)
        if not one.confirmed or not count:
            continue
        owner = latest[share][count - 1]
        own = next((it for it in reversed(those[:count]) if it.member == one.member), None)
        generation = max(one.generation, own.generation if own else NO_GENERATION)
        if owner.member != one.member and owner.generation > generation:
            found.append(f"{one.group}: {one}, but {owner}")
    return found


def _latest_generations(those: Iterable[Ownership]) -> list[Ownership]:
    """Return, for each owner, the one of the latest generation up to it."""
    return list(accumulate(those, _later))


def _later(one: Ownership, other: Ownership) -> Ownership:
    return other if other.generation > one.generation else one


def shared(ledger: ClusterLedger) -> list[str]:
    """Find partitions with two owners of one generation at a time."""
    found = []
    for (group, _), (those, _) in _owners(ledger).items():
        generations: dict[int, list[Ownership]] = defaultdict(list)
        for owner in those:
            generations[owner.generation].append(owner)
        for same in generations.values():
            for sooner, later in pairwise(same):
                if later.began_s < sooner.ended_s:
                    found.append(f"{group}: {sooner}; {later}")
    return found


def not_owned_once(ledger: ClusterLedger) -> list[str]:
    """Find partitions that at the end had not one owner, by the members' own word."""
    holders: dict[Share, list[str]] = defaultdict(list)
    for owner in ledger.ownerships:
        if owner.began_s <= ledger.settled_s < owner.ended_s:
            holders[owner.group, owner.place].append(owner.member)
    return [
        f"{group}: {place} has {held or 'no owner'}"
        for group in ledger.groups
        for place in range(PLACES)
        if len(held := holders[group, place]) != 1
    ]


def unsettled(ledger: ClusterLedger) -> list[str]:
    """Find groups that the brokers describe as not stable, or as not sharing all partitions."""
    found = []
    for group in ledger.groups:
        state, assignments = ledger.at_the_end[group]
        if state != "STABLE":
            found.append(f"{group} is {state}")
        assigned = sorted(place for places in assignments.values() for place in places)
        if assigned != list(range(PLACES)):
            found.append(f"{group} shares {assigned}: {dict(assignments)}")
    return found


def bugs(ledger: ClusterLedger) -> list[str]:
    """Return the lines of the brokers' logs that tell of a bug."""
    return ledger.bugs


def _maxima(events: Iterable[tuple[Commit | Sample, float]]) -> dict[Share, Maxima]:
    """Return what was the greatest offset from each moment on."""
    timed: dict[Share, list[tuple[float, int]]] = defaultdict(list)
    for one, at_s in events:
        timed[one.group, one.place].append((at_s, one.offset))
    found: dict[Share, Maxima] = defaultdict(lambda: Maxima([], []))
    for share, those in timed.items():
        most = NO_OFFSET
        for at_s, offset in sorted(those):
            most = max(most, offset)
            found[share].times.append(at_s)
            found[share].offsets.append(most)
    return found


def _owners(ledger: ClusterLedger) -> dict[Share, tuple[list[Ownership], list[float]]]:
    """Return the owners of each share in the order in which they began, and when they did."""
    shares: dict[Share, list[Ownership]] = defaultdict(list)
    for owner in ledger.ownerships:
        shares[owner.group, owner.place].append(owner)
    for those in shares.values():
        those.sort(key=lambda owner: owner.began_s)
    return {share: (those, [one.began_s for one in those]) for share, those in shares.items()}


CHECKS: Final[tuple[Callable[[ClusterLedger], list[str]], ...]] = (
    reordered,
    unread,
    strays,
    began_late,
    began_early,
    commits_went_back,
    uncommitted,
    commits_nobody_made,
    zombie_commits,
    shared,
    not_owned_once,
    unsettled,
    bugs,
)


def violations(ledger: ClusterLedger) -> dict[str, list[str]]:
    """Return, by the name of the check, what is wrong; empty for a good history.

    checks.reordered is of one producer; there are several here, and `reordered` above.
    """
    of_the_log = {
        check.__name__: check(ledger.log)
        for check in checks.CHECKS
        if check is not checks.reordered
    }
    found = of_the_log | {check.__name__: check(ledger) for check in CHECKS}
    return {name: wrong for name, wrong in found.items() if wrong}
