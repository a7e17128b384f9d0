"""A broker on a disk that hangs ends all the same when it is told to."""

import fcntl
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from broker.serve_run import SHUTDOWN_S
from storage.objects.incoming_folder import INCOMING
from tests.crash.processes import PATIENCE_S, kill_if_there, kill_postgres, postgres_pid, until
from tests.support.broker import BrokerFailed, start_broker


@pytest.mark.alone
def test_a_write_that_never_ends_does_not_keep_a_broker(tmp_path: Path) -> None:
    # Given a broker whose disk hangs while an object is written
    data, hung = tmp_path / "data", tmp_path / "hung"
    program, environment = "tests.support.hung_disk_broker", {"HUNG_DISK": str(hung)}
    broker = start_broker(data, program=(program,), environment=os.environ | environment)
    try:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 5_000})
        producer.produce("orders", b"kept")  # by which the producer knows its broker and the topic
        assert producer.flush(30) == 0
        hung.touch()
        producer.produce("orders", b"lost")
        assert producer.flush(30) == 0

        # When it is told to stop, then it says so and is gone, and so is its Postgres
        assert broker.stop(SHUTDOWN_S + 5) == 1
        assert "not down after 5.0 s, ending all the same" in broker.log.read_text()
        assert postgres_pid(data / "postgres") is None
    finally:
        broker.kill()
        kill_postgres(data / "postgres")


def test_a_start_that_never_ends_does_not_keep_a_broker(tmp_path: Path) -> None:
    # Given a broker that starts on an object store whose file system does not answer
    data = tmp_path / "data"
    incoming = data / "objects" / INCOMING
    incoming.mkdir(parents=True)
    guard = os.open(incoming, os.O_RDONLY)
    fcntl.flock(guard, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as thread:
        starting = thread.submit(start_broker, data)
        waits = until(lambda: waits_for(incoming), "a broker that waits for its object store")
        try:
            # When it is told to stop, then it says so and is gone, and so is its Postgres
            waits.send_signal(signal.SIGTERM)
            with pytest.raises(BrokerFailed, match="ending all the same"):
                starting.result(PATIENCE_S)
            assert postgres_pid(data / "postgres") is None
        finally:
            kill_if_there(waits)
            kill_postgres(data / "postgres")
            os.close(guard)


def waits_for(folder: Path) -> psutil.Process | None:
    """Return the process that waits for the lock of a folder."""
    for line in Path("/proc/locks").read_text().splitlines():
        _, *words = line.split()
        if words[0] == "->" and words[5].endswith(f":{folder.stat().st_ino}"):
            return psutil.Process(int(words[4]))
    return None
