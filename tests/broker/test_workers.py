"""`serve --workers N`: several brokers in one go, and what becomes of them when some die."""

import asyncio
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.support.broker import BrokerFailed, BrokerProcess, start_broker
from tests.support.ports import free_ports
from tests.support.wire import WireClient

PATIENCE_S = 30.0


def start_workers(data: Path, first_port: int, *, own_imports: bool = False) -> BrokerProcess:
    http = f"127.0.0.1:{first_port + 2}"
    listen = f"127.0.0.1:{first_port}"
    return start_broker(
        data, "--workers", "2", "--http", http, listen=listen, own_imports=own_imports
    )


def workers_of(broker: BrokerProcess) -> list[psutil.Process]:
    return [one for one in psutil.Process(broker.pid).children() if is_worker(one)]


def is_worker(process: psutil.Process) -> bool:
    try:
        return is_alive(process) and "spawn_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # it ended while it was looked at
        return False


def is_alive(process: psutil.Process) -> bool:
    """Whether it still does anything: an orphan's remains stay until somebody asks for them."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_ready(http: str) -> bool:
    try:
        with urlopen(f"http://{http}/health/ready", timeout=PATIENCE_S) as response:
            return bool(response.status == 200)
    except OSError:
        return False


async def node_ids(bootstrap: str) -> list[int]:
    async with await WireClient.connect(bootstrap) as wire:
        return [one.node_id for one in (await wire.describe("none")).brokers]


def test_two_workers_are_two_nodes_of_one_cluster(tmp_path: Path) -> None:
    # Given two workers
    port = free_ports(4)
    broker = start_workers(tmp_path, port)
    try:
        assert broker.bootstrap == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
        assert broker.http == f"127.0.0.1:{port + 2},127.0.0.1:{port + 3}"
        first, second = broker.bootstrap.split(",")
        wait_until(lambda: asyncio.run(node_ids(first)) == [0, 1])

        # When records are written through one and read through the other
        Confluent(bootstrap=first).create_topic("t", partition_count=6)
        sent = [SentRecord(key=b"%d" % number, value=b"x") for number in range(100)]
        Confluent(bootstrap=first).produce("t", sent)

        # Then all of them are there
        assert len(Confluent(bootstrap=second).consume("t")) == 100

        # When one of them is killed, then it comes back as the node that it was
        killed = workers_of(broker)[0]
        killed.kill()
        wait_until(lambda: len(workers_of(broker)) == 2 and killed not in workers_of(broker))
        for http in broker.http.split(","):
            wait_until(lambda http=http: is_ready(http))  # type: ignore[misc]
        assert sorted(asyncio.run(node_ids(second))) == [0, 1]
        assert len(Confluent(bootstrap=first).consume("t")) == 100
    finally:
        assert broker.stop() == 0


def test_the_parents_death_ends_the_workers_and_the_next_start_goes_on(tmp_path: Path) -> None:
    # Given two workers with a topic
    port = free_ports(4)
    broker = start_workers(tmp_path, port)
    Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
    workers = workers_of(broker)

    # When the parent is killed and the command started again
    broker.kill()
    again = start_workers(tmp_path, port)

    # Then the old workers are gone, and the new ones have the topic
    try:
        assert not [one for one in workers if is_alive(one)]
        assert Confluent(bootstrap=again.bootstrap).partitions("t") == [0]
    finally:
        assert again.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_or_a_closed_terminal_ends_all_of_them(
    tmp_path: Path, number: signal.Signals
) -> None:
    # Given two workers, and a terminal that sends it to parent and children alike
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have started the tests
    broker = start_workers(tmp_path, free_ports(4), own_imports=True)
    signal.signal(signal.SIGHUP, before)
    workers = workers_of(broker)
    for process in (psutil.Process(broker.pid), *workers):
        process.send_signal(number)

    # Then all end in time
    assert broker.process.wait(10) == 0
    assert not [one for one in workers if is_alive(one)]
    assert not re.search("Traceback", broker.log.read_text())
    broker.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "workers: use 1 or more"),
        (["--workers", "17"], "workers: use 16 or less"),
        (["--workers", "2"], "workers: .*--listen"),
        (["--workers", "2", "--http", "127.0.0.1:65535"], "workers: .*--listen"),
    ],
)
def test_workers_that_cannot_be(tmp_path: Path, arguments: list[str], message: str) -> None:
    listen = "127.0.0.1:0" if "--http" not in arguments else "127.0.0.1:29999"
    with pytest.raises(BrokerFailed, match=message):
        start_broker(tmp_path, *arguments, listen=listen)


def test_a_port_in_use_ends_all_with_its_name(tmp_path: Path) -> None:
    port = free_ports(4)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        taken.listen()
        with pytest.raises(BrokerFailed, match=str(port + 1)):
            start_workers(tmp_path, port)
