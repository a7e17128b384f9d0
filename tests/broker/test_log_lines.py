"""A broker whose log cannot be written serves all the same, in trouble, too."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from protocol.records import Record, build_batch
from tests.crash.processes import new_postgres_pid, postgres_pid
from tests.support.broker import start_broker
from tests.support.wire import WireClient, produce_request

BATCH: Final = build_batch(
    [Record(offset_delta=0, value=b"a")], base_timestamp_ms=int(time.time() * 1000)
)
PYTHON: Final = """#!/usr/bin/env bash
exec {python} "$@" {stderr}
"""


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2> >(head -n 1 >/dev/null)", "2>&-"])
async def test_a_broker_goes_on_without_its_log(tmp_path: Path, stderr: str) -> None:
    # Given a broker whose log is on a full disk, or has a reader that goes away, or is closed
    python = tmp_path / "python"
    python.write_text(PYTHON.format(python=sys.executable, stderr=stderr))
    python.chmod(0o755)
    broker = start_broker(
        tmp_path / "data",
        python=str(python),
        environment={**os.environ, "STREAMHOUSE_UPKEEP__ENABLED": "true"},
    )
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            await wire.create_topic("log")
            request = produce_request("log", BATCH, timeout_ms=60_000)
            produced = [await wire.ask(request)]

            # When there is much to be told of: its Postgres is killed
            directory = tmp_path / "data/postgres"
            old = postgres_pid(directory)
            assert old is not None
            os.kill(old, signal.SIGKILL)
            produced.append(await wire.ask(request))
            new_postgres_pid(directory, old)
    finally:
        code = broker.stop()

    # Then it has gone on, and ends as it should
    answers = [one.responses[0].partition_responses[0] for one in produced]
    assert [answer.base_offset for answer in answers] == [0, 1]
    assert code == 0
