"""The judge of groups judged: every check finds its planted fault, a good history passes them."""

from collections.abc import Callable

import pytest

from tests.crash import cluster_checks, test_checks
from tests.crash.cluster_ledger import (
    NO_GENERATION,
    NO_OFFSET,
    PLACES,
    PRODUCERS,
    ClusterLedger,
    Commit,
    GroupAtEnd,
    Ownership,
    Pause,
    Sample,
    Trouble,
    recovered_s,
    spread,
)
from tests.crash.cluster_prefetched import set_aside_prefetched
from tests.crash.ledger import Position

GROUP = "group"
LAST = 5
SETTLED_S = 90.0


def commit(
    member: str,
    generation: int,
    offset: int,
    at_s: float,
    *,
    place: int = 0,
    confirmed: bool = True,
) -> Commit:
    return Commit(GROUP, member, generation, place, offset, at_s, at_s + 0.1, confirmed)


def sample(offset: int, at_s: float, *, place: int = 0) -> Sample:
    return Sample(GROUP, "broker", place, offset, at_s, at_s + 0.1)


def read(owner: Ownership, offsets: range, at_s: float) -> None:
    for offset in offsets:
        owner.reads.add(Position(owner.place, offset), value_at(owner.place, offset), at_s)


def value_at(place: int, offset: int) -> int:
    """Return the value of a record of the good history; one producer wrote all of them."""
    return (offset * PLACES + place) * PRODUCERS


def good_history() -> ClusterLedger:
    """A has all partitions, reads three records of each, is kicked out; B goes on to the end.

    A's last commit is of two records, so that B reads the third one again.
    """
    ledger = ClusterLedger(groups=(GROUP,), settled_s=SETTLED_S)
    for place in range(PLACES):
        for offset in range(LAST):
            value = value_at(place, offset)
            ledger.log.sent[value] = place
            ledger.sent_s[value] = 1.0
            ledger.log.acknowledge(value, Position(place, offset), 2.0)
            ledger.log.final.add(Position(place, offset), value, 100.0)
        ledger.log.final_end_offsets[place] = LAST
        a = ledger.own(GROUP, "A", place, generation=1, began_s=10.0)
        read(a, range(3), 11.0)
        a.ended, a.ended_s = "lost", 40.0
        b = ledger.own(GROUP, "B", place, generation=2, began_s=30.0)
        read(b, range(2, LAST), 31.0)
        ledger.commits += [
            commit("A", 1, 2, 12.0, place=place),
            commit("A", 1, 3, 35.0, place=place, confirmed=False),
            commit("B", 2, LAST, 32.0, place=place),
        ]
        ledger.samples += [
            sample(NO_OFFSET, 9.0, place=place),
            sample(2, 20.0, place=place),
            sample(LAST, 50.0, place=place),
        ]
    ledger.at_the_end[GROUP] = GroupAtEnd("STABLE", {"B": frozenset(range(PLACES))})
    return ledger


def last_owner(ledger: ClusterLedger) -> Ownership:
    return ledger.ownerships[-1]


def begin_again(ledger: ClusterLedger, offsets: range) -> None:
    """Have C take the first partition over from B, and read."""
    ledger.ownerships[1].ended_s = 60.0
    read(ledger.own(GROUP, "C", 0, generation=3, began_s=61.0), offsets, 62.0)


def plant_reordered(ledger: ClusterLedger) -> None:
    ledger.log.final.add(Position(0, LAST), value_at(0, 0), 100.0)


def plant_gone(ledger: ClusterLedger) -> None:
    ledger.log.unplaced[value_at(0, LAST)] = 2.0


def plant_unread(ledger: ClusterLedger) -> None:
    ledger.log.final.add(Position(0, LAST), value_at(0, LAST), 100.0)


def plant_stray(ledger: ClusterLedger) -> None:
    ledger.strays.append("A read 1 at [7]")


