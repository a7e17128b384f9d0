"""SIGTERM under load: what was appended is made durable and answered, within five seconds."""

import random
import time
from pathlib import Path

from tests.crash.conftest import Judge
from tests.crash.processes import killable_broker, postgres_pid
from tests.crash.workload import Load, running_load

STOPS = 3
MOST_CALM_S = 1.0
STOP_S = 5.0


def test_a_broker_told_to_stop_under_load(
    data: Path, dice: random.Random, rounds: int, seed: int, judge: Judge
) -> None:
    # Given a broker under load
    with (
        killable_broker(data) as broker,
        running_load(broker.bootstrap, Load(), seed=seed) as workload,
    ):
        for _ in range(STOPS * rounds):
            time.sleep(dice.uniform(0, MOST_CALM_S))  # records flow; the moment is not chosen
            with workload.fault("SIGTERM") as mending:
                # When it is told to stop
                began_s = time.monotonic()
                status = broker.process.stop()
                took_s = time.monotonic() - began_s
                # Then it ends in time and in good order, and its Postgres with it
                assert status == 0
                assert took_s <= STOP_S
                assert postgres_pid(broker.embedded_postgres) is None
                # And the next one serves
                mending.begins()
                broker.start()
    # And every acknowledged record is there, once, where it was acknowledged
    judge(workload.ledger)
    assert "Traceback" not in broker.log()
