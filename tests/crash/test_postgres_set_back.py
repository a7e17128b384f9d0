"""A backup takes the place of Postgres: nobody goes on as if nothing had happened."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.confluent import Confluent
from tests.crash.external_postgres import external_postgres
from tests.crash.processes import killable_broker
from tests.storage.recovering import read, send
from tests.support.broker import BrokerFailed, start_broker

PATIENCE_S = 30
UNCLEAN = "unclean.leader.election.enable"


def test_a_backup_in_the_place_of_postgres_is_noticed(data: Path) -> None:
    # Given records that were acknowledged after a backup of Postgres
    with external_postgres(data / "postgres-server") as postgres:
        arguments = ("--postgres", postgres.dsn)
        with killable_broker(data, *arguments) as broker:
            Confluent(bootstrap=broker.bootstrap).create_topic("log", partition_count=1)
            kept = send(broker, "log", [b"kept-%d" % number for number in range(10)])
            backup = data / "backup"
            postgres.kill_all()
            subprocess.run(["cp", "-a", postgres.directory, backup], check=True)
            postgres.start()
            send(broker, "log", [b"lost-%d" % number for number in range(20)])

            # When the backup takes the place of Postgres
            postgres.kill_all()
            shutil.rmtree(postgres.directory)
            backup.rename(postgres.directory)
            postgres.start()
            with pytest.raises(AssertionError):  # not delivered
                send(broker, "log", [b"later"], settings={"message.timeout.ms": 5_000})

            # Then the broker does not give their offsets away again, but ends, and says why
            assert broker.process.process.wait(PATIENCE_S) == 1
            assert "ends at 10 in it, and ended at 30 before" in broker.log()
            assert "Traceback" not in broker.log()

            # And none starts, as long as nobody has said that they may be lost
            with pytest.raises(BrokerFailed, match=r"older than the object store.*set back"):
                broker.start()
            accepting = (*arguments, "--set", f"{UNCLEAN}=true")
            later = start_broker(broker.data, *accepting, listen=broker.bootstrap)
            try:
                found = read(broker, "log")
            finally:
                later.kill()
            assert list(found.items())[:10] == list(kept.items())
            assert set(list(found.values())[10:]) <= {b"later"}  # committed, and never answered