def plant_began_late(ledger: ClusterLedger) -> None:
    ledger.commits = [one for one in ledger.commits if one.member != "A"]


def plant_began_early(ledger: ClusterLedger) -> None:
    begin_again(ledger, range(3, LAST))


def plant_began_at_zero(ledger: ClusterLedger) -> None:
    begin_again(ledger, range(LAST))


def plant_commit_went_back(ledger: ClusterLedger) -> None:
    ledger.commits.append(commit("B", 2, 4, 70.0))


def plant_sample_went_back(ledger: ClusterLedger) -> None:
    ledger.samples.append(sample(2, 60.0))


def plant_commit_lost(ledger: ClusterLedger) -> None:
    ledger.samples.append(sample(NO_OFFSET, 33.0))


def plant_commit_below_a_sample(ledger: ClusterLedger) -> None:
    ledger.commits = [one for one in ledger.commits if one.member != "B"]
    ledger.commits.append(commit("B", 2, 3, 70.0))


def plant_uncommitted(ledger: ClusterLedger) -> None:
    ledger.samples.pop()


def plant_never_committed(ledger: ClusterLedger) -> None:
    ledger.samples = [one for one in ledger.samples if one.place != 3]


def plant_commit_nobody_made(ledger: ClusterLedger) -> None:
    ledger.samples.append(sample(LAST + 2, 60.0))


def plant_commit_told_before_it_was_made(ledger: ClusterLedger) -> None:
    ledger.samples.append(sample(LAST, 31.0))


def plant_zombie_commit(ledger: ClusterLedger) -> None:
    ledger.commits.append(commit("A", 1, LAST, 35.0))


def plant_zombie_commit_without_generation(ledger: ClusterLedger) -> None:
    ledger.commits.append(commit("A", NO_GENERATION, LAST, 35.0))


def plant_zombie_commit_two_owners_later(ledger: ClusterLedger) -> None:
    begin_again(ledger, range(0))
    ledger.commits.append(commit("A", 1, LAST, 70.0))


def plant_shared(ledger: ClusterLedger) -> None:
    ledger.own(GROUP, "C", 0, generation=2, began_s=33.0).ended_s = 34.0


def plant_no_owner(ledger: ClusterLedger) -> None:
    last_owner(ledger).ended_s = 80.0


def plant_two_owners(ledger: ClusterLedger) -> None:
    ledger.own(GROUP, "C", 0, generation=3, began_s=80.0)


def plant_not_stable(ledger: ClusterLedger) -> None:
    ledger.at_the_end[GROUP] = GroupAtEnd("EMPTY", {"B": frozenset(range(PLACES))})


def plant_not_assigned(ledger: ClusterLedger) -> None:
    ledger.at_the_end[GROUP] = GroupAtEnd("STABLE", {"B": frozenset(range(1, PLACES))})


def plant_assigned_twice(ledger: ClusterLedger) -> None:
    all_places = frozenset(range(PLACES))
    ledger.at_the_end[GROUP] = GroupAtEnd("STABLE", {"A": frozenset({0}), "B": all_places})


def plant_bug(ledger: ClusterLedger) -> None:
    ledger.bugs.append("b1: bug in a handler")


def plant_lost(ledger: ClusterLedger) -> None:
    test_checks.without_final(ledger.log, Position(1, 2))


def plant_duplicated(ledger: ClusterLedger) -> None:
    ledger.log.final.add(Position(1, LAST), value_at(1, 4), 100.0)


def plant_skipped(ledger: ClusterLedger) -> None:
    read(last_owner(ledger), range(LAST + 1, LAST + 2), 70.0)


def plant_read_elsewhere(ledger: ClusterLedger) -> None:
    last_owner(ledger).reads.add(Position(PLACES - 1, LAST), value_at(0, 0), 70.0)


