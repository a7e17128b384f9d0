"""Fixtures of tests on a real Postgres; tests take them by name and import nothing for it."""

import pytest

from storage.metadata import metadata_postgres
from storage.postgres import commit_connection, postgres_connection, postgres_pool
from tests.storage.postgres_commits import PATIENCE_S


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions wait for a lock as long as a machine may stand still, and so do heartbeats.

    Else what a test holds up for a moment fails when that moment takes two seconds. A deadlock is
    found within one all the same.
    """
    monkeypatch.setattr(postgres_connection, "LOCK_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(postgres_connection, "IDLE_IN_TRANSACTION_S", PATIENCE_S)
    monkeypatch.setattr(metadata_postgres, "HEARTBEAT_TIMEOUT_S", PATIENCE_S)
    for module in (commit_connection, postgres_pool):
        monkeypatch.setattr(module, "GOODBYE_S", PATIENCE_S)
