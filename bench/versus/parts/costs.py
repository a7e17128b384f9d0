"""What a gigabyte written costs in store requests and in Postgres, and memory after a load.

Written is what `throughput` has as its base: 1 KiB a record, acks=all, one kcat, 6 partitions.
Store requests are the broker's. Rows and commits are Postgres' own count, so those of upkeep are in
it, as far as it comes to build segments meanwhile.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import asyncpg

from bench.results import Figures
from bench.versus.contenders import KAFKA, OURS, OURS_S3, OURS_S3_50
from bench.versus.exported import exported
from bench.versus.loads import GB, Producing, consume, produce
from bench.versus.part import Case, Scale
from bench.versus.parts.throughput import QUICK_MB, SIZE_MB
from bench.versus.payload import MB, payload
from bench.versus.running import Running

PART: Final = "costs"
RECORD_BYTES: Final = 1_024
REPORTED_S: Final = 11.0
"""After this an idle process of Postgres has reported what it did; its own interval is 10 s."""

COUNTED: Final = {  # metrics of our brokers by the names of figures
    "puts": "streamhouse_object_put_seconds_count",
    "gets": "streamhouse_object_get_seconds_count",
    "log_commits": "streamhouse_commit_seconds_count",
}
DATABASE: Final = """
SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())
           AS postgres_commits,
       coalesce(sum(n_tup_ins), 0)::bigint AS rows_inserted,
       coalesce(sum(n_tup_upd), 0)::bigint AS rows_updated,
       coalesce(sum(n_tup_del), 0)::bigint AS rows_deleted,
       (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint AS wal_bytes
FROM pg_stat_user_tables
"""


def cases(scale: Scale) -> Sequence[Case]:
    """Return what is measured, in this order."""
    return [
        Case(
            part=PART,
            name="per GB written, 1 KiB",
            measure=partial(_per_gb, scale),
            contenders=(OURS, OURS_S3, OURS_S3_50),
        ),
        Case(
            part=PART,
            name="memory after a load",
            measure=partial(_memory, scale),
            contenders=(KAFKA, OURS),
        ),
    ]


def _per_gb(scale: Scale, running: Running) -> Figures:
    """Take away what the cluster does by itself, as measured just before."""
    settle_s = scale.pick(REPORTED_S, 0.5)
    load = _load(scale)
    time.sleep(settle_s)
    began_s, began = time.monotonic(), _counts(running)
    time.sleep(settle_s)
    idle_s, idle = time.monotonic() - began_s, _counts(running)
    _, produced = produce(running, load)
    time.sleep(settle_s)
    whole_s, ended = time.monotonic() - began_s, _counts(running)
    size = load.payload.records * load.payload.record_bytes
    figures: dict[str, float | str] = {"mb_per_s": produced["mb_per_s"]}
    for name, count in ended.items():
        by_itself = (idle[name] - began[name]) / idle_s * (whole_s - idle_s)
        figures[f"{name}_per_gb"] = (count - idle[name] - by_itself) / size * GB
    return figures


def _memory(scale: Scale, running: Running) -> Figures:
    """Write and read back; what other parts have done before counts, too."""
    load = _load(scale)
    topic, _ = produce(running, load)
    consume(running, topic, records=load.payload.records, record_bytes=RECORD_BYTES)
    return {"memory_mib": running.usage().broker_memory_mib}


def _load(scale: Scale) -> Producing:
    size = scale.pick(SIZE_MB[RECORD_BYTES], QUICK_MB) * MB
    return Producing(payload=payload(scale.scratch, RECORD_BYTES, size))


def _counts(running: Running) -> Mapping[str, float]:
    """Return what has been counted until now, by the names of figures."""
    return {**exported(running, COUNTED), **asyncio.run(_database(running.postgres))}


async def _database(dsn: str) -> Mapping[str, float]:
    connection = await asyncpg.connect(dsn)
    try:
        row = await connection.fetchrow(DATABASE)
    finally:
        await connection.close()
    assert row is not None
    return {name: float(value) for name, value in row.items()}