PLANTED: list[tuple[str, Callable[[ClusterLedger], None]]] = [
    ("reordered", plant_reordered),
    ("gone", plant_gone),
    ("unread", plant_unread),
    ("strays", plant_stray),
    ("began_late", plant_began_late),
    ("began_early", plant_began_early),
    ("began_early", plant_began_at_zero),
    ("commits_went_back", plant_commit_went_back),
    ("commits_went_back", plant_sample_went_back),
    ("commits_went_back", plant_commit_lost),
    ("commits_went_back", plant_commit_below_a_sample),
    ("uncommitted", plant_uncommitted),
    ("uncommitted", plant_never_committed),
    ("commits_nobody_made", plant_commit_nobody_made),
    ("commits_nobody_made", plant_commit_told_before_it_was_made),
    ("zombie_commits", plant_zombie_commit),
    ("zombie_commits", plant_zombie_commit_without_generation),
    ("zombie_commits", plant_zombie_commit_two_owners_later),
    ("shared", plant_shared),
    ("not_owned_once", plant_no_owner),
    ("not_owned_once", plant_two_owners),
    ("unsettled", plant_not_stable),
    ("unsettled", plant_not_assigned),
    ("unsettled", plant_assigned_twice),
    ("bugs", plant_bug),
    ("lost", plant_lost),
    ("duplicated", plant_duplicated),
    ("skipped", plant_skipped),
    ("moved", plant_read_elsewhere),
]


def test_a_good_history_passes() -> None:
    assert cluster_checks.violations(good_history()) == {}


def test_a_record_acknowledged_without_offset_is_looked_up() -> None:
    # Given a record whose delivery report told no offset
    ledger = good_history()
    value = value_at(0, 3)
    ledger.log.unplaced[value] = ledger.log.acked.pop(value).at_s
    assert set(cluster_checks.violations(ledger)) == {"gone", "unacknowledged"}
    # When it is found in the log
    ledger.log.place_acknowledged()
    # Then it is acknowledged like the others
    assert cluster_checks.violations(ledger) == {}
    assert ledger.log.acked[value].position == Position(0, 3)


def test_commits_and_samples_that_ran_at_the_same_time_have_no_order() -> None:
    # Given a sample that was asked for before a commit was confirmed, and answered after it
    ledger = good_history()
    ledger.samples.append(Sample(GROUP, "broker", 0, 2, 32.05, 33.0))
    # Then it may tell either
    assert cluster_checks.violations(ledger) == {}


def test_a_commit_whose_outcome_is_unknown_may_have_happened() -> None:
    # Given a commit that was not confirmed, and that both a sample and a new owner go by
    ledger = good_history()
    read(last_owner(ledger), range(LAST, LAST), 70.0)
    ledger.commits.append(commit("B", 2, LAST, 32.5, confirmed=False))
    begin_again(ledger, range(LAST, LAST))
    # Then nothing is wrong
    assert cluster_checks.violations(ledger) == {}


def test_a_member_that_got_its_partition_back_is_no_zombie() -> None:
    # Given a first owner that has a partition again, and tells no generation as it commits
    ledger = good_history()
    ledger.ownerships[1].ended_s = 60.0
    ledger.own(GROUP, "A", 0, generation=3, began_s=61.0)
    ledger.commits.append(commit("A", NO_GENERATION, LAST, 70.0))
    # Then nothing is wrong
    assert cluster_checks.violations(ledger) == {}


def test_what_a_client_gives_to_the_wrong_assignment_is_set_aside() -> None:
    # Given a first owner that gets a partition again, old records, and goes on where it should
    ledger = good_history()
    ledger.ownerships[1].ended_s = 60.0
    again = ledger.own(GROUP, "A", 0, generation=3, began_s=61.0)
    for offset in range(3):
        again.reads.add(Position(0, offset), value_at(0, offset), 62.0)
    add_record(ledger)
    again.reads.add(Position(0, LAST), value_at(0, LAST), 62.1)
    ledger.commits.append(commit("A", 3, LAST + 1, 63.0))
    ledger.samples.append(sample(LAST + 1, 64.0))
    assert set(cluster_checks.violations(ledger)) == {"began_early", "skipped"}
    # When these are set aside, then nothing is wrong
    set_aside_prefetched(ledger)
    assert ledger.prefetched == 3
    assert cluster_checks.violations(ledger) == {}


