"""A broker whose Postgres hangs ends all the same when it is told to."""

from pathlib import Path
from typing import Final

import psutil

from tests.crash.processes import kill_postgres, postgres_pid, until
from tests.support.broker import start_broker

ENOUGH_S: Final = (
    30  # of which SHUTDOWN_S are promised; nobody who waits for an answer had one here
)


def test_a_postgres_that_does_not_answer_does_not_keep_a_broker(tmp_path: Path) -> None:
    # Given a broker whose Postgres stands still
    data = tmp_path / "data"
    broker = start_broker(data)
    try:
        pid = postgres_pid(data / "postgres")
        assert pid is not None
        server = psutil.Process(pid)
        for process in [server, *server.children(recursive=True)]:
            process.suspend()

        # When it is told to stop, then it waits for no answer, and leaves no server behind
        assert broker.stop(ENOUGH_S) in (0, 1)
        until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, "its end")
    finally:
        broker.kill()
        kill_postgres(data / "postgres")
