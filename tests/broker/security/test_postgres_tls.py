"""Postgres over TLS: what a DSN asks for is had, or there is no connection."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from storage.config import PostgresConfig
from storage.errors import PostgresNotTrusted
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.postgres_connection import connect
from storage.postgres.postgres_dsn import check_dsn, database_name, unencrypted_hosts
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.support.broker import start_broker
from tests.support.certificates import Authority, make_authority
from tests.support.ports import free_ports
from tests.support.postgres_tls import CERTIFICATE_USER, PASSWORD, TlsPostgres, tls_postgres

ROOT: Final = Path(__file__).parents[3]
PATIENCE_S: Final = 30.0
STATISTICS: Final = (
    "SELECT a.application_name, s.ssl, s.version FROM pg_stat_activity a JOIN pg_stat_ssl s "
    "USING (pid) WHERE a.backend_type = 'client backend' AND a.client_addr IS NOT NULL "
    "AND a.state IS NOT NULL AND a.state <> 'starting'"
)
"""Who has just connected is shown without TLS until it is known who that is."""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("Database Authority")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[TlsPostgres]:
    with tls_postgres(authority) as running:
        yield running


@pytest.fixture(scope="module")
def trusted(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The options of a DSN that wants the right server."""
    file = authority.write_truststore(tmp_path_factory.mktemp("trusted") / "authority.pem")
    return f"sslmode=verify-full&sslrootcert={file}"


def in_pieces(text: str) -> Sequence[str]:
    """Return what must stand in no message of this text: the whole, and every part of a DSN."""
    return [text, quote(text, safe=""), *(part for part in text.split("/") if len(part) > 4)]


def test_every_process_of_the_broker_speaks_tls(
    server: TlsPostgres, trusted: str, tmp_path: Path
) -> None:
    # Given two workers and an upkeep process whose DSN wants the server's certificate checked
    dsn = server.dsn(trusted)
    upkeep = {"STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "200"}
    environment = os.environ | {"STREAMHOUSE_POSTGRES": dsn, **upkeep}
    port = free_ports(4)
    broker = start_broker(
        tmp_path,
        *("--workers", "2", "--http", f"127.0.0.1:{port + 2}"),
        listen=f"127.0.0.1:{port}",
        environment=environment,
    )
    try:
        # When records are written and read, and the upkeep process works
        first = Confluent(bootstrap=broker.bootstrap)
        first.create_topic("t", partition_count=1)
        first.produce("t", [SentRecord(key=b"k", value=b"v")])
        assert len(first.consume("t")) == 1
        wait_for_upkeep(broker.http.split(",")[0])

        # Then each connection to Postgres is encrypted
        sessions = [line.split("|") for line in server.execute(STATISTICS).splitlines()]
        assert len(sessions) >= 5
        assert {(ssl, version) for _, ssl, version in sessions} == {("t", "TLSv1.3")}

        # And so is that of a command without a broker, given the DSN
        command = [str(Path(sys.executable).with_name("streamctl")), "fsck", "--json"]
        told = {"STREAMHOUSE_POSTGRES": dsn, "STREAMHOUSE_STORE": f"file://{tmp_path}/objects"}
        fsck = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=ROOT, env=os.environ | told
        )
        assert fsck.returncode == 0, fsck.stderr
        assert json.loads(fsck.stdout)["findings"] == []
    finally:
        assert broker.stop() == 0
    log = broker.log.read_text()
    assert not any(part in log for part in in_pieces(PASSWORD))