@pytest.mark.parametrize(("member", "offsets"), [("C", [0, 1, LAST]), ("A", [0, 1, 4, LAST])])
def test_what_a_broker_may_have_done_is_not_set_aside(member: str, offsets: list[int]) -> None:
    # Given one that never had the partition, or does not go on at the committed offset
    ledger = good_history()
    ledger.ownerships[1].ended_s = 60.0
    owner = ledger.own(GROUP, member, 0, generation=3, began_s=61.0)
    add_record(ledger)
    for offset in offsets:
        owner.reads.add(Position(0, offset), value_at(0, offset), 62.0)
    # When prefetched records are set aside, then these are still found
    set_aside_prefetched(ledger)
    found = cluster_checks.violations(ledger)
    assert "skipped" in found or "began_early" in found


def add_record(ledger: ClusterLedger) -> None:
    """Write one more record to the first partition, after B's time."""
    value = value_at(0, LAST)
    ledger.log.sent[value] = 0
    ledger.sent_s[value] = 61.0
    ledger.log.acknowledge(value, Position(0, LAST), 61.5)
    ledger.log.final.add(Position(0, LAST), value, 100.0)
    ledger.log.final_end_offsets[0] = LAST + 1


@pytest.mark.parametrize(("name", "plant"), PLANTED, ids=lambda one: getattr(one, "__name__", one))
def test_a_planted_fault_is_found(name: str, plant: Callable[[ClusterLedger], None]) -> None:
    # Given a history with one fault
    ledger = good_history()
    plant(ledger)
    # When it is checked
    found = cluster_checks.violations(ledger)
    # Then the check for that fault says so
    assert name in found


def test_every_check_has_a_planted_fault() -> None:
    assert {check.__name__ for check in cluster_checks.CHECKS} <= {name for name, _ in PLANTED}


def test_recovery_is_over_when_something_new_has_ended_everywhere() -> None:
    # Given two places: in one a deed from before ends late, in the other the second new one first
    places = [[(0.5, 9.0), (1.5, 2.0)], [(1.1, 4.0), (1.2, 3.0), (5.0, 5.1)]]
    # Then only what began after the moment counts, and the place that took longest
    assert recovered_s(places, 1.0) == pytest.approx(2.0)
    assert recovered_s(places, 2.0) == float("inf")


def test_the_summary_tells_each_kind_of_fault() -> None:
    # Given a kill before all records were sent
    ledger = good_history()
    ledger.troubles.append(Trouble("kill", (0,), 0.5))
    # Then it tells how long acknowledgements and commits of these records took
    assert "faults=1 {'kill': 1}" in ledger.summary()
    assert "acknowledge new records: n=1 p50=1.50" in ledger.summary()
    assert "committed new records of all partitions: n=1 p50=11.60" in ledger.summary()


def test_a_groups_recovery_is_not_counted_while_a_member_is_paused() -> None:
    # Given a kill, and a member that was paused before the group had recovered
    ledger = good_history()
    ledger.troubles.append(Trouble("kill", (0,), 0.5))
    ledger.pauses.append(Pause(GROUP, 5.0, 9.0))
    # Then only the producers' recovery is told
    assert "acknowledge new records: n=1 p50=1.50" in ledger.summary()
    assert "committed new records of all partitions: -" in ledger.summary()


def test_a_spread_is_of_ranks() -> None:
    assert spread([3.0, 1.0, 2.0]) == "n=3 p50=2.00 p99=3.00 max=3.00 s"
    assert spread([]) == "-"
