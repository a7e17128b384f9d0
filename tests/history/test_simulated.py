"""The checker on many histories of a broker without faults, and on each with one fault."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.history.check import findings
from tests.history.load import pair
from tests.history.operations import Operation, Outcome, Poll
from tests.history.simulated import FINAL, Simulation

SEEDS = range(20)
OPERATIONS = 400


def history(seed: int) -> list[Operation]:
    return pair(Simulation(seed).run(OPERATIONS))


def final_poll(operations: Sequence[Operation]) -> Operation:
    assert operations[-1].process == FINAL
    return operations[-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_broker_without_faults_passes(seed: int) -> None:
    assert findings(history(seed)) == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_that_vanishes_at_the_end_is_missed(seed: int) -> None:
    # Given a good history
    operations = history(seed)
    last = final_poll(operations)
    (poll,) = last.actions
    assert isinstance(poll, Poll)
    # When one record that somebody was told to be written is not there at the end
    dice = random.Random(seed)
    acknowledged = {
        send.entry for one in operations if one.outcome is Outcome.OK for send in one.sends
    }
    gone = dice.choice(sorted(acknowledged))
    kept = {
        key: [read for read in reads if (key, read.value) != gone]
        for key, reads in poll.reads.items()
    }
    found = findings([*operations[:-1], replace(last, actions=(Poll(kept),))])
    # Then it is missed, whatever else that looks like
    assert found["unseen"] == [
        detail for detail in found["unseen"] if f"key {gone.key} value {gone.value} " in detail
    ]
    assert len(found["unseen"]) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_committed_transaction_that_is_called_aborted_is_found(seed: int) -> None:
    operations = history(seed)
    dice = random.Random(seed)
    at = dice.choice(
        [at for at, one in enumerate(operations) if one.outcome is Outcome.OK and any(one.sends)]
    )
    operations[at] = replace(operations[at], outcome=Outcome.FAIL)
    assert "G1a" in findings(operations)


def test_a_history_of_a_seed_is_always_the_same() -> None:
    lines = Simulation(7).run(OPERATIONS)
    assert lines == Simulation(7).run(OPERATIONS)
    assert {line["f"] for line in lines if line["e"] == "inv"} == {"assign", "ends", "poll", "txn"}
