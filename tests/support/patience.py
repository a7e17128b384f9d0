"""Time limits of sessions with Postgres that no slow machine exceeds by chance."""

from typing import Final

import pytest

from storage.config import PostgresConfig
from storage.metadata import metadata_postgres
from storage.postgres import commit_connection, postgres_connection, postgres_pool

PATIENCE_S: Final = 60.0
PATIENT: Final = PostgresConfig(
    pool_size=2, connect_timeout_s=PATIENCE_S, command_timeout_s=2 * PATIENCE_S
)
"""For tests of anything but time limits."""


def lift_limits(patched: pytest.MonkeyPatch) -> None:
    """Let sessions wait for a lock as long as a machine may stand still, and heartbeats, too.

    Else what a test holds up for a moment fails when that moment takes two seconds, and a heartbeat
    when the server needs half a second. A deadlock is found within one all the same.
    """
    patched.setattr(postgres_connection, "LOCK_TIMEOUT_S", PATIENCE_S)
    patched.setattr(postgres_connection, "IDLE_IN_TRANSACTION_S", PATIENCE_S)
    patched.setattr(metadata_postgres, "HEARTBEAT_TIMEOUT_S", PATIENCE_S)
    for module in (commit_connection, postgres_pool):
        patched.setattr(module, "GOODBYE_S", PATIENCE_S)
