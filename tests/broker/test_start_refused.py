"""What `streamhouse serve` says of a database, store or directory with which it cannot start."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker.config import InvalidSettings, read_settings
from tests.support.broker import BrokerFailed, running_broker, start_broker
from tests.support.ports import free_port
from tests.support.postgres import create_empty_database
from tests.support.serve_command import serve


def test_a_postgres_host_that_is_no_name_ends_the_start(tmp_path: Path) -> None:
    result = serve(
        *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path)),
        STREAMHOUSE_POSTGRES="postgresql://u:pa55word@a..b/log",
    )
    assert result.returncode == 1
    assert "database log at a..b:5432: cannot connect: no host has such a name" in result.stderr
    assert "Traceback" not in result.stderr


async def test_a_database_that_is_not_there_ends_the_start_at_once(tmp_path: Path) -> None:
    # Given a server, and a DSN of a database that it does not have
    dsn = (await create_empty_database()).replace("/empty_", "/no_such_")

    # When a broker is started with it, then it ends at once and names database and flag
    result = serve(
        *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path)),
        STREAMHOUSE_POSTGRES=dsn,
    )
    assert result.returncode == 1
    assert "database no_such_" in result.stderr
    assert "--postgres" in result.stderr
    assert "waiting" not in result.stderr


def test_a_database_that_does_not_answer_is_waited_for_and_named(tmp_path: Path) -> None:
    # Given a DSN of a server that is not there
    port = free_port()
    dsn = f"postgresql://u:pa55word@127.0.0.1:{port}/log"

    # When a broker is started with it
    environment = {"STREAMHOUSE_POSTGRES": dsn, "STREAMHOUSE_DATA": str(tmp_path)}
    began = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "broker.main",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
        cwd=Path(__file__).parents[2],
    )
    with began:
        assert began.stderr is not None
        line = began.stderr.readline()
        time.sleep(1)
        began.terminate()
        others = began.stderr.read()

    # Then it says once which, how long it waits, and where that is set; never the password
    for part in (f"database log at 127.0.0.1:{port}", "--postgres", '"gives_up_in_s": 60'):
        assert part in line
    assert "waiting" not in others
    assert "pa55word" not in line + others


def test_a_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    # Given a store that one cluster has used
    store = f"file://{tmp_path / 'objects'}"
    with running_broker(tmp_path / "one", "--store", store):
        pass

    # When a broker with another database is started on it
    # Then it does not serve, and says why
    with pytest.raises(BrokerFailed, match="belongs to another cluster"):
        start_broker(tmp_path / "two", "--store", store)


async def test_an_empty_store_is_refused_by_a_cluster_that_has_one(tmp_path: Path) -> None:
    # Given a cluster with a store
    shared = ("--postgres", await create_empty_database())
    right, wrong = f"file://{tmp_path / 'objects'}", f"file://{tmp_path / 'object'}"
    with running_broker(tmp_path / "one", *shared, "--store", right):
        pass

    # When one more broker is started with a wrong letter in the store's name
    with pytest.raises(BrokerFailed) as failure:
        start_broker(tmp_path / "two", *shared, "--store", wrong)

    # Then it does not serve, and names the store, the database and the remedy
    for part in (wrong, "database empty_", "--store as the other brokers have it"):
        assert part in str(failure.value)

    # And the right store is taken again
    with running_broker(tmp_path / "one", *shared, "--store", right):
        pass


def test_another_databases_dsn_is_refused_at_once() -> None:
    with pytest.raises(InvalidSettings, match="postgresql://"):
        read_settings({"postgres": "mysql://host/db"}, None)


def test_a_data_directory_that_cannot_be_made_names_the_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = serve("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file"))
    assert result.returncode == 1
    assert f"{tmp_path / 'file'}: " in result.stderr
    assert "--data" in result.stderr
    assert "Traceback" not in result.stderr
