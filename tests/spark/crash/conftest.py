"""One broker and one Postgres for all jobs that are killed, and the dice that say when.

CRASH_SEED and CRASH_ROUNDS are those of tests/crash.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.clients.cache import cache_directory
from tests.spark.crash.cluster import KillableCluster, killable_cluster
from tests.spark.crash.job_process import JobProcess

# A job of seconds is over before the better one of Java's compilers pays.
QUICK_START: Final = '--driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"'

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
    jars = f"--conf spark.jars.ivy={cache_directory() / 'ivy'} {QUICK_START} pyspark-shell"

    def make(module: str, *arguments: str) -> JobProcess:
        environment = {**killable.environment, "PYSPARK_SUBMIT_ARGS": jars}
        return JobProcess(module, *arguments, log=tmp_path / "job.log", environment=environment)

    return make
