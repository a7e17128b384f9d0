"""Jobs as people start them: a worker is killed in the middle of a swap; a store is checked."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import asyncpg
import psutil

from storage.postgres.postgres_connection import Connection
from tests.clients.confluent import Confluent
from tests.clients.spark_archive import driver_environment
from tests.crash.processes import until
from tests.spark.crash.job_process import JobProcess, running_job
from tests.spark.upkeep_clusters import (
    CLAIMED,
    CONFIG,
    Cluster,
    check_received,
    new_cluster,
    rounds_of,
    send_rounds,
)

SPARK_STARTS_S: Final = 180.0  # a driver and its workers, beside whatever else runs

PENDING = (
    "SELECT path FROM streamhouse_internal.objects WHERE state = 'pending' AND path LIKE 'topics/%'"
)
WORKER = "spark.python_daemon"


@asynccontextmanager
async def held_swaps(cluster: Cluster) -> AsyncIterator[None]:
    """Let no swap happen for the length of a block."""
    connection: Connection = await asyncpg.connect(cluster.dsn)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE streamhouse_internal.segments IN SHARE MODE")
            yield
    finally:
        await connection.close()


def workers(job: JobProcess) -> list[psutil.Process]:
    """Return Python workers of a job: forks of Spark's daemon."""
    found = []
    for process in psutil.Process(job.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            parent = process.parent()
            if parent and WORKER in process.cmdline() and WORKER in parent.cmdline():
                found.append(process)
    return found


def environment_of(cluster: Cluster) -> dict[str, str]:
    return {
        **os.environ,
        **driver_environment(),
        "STREAMHOUSE_POSTGRES": cluster.dsn,
        "STREAMHOUSE_STORE": f"file://{cluster.store}",
        "STREAMHOUSE_UPKEEP__SEGMENT_BYTES": str(CONFIG.segment_bytes),
    }


async def test_a_worker_that_dies_in_the_middle_does_no_harm(tmp_path: Path) -> None:
    # Given a log that is not built
    cluster = await asyncio.to_thread(new_cluster, tmp_path)
    rounds = rounds_of(8, 60)
    with cluster.broker() as broker:
        confluent = Confluent(bootstrap=broker.bootstrap)
        confluent.create_topic("killed", partition_count=3)
        await asyncio.to_thread(send_rounds, broker.bootstrap, "killed", rounds)
        job = JobProcess(
            *("spark.jobs.build", "--all", "--master", "local[2,4]"),
            log=tmp_path / "job.log",
            environment=environment_of(cluster),
        )
        with running_job(job):
            # When workers are killed that have stored segments, and wait for the swap
            async with held_swaps(cluster):
                await asyncio.to_thread(
                    until, lambda: workers_at_it(cluster, job), "segments", SPARK_STARTS_S
                )
                killed = [each.pid for each in workers(job)]
                for each in workers(job):
                    each.kill()
            code = await asyncio.to_thread(job.wait)

        # Then Spark does it again when the lease is over, and the log is what it was
        assert killed
        assert code == 0, job.log()
        left = await asyncio.to_thread(
            cluster.fetch, "SELECT 1 FROM streamhouse.segments WHERE NOT built"
        )
        assert left == []
        sent = [record for records in rounds for record in records]
        check_received(confluent.consume("killed"), sent)

        # And what they had stored is no damage: left for the sweeper, or swapped in all the same,
        # for Postgres may not hear of their death before it has the lock
        await check_with_spark(cluster, tmp_path / "report")


def workers_at_it(cluster: Cluster, job: JobProcess) -> bool | None:
    return (cluster.fetch(CLAIMED) and cluster.fetch(PENDING) and bool(workers(job))) or None


async def check_with_spark(cluster: Cluster, report: Path) -> None:
    """Run the job `fsck` on a sound store, and on one that lacks an object."""
    (path, *_) = [row[4] for row in await asyncio.to_thread(cluster.rows)]
    (cluster.store / path).unlink()
    job = JobProcess(
        *("spark.jobs.fsck", "--deep", "--json", "--report", str(report)),
        log=report.with_suffix(".log"),
        environment=environment_of(cluster),
    )
    with running_job(job):
        code = await asyncio.to_thread(job.wait)
    assert code == 1, job.log()
    found = json.loads((report / "fsck.json").read_text())
    assert found["damaged"]
    assert {each["kind"] for each in found["findings"]} == {"object missing", "damaged bytes"}
    assert list((report / "findings").glob("*.parquet"))
