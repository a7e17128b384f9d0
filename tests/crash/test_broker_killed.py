"""kill -9 of a broker at random moments: nothing acknowledged is lost, doubled or moved."""

import random
import time
from pathlib import Path

import pytest

from tests.crash.conftest import Judge
from tests.crash.processes import killable_broker
from tests.crash.workload import Load, running_load

pytestmark = pytest.mark.crash

KILLS = 20
MOST_CALM_S = 0.8
START_S = 1.2  # a start takes about this long


def test_a_broker_killed_at_random_moments(
    data: Path, dice: random.Random, rounds: int, seed: int, judge: Judge
) -> None:
    # Given a broker under load, with its embedded Postgres and a directory of objects
    with (
        killable_broker(data) as broker,
        running_load(broker.bootstrap, Load(), seed=seed) as workload,
    ):
        # When it is killed again and again, some starts included
        for _ in range(KILLS * rounds):
            time.sleep(dice.uniform(0, MOST_CALM_S))  # records flow; the moment is not chosen
            with workload.fault("kill -9 of the broker") as mending:
                broker.process.kill()
                if dice.random() < 0.2:
                    broker.kill_while_starting(dice.uniform(0, START_S))
                mending.begins()
                broker.start()
    # Then every acknowledged record is there, once, where it was acknowledged
    judge(workload.ledger)
    assert "Traceback" not in broker.log()
