"""The judge judged: every check finds its planted fault, and a good history passes them all."""

from collections.abc import Callable

import pytest

from tests.crash import checks
from tests.crash.ledger import FOREIGN, EndOffset, Fault, Ledger, Position

ACKED_S = 10.0
READ_S = 11.0
SAMPLED_S = 12.0


def good_history() -> Ledger:
    """Two partitions with three records each, read to the end by a reader and at the end."""
    ledger = Ledger()
    tail = ledger.begin_pass("tail")
    for value in range(6):
        position = Position(value % 2, value // 2)
        ledger.sent[value] = position.partition
        ledger.acknowledge(value, position, ACKED_S + value / 100)
        tail.add(position, value, READ_S)
        ledger.final.add(position, value, 20.0)
    for partition in (0, 1):
        ledger.end_offsets.append(EndOffset(Position(partition, 0), 1.0, 1.1))
        ledger.end_offsets.append(EndOffset(Position(partition, 3), SAMPLED_S, SAMPLED_S + 0.1))
        ledger.final_end_offsets[partition] = 3
    return ledger


def without_final(ledger: Ledger, *missing: Position) -> None:
    """Read again at the end, without some offsets."""
    reads, ledger.final = list(ledger.final), Ledger().final
    for read in reads:
        if read.position not in missing:
            ledger.final.add(*read)


def plant_unacknowledged(ledger: Ledger) -> None:
    ledger.sent[6] = 0
    ledger.refused[6] = "_MSG_TIMED_OUT"


def plant_lost(ledger: Ledger) -> None:
    without_final(ledger, Position(1, 2))


def plant_gone(ledger: Ledger) -> None:
    ledger.acknowledge_somewhere(6, ACKED_S + 1)


def plant_moved(ledger: Ledger) -> None:
    ledger.acknowledge(5, Position(1, 7), ACKED_S + 1)


def plant_duplicated(ledger: Ledger) -> None:
    ledger.final.add(Position(1, 3), 5, 20.0)


def plant_inconsistent(ledger: Ledger) -> None:
    ledger.begin_pass("again").add(Position(0, 1), 4, READ_S)


def plant_two_acks_for_one_offset(ledger: Ledger) -> None:
    ledger.sent[6] = 0
    ledger.acknowledge(6, Position(0, 2), ACKED_S + 1)


def plant_phantom(ledger: Ledger) -> None:
    ledger.begin_pass("again").add(Position(0, 3), FOREIGN, READ_S)


def plant_wrong_partition(ledger: Ledger) -> None:
    ledger.sent[5] = 0


def plant_vanished(ledger: Ledger) -> None:
    ledger.sent[6] = 0
    ledger.passes[0].add(Position(0, 3), 6, READ_S)


def plant_skipped(ledger: Ledger) -> None:
    again = ledger.begin_pass("again")
    again.add(Position(0, 0), 0, READ_S)
    again.add(Position(0, 2), 4, READ_S)


def plant_began_later(ledger: Ledger) -> None:
    ledger.begin_pass("again", {0: 1}).add(Position(0, 2), 4, READ_S)


def plant_went_back(ledger: Ledger) -> None:
    ledger.passes[0].add(Position(0, 1), 2, READ_S)


def plant_gap(ledger: Ledger) -> None:
    ledger.final_end_offsets[0] = 4


def plant_beyond_the_end(ledger: Ledger) -> None:
    ledger.final_end_offsets[0] = 2


def plant_reordered(ledger: Ledger) -> None:
    ledger.sent = {value: ledger.sent[value] for value in (0, 1, 4, 2, 3, 5)}


def plant_end_before_an_ack(ledger: Ledger) -> None:
    ledger.end_offsets.append(EndOffset(Position(0, 2), ACKED_S + 0.5, ACKED_S + 0.6))


def plant_end_went_back(ledger: Ledger) -> None:
    ledger.acked.clear()
    ledger.passes.clear()
    ledger.end_offsets.append(EndOffset(Position(1, 2), SAMPLED_S + 0.2, SAMPLED_S + 0.3))


def plant_end_below_a_read_record(ledger: Ledger) -> None:
    ledger.acked.clear()
    ledger.end_offsets.append(EndOffset(Position(0, 2), READ_S + 0.1, READ_S + 0.2))


def plant_complaint(ledger: Ledger) -> None:
    ledger.complaints.append("tail: OFFSET_OUT_OF_RANGE")


PLANTED: list[tuple[str, Callable[[Ledger], None]]] = [
    ("unacknowledged", plant_unacknowledged),
    ("lost", plant_lost),
    ("gone", plant_gone),
    ("moved", plant_moved),
    ("duplicated", plant_duplicated),
    ("inconsistent", plant_inconsistent),
    ("inconsistent", plant_two_acks_for_one_offset),
    ("phantoms", plant_phantom),
    ("phantoms", plant_wrong_partition),
    ("vanished", plant_vanished),
    ("skipped", plant_skipped),
    ("skipped", plant_began_later),
    ("skipped", plant_went_back),
    ("gaps", plant_gap),
    ("gaps", plant_beyond_the_end),
    ("reordered", plant_reordered),
    ("end_offset_behind", plant_end_before_an_ack),
    ("end_offset_behind", plant_end_went_back),
    ("end_offset_behind", plant_end_below_a_read_record),
    ("complaints", plant_complaint),
]


def test_a_good_history_passes() -> None:
    assert checks.violations(good_history()) == {}


def test_an_end_offset_asked_for_before_the_acknowledgement_may_be_lower() -> None:
    # Given a sample that was under way while the record was acknowledged
    ledger = good_history()
    ledger.end_offsets.append(EndOffset(Position(0, 0), ACKED_S - 1, ACKED_S + 1))
    # Then it is no violation
    assert checks.violations(ledger) == {}


def test_a_record_whose_outcome_is_unknown_may_be_there() -> None:
    # Given a record that was refused and is read all the same, wherever it is
    ledger = good_history()
    ledger.sent[6] = 0
    ledger.refused[6] = "REQUEST_TIMED_OUT"
    ledger.final.add(Position(0, 3), 6, 20.0)
    ledger.final_end_offsets[0] = 4
    # Then only its missing acknowledgement is wrong
    assert list(checks.violations(ledger)) == ["unacknowledged"]


@pytest.mark.parametrize(("name", "plant"), PLANTED, ids=lambda one: getattr(one, "__name__", one))
def test_a_planted_fault_is_found(name: str, plant: Callable[[Ledger], None]) -> None:
    # Given a history with one fault
    ledger = good_history()
    plant(ledger)
    # When it is checked
    found = checks.violations(ledger)
    # Then the check for that fault says so
    assert name in found
    assert f"{name}: " in checks.report(found)


def test_every_check_has_a_planted_fault() -> None:
    assert {check.__name__ for check in checks.CHECKS} == {name for name, _ in PLANTED}


def test_recovery_is_counted_from_the_mending_to_the_next_acknowledgement() -> None:
    # Given a fault after the first record, mended before the second, up after it
    ledger = good_history()
    ledger.faults.append(Fault("kill", ACKED_S + 0.001, ACKED_S + 0.005, ACKED_S + 0.015))
    # When it is summed up
    (recovery_s,) = ledger.recoveries_s()
    # Then it took until the third
    assert recovery_s == pytest.approx(0.015)
    assert "faults=1" in ledger.summary()
