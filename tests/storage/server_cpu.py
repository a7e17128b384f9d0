"""What statements cost the server: no time that others take the processors for counts."""

from contextlib import suppress

import psutil

from storage.postgres.postgres_connection import Connection


async def server_cpu_s(session: Connection) -> float:
    """Return the CPU time so far of all processes that serve sessions of a session's database.

    The kernel tells it in steps of 10 ms.
    """
    rows = await session.fetch(
        "SELECT pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    taken_s = 0.0
    for row in rows:
        with suppress(psutil.NoSuchProcess):  # it has just ended
            times = psutil.Process(row["pid"]).cpu_times()
            taken_s += times.user + times.system
    return taken_s
