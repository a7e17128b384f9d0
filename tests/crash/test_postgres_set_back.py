"""A backup takes the place of Postgres: nobody goes on as if nothing had happened."""

import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.clients.confluent import Confluent
from tests.crash.external_postgres import external_postgres
from tests.crash.processes import KillableBroker, killable_broker
from tests.storage.recovering import read, send
from tests.support.broker import BrokerFailed, start_broker

PATIENCE_S = 120
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
            write_until_it_ends(broker)

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


def write_until_it_ends(broker: KillableBroker) -> None:
    """Write in vain; again, where a broker was so slow that the client gave up before it heard."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with pytest.raises(AssertionError):  # not delivered
            send(broker, "log", [b"later"], settings={"message.timeout.ms": 5_000})
        if broker.process.process.poll() is not None:
            return
        assert time.monotonic() < deadline, "the broker goes on"


def test_what_one_broker_sees_ends_all_and_none_starts(data: Path) -> None:
    # Given two brokers, and a last record that only the one knows that leads its partition
    with external_postgres(data / "postgres-server") as postgres:
        arguments = ("--postgres", postgres.dsn, "--store", f"file://{data / 'store'}")
        with (
            killable_broker(data / "one", *arguments) as one,
            killable_broker(data / "two", *arguments) as two,
        ):
            client = Confluent(bootstrap=one.bootstrap)
            client.create_topic("log", partition_count=8)
            leaders = [client.leader("log", partition) for partition in range(8)]
            partition = leaders.index(("127.0.0.1", one.process.port))
            send(one, "log", [b"kept"], partition=partition)
            backup = data / "backup"
            postgres.kill_all()
            subprocess.run(["cp", "-a", postgres.directory, backup], check=True)
            postgres.start()
            send(one, "log", [b"lost"], partition=partition)

            # When a backup takes the place of Postgres, and that broker writes on
            postgres.kill_all()
            shutil.rmtree(postgres.directory)
            backup.rename(postgres.directory)
            postgres.start()
            with suppress(AssertionError):  # not delivered
                settings = {"message.timeout.ms": 10_000}
                send(one, "log", [b"later"], partition=partition, settings=settings)

            # Then both end, and say why
            for broker in (one, two):
                assert broker.process.process.wait(PATIENCE_S) == 1
                broker.process.kill()  # nobody reads what it prints any more
                assert "ends at 1 in it, and ended at 2 before" in broker.log()
                assert "Traceback" not in broker.log()

            # And none starts, though the log has grown as far again, until somebody accepts it
            for broker in (one, two):
                with pytest.raises(BrokerFailed, match=r"has gone back.*set back"):
                    broker.start()
            accepting = (*arguments, "--set", f"{UNCLEAN}=true")
            start_broker(one.data, *accepting, listen=one.bootstrap).kill()
            two.start()
            assert two.process.stop() == 0
