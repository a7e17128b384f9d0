"""kill -9 of a broker at random moments: nothing acknowledged is lost, doubled or moved.

So it is while its upkeep process builds and sweeps, and when that is killed, too.
"""

import asyncio
import random
import time
from pathlib import Path

from storage.postgres.postgres_binaries import socket_directory, unix_socket_dsn
from tests.crash.cluster_faults import BUG
from tests.crash.conftest import Judge
from tests.crash.index_checks import count_rows, wrong_rows
from tests.crash.processes import killable_broker, until
from tests.crash.upkeep_faults import BUSY, BUSY_ROUNDS, await_upkeep, kill_upkeep
from tests.crash.workload import Load, running_load

SETTINGS = [word for setting in BUSY_ROUNDS for word in ("--set", setting)]
KILLS = 4
MOST_CALM_S = 0.8
START_S = 1.2  # a start takes about this long
UPKEEP_TOO = 0.25  # how often the upkeep process is killed, too
UPKEEP_CALM_S = 1.5  # at most, once it runs


def test_a_broker_killed_at_random_moments(
    data: Path, dice: random.Random, rounds: int, seed: int, judge: Judge
) -> None:
    # Given a broker under load, with its embedded Postgres and a directory of objects
    with (
        killable_broker(data, *SETTINGS, environment=BUSY) as broker,
        running_load(broker.bootstrap, Load(), seed=seed) as workload,
    ):
        # When it is killed again and again, some starts included
        for _ in range(KILLS * rounds):
            time.sleep(dice.uniform(0, MOST_CALM_S))  # records flow; the moment is not chosen
            if dice.random() < UPKEEP_TOO:
                await_upkeep(broker.process)
                time.sleep(dice.uniform(0, UPKEEP_CALM_S))
                with workload.fault("kill -9 of the upkeep process"):
                    kill_upkeep(broker.process)
            with workload.fault("kill -9 of the broker") as mending:
                broker.process.kill()
                if dice.random() < 0.2:
                    broker.kill_while_starting(dice.uniform(0, START_S))
                mending.begins()
                broker.start()
        # and in the end its upkeep process has had its time
        dsn = unix_socket_dsn(socket_directory(broker.embedded_postgres))
        until(lambda: asyncio.run(count_rows(dsn)).get(True), "a segment")
        wrong = asyncio.run(wrong_rows(dsn))
    # Then every acknowledged record is there, once, where it was acknowledged
    judge(workload.ledger)
    assert wrong == []
    assert not [sign for sign in BUG if sign in broker.log()]