def wait_for_upkeep(http: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with urlopen(f"http://{http}/health/ready", timeout=5) as response:
            if json.load(response)["details"]["upkeep"] == "ok":
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def test_a_client_certificate_logs_in(
    server: TlsPostgres, authority: Authority, trusted: str, tmp_path: Path
) -> None:
    certificate = authority.issue(f"CN={CERTIFICATE_USER}", names=[])
    files = (
        f"&sslcert={certificate.write_certificate(tmp_path / 'client.pem')}"
        f"&sslkey={certificate.write_key(tmp_path / 'client.key')}"
    )
    dsn = server.dsn(trusted + files, user=CERTIFICATE_USER)
    check_dsn(dsn)
    connection = await connect(dsn, PostgresConfig())
    assert await connection.fetchval("SELECT current_user") == CERTIFICATE_USER
    await connection.close()


async def test_another_authority_or_name_is_refused(
    server: TlsPostgres, trusted: str, tmp_path: Path
) -> None:
    other = make_authority("Database Authority").write_truststore(tmp_path / "other.pem")
    for dsn, reason in (
        (server.dsn(f"sslmode=verify-full&sslrootcert={other}"), "certificate verify failed"),
        (server.dsn(f"sslmode=verify-ca&sslrootcert={other}"), "certificate verify failed"),
        (server.dsn(trusted, host="127.0.0.1"), "IP address mismatch"),
        (server.dsn("sslmode=verify-sometimes"), "sslmode"),
    ):
        with pytest.raises(PostgresNotTrusted, match=reason) as refused:
            await PostgresMetadata.open(dsn)
        assert not any(part in str(refused.value) for part in in_pieces(PASSWORD))


async def test_a_server_without_tls_is_refused_where_tls_is_wanted(
    server: TlsPostgres, trusted: str
) -> None:
    server.set_tls(on=False)
    try:
        for options in (trusted, "sslmode=require"):
            with pytest.raises(PostgresNotTrusted, match="it has no TLS"):
                await PostgresMetadata.open(server.dsn(options))
    finally:
        server.set_tls(on=True)


def test_a_broker_says_at_once_that_it_does_not_trust_the_server(
    server: TlsPostgres, tmp_path: Path
) -> None:
    other = make_authority().write_truststore(tmp_path / "other.pem")
    dsn = server.dsn(f"sslmode=verify-full&sslrootcert={other}")
    began_s = time.monotonic()
    ended = serve(dsn, tmp_path)
    assert ended.returncode == 1
    assert "certificate verify failed" in ended.stderr
    assert "sslrootcert" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not any(part in ended.stderr for part in in_pieces(PASSWORD))
    assert time.monotonic() - began_s < PATIENCE_S  # it waits for Postgres for a minute


def serve(dsn: str, data: Path) -> "subprocess.CompletedProcess[str]":
    """Run a broker that is to end by itself."""
    command = [sys.executable, "-m", "broker.main", "serve", "--listen", "127.0.0.1:0"]
    return subprocess.run(
        [*command, "--http", "127.0.0.1:0", "--data", str(data)],
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        cwd=ROOT,
        env=os.environ | {"STREAMHOUSE_POSTGRES": dsn},
    )


@pytest.mark.parametrize(
    "dsn",
    [
        "hunter2",
        "host=db password=hunter2",
        "postgresql://u:hunter2/x@db:5432/d",
        "postgresql://u:hunter2?x@db/d",
        "postgresql://u:hunter2#x@db/d",
        "postgresql://u:5432/hunter2@db/d",
        "postgresql://u:hunter2@[::1/d",
        "postgresql://db:hunter2/d",
        "postgresql://u:hunter2@db:port/d",
        "postgresql://u:hunter2@db:99999/d",
        "postgresql://u:hunter2@/d?host=db&port=99999",
        "postgresql://u:hunter2@/d?port=none",
        "postgresql://u:hunter2@db/d?sslmode=verify-full&sslrootcert=/no/such/file",
    ],
)
def test_a_dsn_that_would_be_misread_is_refused_without_being_shown(dsn: str) -> None:
    with pytest.raises(ValueError, match=r"DSN|no file") as refused:
        check_dsn(dsn)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("dsn", "hosts"),
    [
        ("postgresql://u@db/d", ["db"]),
        ("postgresql://u@db:5432,10.0.0.1:5433,127.0.0.1/d", ["db", "10.0.0.1"]),
        ("postgresql://u@[2001:db8::1]:5432/d?sslmode=prefer", ["2001:db8::1"]),
        ("postgresql://u@db/d?sslmode=require", []),
        ("postgresql://u@db/d?sslmode=verify-full", []),
        ("postgresql://u@[::1]/d", []),
        ("postgresql://u@localhost/d?sslmode=disable", []),
        ("postgresql://u@/d?host=/run/postgresql", []),
        ("postgresql://u@/d?host=db", ["db"]),
        ("postgresql:///d", []),
    ],
)
def test_hosts_without_tls_are_known(dsn: str, hosts: Sequence[str]) -> None:
    check_dsn(dsn)
    assert unencrypted_hosts(dsn, {}) == hosts
    assert unencrypted_hosts(dsn, {"PGSSLMODE": "verify-full"}) in ([], hosts)


@pytest.mark.parametrize(
    ("dsn", "name"),
    [
        ("postgresql://u:s3cret@db.example:6432/log", "database log at db.example:6432"),
        ("postgresql://u:s3cret@a,b:1/log", "database log at a:5432, b:1"),
        ("postgresql://[::1]/log?user=u&password=s3cret", "database log at [::1]:5432"),
        ("postgresql:///log?host=/run/postgres&port=7", "database log at /run/postgres:7"),
        ("postgresql://u:s3cret@db", "database u at db:5432"),
    ],
)
def test_a_database_is_named_without_its_secrets(dsn: str, name: str) -> None:
    assert database_name(dsn, {}) == name
