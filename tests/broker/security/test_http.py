"""The HTTP port: who may ask what of it, and what those cannot do who only want to do harm."""

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
from prometheus_client import CollectorRegistry

from broker.http import http_connections
from broker.http.exposition import Family
from broker.http.http_access import HttpAccess
from broker.http.http_connections import MAX_CONNECTIONS
from broker.http.http_port import HttpServer
from broker.http.http_problems import http_problems
from broker.paced import Paced
from tests.support.broker import BrokerProcess, start_broker

TOKEN: Final = "0123456789abcdef" * 4
PATIENCE_S: Final = 10.0


@pytest.fixture(scope="module", name="guarded")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose HTTP port has a token and is on every interface."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMHOUSE_SECRETS__HTTP_TOKEN", TOKEN)
        broker = start_broker(tmp_path_factory.mktemp("guarded"), "--http", "0.0.0.0:0")
    yield broker
    broker.stop()


def ask(
    address: str,
    path: str,
    headers: Mapping[str, str] = MappingProxyType({}),
    *,
    method: str = "GET",
    body: bytes | None = None,
    source: str = "127.0.0.1",
) -> tuple[int, dict[str, str], str]:
    """Return status, headers and text of an answer."""
    port = int(address.rpartition(":")[2])
    connection = http.client.HTTPConnection(
        "127.0.0.1", port, timeout=PATIENCE_S, source_address=(source, 0)
    )
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


# Who may ask


@pytest.mark.parametrize("http", ["127.0.0.1:9644", "127.8.8.8:1", "[::1]:9644", "localhost:0"])
def test_loopback_needs_no_token(http: str) -> None:
    assert http_problems(http, "") == []
    assert http_problems(http, TOKEN) == []


@pytest.mark.parametrize(
    "http", ["0.0.0.0:9644", "[::]:9644", "10.0.0.1:9644", "broker-1.example:9644", "localhost.x:1"]
)
def test_what_others_reach_needs_a_token(http: str) -> None:
    (problem,) = http_problems(http, "")
    assert "STREAMHOUSE_SECRETS__HTTP_TOKEN" in problem
    assert http_problems(http, TOKEN) == []


@pytest.mark.parametrize("token", ["x", "x" * 31, "x" * 40 + " ", "é" * 40, "x" * 40 + "\n"])
def test_a_token_is_long_and_fits_into_a_header(token: str) -> None:
    (problem,) = http_problems("127.0.0.1:0", token)
    assert token not in problem or token == "x"
    assert problem.startswith("secrets.http_token")


def test_a_broker_does_not_start_with_an_open_port(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "broker.main", "serve", "--data", str(tmp_path / "data")]
    ended = subprocess.run(
        [*command, "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "STREAMHOUSE_SECRETS__HTTP_TOKEN" in ended.stderr
    assert ended.stdout == ""
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("path", ["/metrics", "/usage", "/", "/nothing", "/health"])
@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}0",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN.upper()}",
    ],
)
def test_without_the_token_nothing_is_told(
    guarded: BrokerProcess, path: str, given: str | None
) -> None:
    headers = {} if given is None else {"Authorization": given}
    status, found, text = ask(guarded.http, path, headers)
    assert status == 401
    assert found["WWW-Authenticate"].startswith("Bearer")
    assert text == "a token is needed\n"


def test_probes_need_no_token_and_learn_no_details(guarded: BrokerProcess) -> None:
    for path, told in (
        ("/health/live", {"status": "live"}),
        ("/health/ready", {"status": "ready"}),
    ):
        status, _, text = ask(guarded.http, path, {"Host": "broker-1.example"})
        assert (status, json.loads(text)) == (200, told)


def test_with_the_token_everything_is_told(guarded: BrokerProcess) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}", "Host": "broker-1.example:9644"}
    _, _, ready = ask(guarded.http, "/health/ready", bearer)
    assert json.loads(ready)["checks"]["postgres"] == "ok"
    status, _, text = ask(guarded.http, "/metrics", bearer)
    assert status == 200
    assert "streamhouse_connections" in text
    assert ask(guarded.http, "/usage", bearer)[0] == 200
    assert ask(guarded.http, "/nothing", bearer)[0] == 404
    status, _, text = ask(guarded.http, "/metrics", bearer, method="HEAD")
    assert (status, text) == (200, "")


@pytest.mark.parametrize(("token", "told"), [("", "a token"), ("x" * 40, "another token")])
def test_streamctl_says_which_variable_it_needs(
    guarded: BrokerProcess, token: str, told: str
) -> None:
    refused = streamctl_cost(guarded, token)
    assert refused.returncode == 1
    assert f"asks for {told}" in refused.stderr
    assert "STREAMHOUSE_SECRETS__HTTP_TOKEN" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert token == "" or token not in refused.stderr


def test_streamctl_brings_the_token(guarded: BrokerProcess) -> None:
    told = streamctl_cost(guarded, TOKEN)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["by"] == "topic"


def streamctl_cost(broker: BrokerProcess, token: str) -> "subprocess.CompletedProcess[str]":
    address = f"127.0.0.1:{broker.http.rpartition(':')[2]}"
    return subprocess.run(
        [Path(sys.executable).with_name("streamctl"), "cost", "--json", "--http", address],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"STREAMHOUSE_SECRETS__HTTP_TOKEN": token},
    )


def test_a_body_is_not_read(guarded: BrokerProcess) -> None:
    status, headers, _ = ask(guarded.http, "/health/live", method="POST", body=b"x" * 100_000)
    assert status == 413
    assert headers["Connection"] == "close"


# What a web page in somebody's browser may ask, and what clients may cost


