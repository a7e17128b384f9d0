"""A broker on a disk that hangs ends all the same when it is told to."""

import os
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.serve_run import SHUTDOWN_S
from tests.crash.processes import kill_postgres, postgres_pid
from tests.support.broker import start_broker


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
