"""kill -9 of Postgres under load: what became of a commit is found out, never guessed."""

import os
import random
import signal
import time
from pathlib import Path

from tests.crash.conftest import Judge
from tests.crash.external_postgres import ExternalPostgres, external_postgres
from tests.crash.processes import (
    KillableBroker,
    killable_broker,
    new_postgres_pid,
    postgres_pid,
)
from tests.crash.workload import Load, Workload, running_load

EMBEDDED_KILLS = 4
EXTERNAL_KILLS = 3
MOST_CALM_S = 1.0


def test_an_embedded_postgres_killed_is_started_again_by_its_broker(
    data: Path, dice: random.Random, rounds: int, seed: int, judge: Judge
) -> None:
    # Given a broker under load, with its embedded Postgres
    with (
        killable_broker(data) as broker,
        running_load(broker.bootstrap, Load(), seed=seed) as workload,
    ):
        # When Postgres is killed again and again
        for _ in range(EMBEDDED_KILLS * rounds):
            time.sleep(dice.uniform(0, MOST_CALM_S))  # records flow; the moment is not chosen
            old = postgres_pid(broker.embedded_postgres)
            assert old is not None
            with workload.fault("kill -9 of the embedded Postgres"):
                os.kill(old, signal.SIGKILL)
                new_postgres_pid(broker.embedded_postgres, old)
        # Then the broker goes on all the while
        assert broker.process.process.poll() is None
    # And every acknowledged record is there, once, where it was acknowledged
    judge(workload.ledger)
    assert "Traceback" not in broker.log()


def test_an_external_postgres_killed_and_started_again(
    data: Path, dice: random.Random, rounds: int, seed: int, judge: Judge
) -> None:
    # Given a broker under load, with a Postgres that is not its own
    with (
        external_postgres(data / "postgres-server") as postgres,
        killable_broker(data, "--postgres", postgres.dsn) as broker,
        running_load(broker.bootstrap, Load(), seed=seed) as workload,
    ):
        # When Postgres dies in one way or another and is started again
        for number in range(EXTERNAL_KILLS * rounds):
            time.sleep(dice.uniform(0, MOST_CALM_S))  # records flow; the moment is not chosen
            break_postgres(number, workload, postgres, broker, dice)
        # Then the broker goes on all the while
        assert broker.process.process.poll() is None
    # And every acknowledged record is there, once, where it was acknowledged
    judge(workload.ledger)
    assert "Traceback" not in broker.log()


def break_postgres(
    number: int,
    workload: Workload,
    postgres: ExternalPostgres,
    broker: KillableBroker,
    dice: random.Random,
) -> None:
    """Kill the first process, or all of them, or one session; sometimes the broker as well."""
    if number % 3 == 2:
        with workload.fault("kill -9 of one Postgres session"):
            postgres.kill_a_backend(dice)
        return
    with workload.fault("kill -9 of Postgres") as mending:
        if number % 3 == 0:
            postgres.kill_postmaster()
        else:
            postgres.kill_all()
        time.sleep(dice.uniform(0, MOST_CALM_S))  # how long it stays away
        mending.begins()
        postgres.start()
    if number % 3 == 1:
        with workload.fault("kill -9 of Postgres and the broker") as mending:
            postgres.kill_all()
            broker.process.kill()
            mending.begins()
            postgres.start()
            broker.start()