@pytest.fixture(name="port")
async def open_server() -> AsyncIterator[int]:
    """A server without a token."""
    server = HttpServer(CollectorRegistry(), {})
    server.serving = True
    yield await server.listen("127.0.0.1", 0)
    await server.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:9644", 200),
        ("localhost:9644", 200),
        ("[::1]:9644", 200),
        ("10.1.2.3:80", 200),  # through a tunnel; no name to rebind
        ("attacker.example", 421),
        ("attacker.example:9644", 421),
        ("localhost.attacker.example", 421),
        ("127.0.0.1.attacker.example:9644", 421),
        ("", 421),
    ],
)
async def test_a_page_that_rebinds_its_name_reads_nothing(
    port: int, host: str, status: int
) -> None:
    for path in ("/metrics", "/health/ready"):
        answer = await asyncio.to_thread(ask, f"127.0.0.1:{port}", path, {"Host": host})
        assert answer[0] == status, path


async def test_who_sends_a_request_slowly_is_not_waited_for(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connections, "REQUEST_S", 0.5)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    async with asyncio.timeout(PATIENCE_S):
        while await _is_open(reader, writer):
            writer.write(b"x")
    writer.close()


async def _is_open(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Wait a moment; tell whether the connection is still there."""
    try:
        await writer.drain()
        async with asyncio.timeout(0.05):
            return await reader.read(1) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


async def test_many_connections_keep_no_probe_out(port: int) -> None:
    # Given more connections than there may be, which say nothing
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS + 40)]

    # Then who asks is answered at once
    answer = await asyncio.to_thread(ask, f"127.0.0.1:{port}", "/health/live")
    assert answer[0] == 200
    for _, writer in held:
        writer.close()


async def test_connections_that_ask_all_the_time_keep_no_probe_out() -> None:
    # Given checks that take a while, and as many clients as there may be who always wait for them
    async def check() -> None:
        await asyncio.sleep(0.02)

    async def slow() -> Iterable[Family]:
        await asyncio.sleep(0.5)
        return []

    server = HttpServer(CollectorRegistry(), {"postgres": check}, access=HttpAccess(TOKEN))
    server.serving = True
    server.sources.append(slow)
    address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
    crowd = [asyncio.create_task(_ask_on(address)) for _ in range(MAX_CONNECTIONS)]
    while len(server._connections._open) < MAX_CONNECTIONS:
        await asyncio.sleep(0.01)

    # When probes come, and who has the token and asks for what takes long
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    metrics = asyncio.create_task(asyncio.to_thread(ask, address, "/metrics", bearer))
    probes = []
    for _ in range(20):
        probes.append(await asyncio.to_thread(ask, address, "/health/live"))
        probes.append(await asyncio.to_thread(ask, address, "/health/ready", source="127.0.0.2"))

    # Then all of them are answered
    assert [probe[0] for probe in probes] == [200] * 40
    assert (await metrics)[0] == 200
    for client in crowd:
        client.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    await server.close()


async def _ask_on(address: str) -> None:
    """Ask whether the broker is ready again and again, on another connection if one has ended."""
    host, _, port = address.partition(":")
    while True:
        reader, writer = await asyncio.open_connection(host, int(port))
        with suppress(ConnectionError), closing(writer):
            while not reader.at_eof():
                writer.write(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await reader.read(1_000)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    ],
    ids=["long header", "long path", "many headers", "TLS"],
)
async def test_a_head_has_a_size(port: int, head: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    writer.close()
    assert "Traceback" not in capfd.readouterr().err  # a stranger's nonsense is no news


async def test_metrics_are_made_once_at_a_time_for_all_who_ask(port: int) -> None:
    # Given metrics that take a while
    server = HttpServer(CollectorRegistry(), {})
    running, most, runs = 0, 0, 0

    async def slow() -> Iterable[Family]:
        nonlocal running, most, runs
        running, runs = running + 1, runs + 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return [Family(name="one", text="One.", samples=[("", 1)])]

    server.sources.append(slow)
    address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"

    # When many ask at once
    answers = await asyncio.gather(
        *(asyncio.to_thread(ask, address, "/metrics") for _ in range(12))
    )

    # Then all are answered, with a few runs that never overlap
    assert {answer[0] for answer in answers} == {200}
    assert all("one 1" in answer[2] for answer in answers)
    assert most == 1
    assert runs < 12
    await server.close()


async def test_who_does_not_read_the_answer_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given an answer larger than the sockets' buffers, and a client that reads none of it
    monkeypatch.setattr(http_connections, "READING_S", 0.3)
    server = HttpServer(CollectorRegistry(), {}, access=HttpAccess())

    async def large() -> Iterable[Family]:
        return [Family(name="x" * 1000, text="", samples=[("", n) for n in range(20_000)])]

    server.sources.append(large)
    port = await server.listen("127.0.0.1", 0)
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")

    # Then its connection ends before it has everything
    connections = server._connections._open
    async with asyncio.timeout(PATIENCE_S):
        while not connections:
            await asyncio.sleep(0.01)
        while connections:
            await asyncio.sleep(0.01)
    with client:
        received = 0
        try:
            while chunk := await asyncio.to_thread(client.recv, 2**20):
                received += len(chunk)
        except ConnectionResetError:
            pass
    assert received < 20_000_000
    await server.close()


async def test_a_job_has_rests_between_its_runs() -> None:
    # Given a job that takes a second of this clock
    now_s = 0.0

    async def job() -> float:
        nonlocal now_s
        now_s += 0.01
        return now_s

    paced = Paced(job, longest_rest_s=5.0, clock=lambda: now_s)
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    # When it is asked for twice in a row, then the second run waits four times as long
    assert await paced.run() == pytest.approx(0.01)
    assert await paced.run() == pytest.approx(0.02)
    assert loop.time() - began_s >= 0.039
