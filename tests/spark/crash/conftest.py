"""One broker and one Postgres for all jobs that are killed, and the dice that say when.

CRASH_SEED and CRASH_ROUNDS are those of tests/crash.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.cache import cache_directory
from tests.clients.spark_archive import driver_environment
from tests.spark.crash.cluster import KillableCluster, killable_cluster
from tests.spark.crash.job_process import JobProcess

JobMaker = Callable[..., JobProcess]


@pytest.fixture(scope="session")
def killable() -> Iterator[KillableCluster]:
    """The cluster; its path is short enough for a socket in it."""
    home = Path(tempfile.mkdtemp(prefix="streamhouse-crash-", dir="/tmp"))
    try:
        with killable_cluster(home) as running:
            yield running
    finally:
        shutil.rmtree(home)


@pytest.fixture
def make_job(killable: KillableCluster, tmp_path: Path) -> JobMaker:
    """Return a function of a module and its arguments; jars come from the tests' cache."""
    jars = f"--conf spark.jars.ivy={cache_directory() / 'ivy'}"
    told = {**killable.environment, **driver_environment(jars)}

    def make(module: str, *arguments: str) -> JobProcess:
        return JobProcess(module, *arguments, log=tmp_path / "job.log", environment=told)

    return make
