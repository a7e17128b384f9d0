"""S3 over https: the certificate is checked, by the system's authorities or by AWS_CA_BUNDLE."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from broker.plain_connections import warn_of_plain_connections
from storage.errors import ObjectStoreUnavailable
from storage.objects.open_store import open_store
from storage.objects.port import ObjectStore
from tests.support.certificates import Authority, make_authority
from tests.support.s3_server import S3Server

ROOT: Final = Path(__file__).parents[3]
PATIENCE_S: Final = 10.0
"""Less than the store's own deadline of 15 s: what cannot succeed is not tried again."""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("Object Store Authority")


@pytest.fixture(scope="module")
def bundle(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return authority.write_truststore(tmp_path_factory.mktemp("bundle") / "authority.pem")


@pytest.fixture(scope="module")
def server(
    authority: Authority, bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    """A server whose certificate is for 127.0.0.1, and no other name."""
    folder = tmp_path_factory.mktemp("s3")
    certificate = authority.issue("CN=127.0.0.1", names=["127.0.0.1"])
    files = (
        certificate.write_certificate(folder / "server.crt"),
        certificate.write_key(folder / "server.key"),
    )
    with S3Server.start_tls(folder / "data", *files, bundle) as running:
        running.create_bucket("records")
        yield running


@pytest.fixture
def environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """This process's variables are those of a client of the server, without an authority."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    return monkeypatch


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[ObjectStore]:
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


async def test_an_authority_of_ones_own_is_trusted(
    server: S3Server, bundle: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("AWS_CA_BUNDLE", str(bundle))
    assert server.store_url("records").startswith("s3://records/?endpoint=https://127.0.0.1:")
    async with opened(server.store_url("records")) as store:
        await store.put("a/b", [b"some ", b"bytes"])
        assert bytes(await store.get("a/b", 5, 5)) == b"bytes"
        assert [found.path async for found in store.list("a/")] == ["a/b"]
        await store.delete(["a/b"])


@pytest.mark.parametrize("trusts", ["nobody in particular", "somebody else"])
async def test_another_authority_is_refused_at_once(
    server: S3Server, environment: pytest.MonkeyPatch, tmp_path: Path, trusts: str
) -> None:
    if trusts == "somebody else":
        other = make_authority("Object Store Authority").write_truststore(tmp_path / "other.pem")
        environment.setenv("AWS_CA_BUNDLE", str(other))
    await refuses(server.store_url("records"), "AWS_CA_BUNDLE")


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "cannot be read: No such file"), ("-", "has no certificates")]
)
async def test_an_authority_that_cannot_be_used_is_named(
    server: S3Server,
    environment: pytest.MonkeyPatch,
    tmp_path: Path,
    content: str | None,
    reason: str,
) -> None:
    bundle = tmp_path / "authority.pem"
    if content is not None:
        bundle.write_text(content)
    environment.setenv("AWS_CA_BUNDLE", str(bundle))
    with pytest.raises(ObjectStoreUnavailable, match=f"AWS_CA_BUNDLE: {bundle} {reason}"):
        await open_store(server.store_url("records"))


async def test_another_name_is_refused_at_once(
    server: S3Server, bundle: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("AWS_CA_BUNDLE", str(bundle))
    url = server.store_url("records").replace("127.0.0.1", "localhost")
    await refuses(url, "certificate")


async def test_a_server_without_tls_is_refused_at_once(
    server: S3Server, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with S3Server.start(tmp_path) as plain:
        await refuses(plain.store_url("records").replace("http://", "https://"), "no TLS")


async def refuses(url: str, reason: str) -> None:
    async with opened(url) as store:
        began_s = time.monotonic()
        with pytest.raises(ObjectStoreUnavailable, match=reason) as refused:
            await store.put("a", [b"bytes"])
        assert time.monotonic() - began_s < PATIENCE_S
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in str(refused.value)


def test_a_broker_does_not_start_on_a_store_that_it_cannot_trust(
    server: S3Server, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "broker.main", "serve", "--listen", "127.0.0.1:0"]
    options = ["--http", "127.0.0.1:0", "--data", str(tmp_path)]
    ended = subprocess.run(
        [*command, *options, "--store", server.store_url("records")],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=os.environ | server.environment(),
    )
    assert ended.returncode == 1
    assert "AWS_CA_BUNDLE" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("dsn", "store", "warnings"),
    [
        ("postgresql://u@db/d", "s3://records?endpoint=http://store:9000", 2),
        ("postgresql://u@db/d?sslmode=require", "s3://records?endpoint=https://store:9000", 0),
        ("postgresql://u@127.0.0.1/d", "s3://records?endpoint=http://127.0.0.1:9000", 0),
        ("postgresql://u@/d?host=/run", "s3://records?region=eu-west-1", 0),
        ("postgresql://u@/d?host=/run", "file:///data", 0),
    ],
)
def test_stores_elsewhere_without_tls_are_warned_of(dsn: str, store: str, warnings: int) -> None:
    with capture_logs() as logs:
        warn_of_plain_connections(dsn, store)
    assert [entry["log_level"] for entry in logs] == ["warning"] * warnings
