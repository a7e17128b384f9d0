"""Fixtures of the object store suites; tests take them by name and import nothing for it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from storage.objects.port import ObjectStore
from tests.contracts.object_stores import BUCKET, KINDS, directory_store, fresh_s3_config, s3_store
from tests.support.fakes.objects import MemoryStore
from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def shared_s3_server(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[S3Server]:
    """One server for all tests that leave it running."""
    with S3Server.start(tmp_path_factory.mktemp("s3")) as server:
        server.create_bucket(BUCKET)
        reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:  # it stands aside in worker processes
            reporter.ensure_newline()
            reporter.write_line(f"S3 server: {server.kind}")
        yield server


@pytest.fixture
def s3_server(shared_s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The shared server, with this process's credentials set for it."""
    for name, value in shared_s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return shared_s3_server


@pytest.fixture
def own_s3_server(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Server]:
    """A server that the test may kill or pause."""
    with S3Server.start(tmp_path_factory.mktemp("own-s3")) as server:
        server.create_bucket(BUCKET)
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ObjectStore]:
    """Each store in turn, empty."""
    match request.param:
        case "directory" | "directory, reads once" as kind:
            folder = tmp_path_factory.mktemp("directory")
            async with directory_store(folder, reads_once=kind != "directory") as opened:
                yield opened
        case "memory":
            yield MemoryStore()
        case _:
            server = request.getfixturevalue("s3_server")
            async with s3_store(fresh_s3_config(server)) as opened:
                yield opened
