"""An S3 server that is away for a while: producers wait, nothing is dropped or refused."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.conftest import Judge
from tests.crash.processes import KillableBroker, killable_broker
from tests.crash.workload import Load, running_load
from tests.support.s3_server import S3Server

PAUSED_S = 10.0  # two tries of an upload in vain
KILLED_S = 5.0  # it refuses at once
MOST_CALM_S = 1.0
BUCKET = "crash"


@pytest.fixture
def server(data: Path) -> Iterator[S3Server]:
    with S3Server.start(data / "s3") as running:
        running.create_bucket(BUCKET)
        yield running


@pytest.fixture
def broker(data: Path, server: S3Server) -> Iterator[KillableBroker]:
    store = server.store_url(BUCKET, "log")
    with killable_broker(data, "--store", store, environment=server.environment()) as running:
        yield running


@pytest.mark.parametrize("request_timeout_ms", [30_000, 2_000])
def test_an_object_store_paused(
    server: S3Server,
    broker: KillableBroker,
    dice: random.Random,
    seed: int,
    judge: Judge,
    request_timeout_ms: int,
) -> None:
    # Given a broker under load; clients that repeat what takes long, or wait
    load = Load(request_timeout_ms=request_timeout_ms)
    with running_load(broker.bootstrap, load, seed=seed) as workload:
        time.sleep(dice.uniform(0, MOST_CALM_S))  # records flow; the moment is not chosen
        # When the store answers nothing for a while
        with workload.fault("SIGSTOP of the S3 server") as mending:
            server.pause()
            time.sleep(PAUSED_S)
            mending.begins()
            server.resume()
    # Then every record is there, once, where it was acknowledged
    judge(workload.ledger)
    assert "Traceback" not in broker.log()


def test_an_object_store_killed(
    server: S3Server, broker: KillableBroker, dice: random.Random, seed: int, judge: Judge
) -> None:
    if server.kind == "moto_server":
        pytest.skip("moto keeps objects in memory: killing it loses them")
    # Given a broker under load
    with running_load(broker.bootstrap, Load(), seed=seed) as workload:
        time.sleep(dice.uniform(0, MOST_CALM_S))  # records flow; the moment is not chosen
        # When the store is killed, and started again five seconds later
        with workload.fault("kill -9 of the S3 server") as mending:
            server.kill()
            time.sleep(KILLED_S)
            mending.begins()
            server.restart()
    # Then every record is there, once, where it was acknowledged
    judge(workload.ledger)
    assert "Traceback" not in broker.log()
