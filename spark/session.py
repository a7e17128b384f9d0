"""The Spark session of every job: the right packages for the installed pyspark, and defaults.

What streaming needs is set: state in RocksDB, with changelogs instead of whole snapshots, event
times in UTC, checkpoints under one directory. What tells nothing about a machine is left to Spark.

Passwords never become settings: those are arguments of the JVM, which `ps` shows. Where the log is
and the keys of its object store go to the workers as environment variables.
"""

import os
import shutil
import sys
from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pyspark
from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from spark.interrupts import interrupt_in_any_case
from spark.java_directory import directory_for_java, has_folder, leave_no_folder
from spark.log_location import POSTGRES_VARIABLE, STORE_VARIABLE, LogLocation
from spark.sources.direct import StreamHouse

LOCAL_MASTER: Final = "local[2]"
ICEBERG_CATALOG: Final = "iceberg"

# A library of tables is made for one minor version of Spark.
_ICEBERG: Final = {"4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1"}
_DELTA: Final = {"4.0": "io.delta:delta-spark_2.13:4.0.0"}

_STREAMING: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",  # records may be a megabyte each
}
# What a value says of itself must not end a JVM: 1,000 levels of JSON need a deep stack, and Avro
# makes room for a string or an array of the length that it claims before it reads it.
_JAVA_OPTIONS: Final = (
    "-Xss8m"
    " -Dorg.apache.avro.limits.string.maxLength=134217728"
    " -Dorg.apache.avro.limits.bytes.maxLength=134217728"
    " -Dorg.apache.avro.limits.collectionItems.maxLength=16777216"
)
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.daemon.module": "spark.python_daemon",
    "spark.sql.shuffle.partitions": "2",  # as many state stores for each stateful operator
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.databricks.delta.snapshotPartitions": "2",  # of 50, each a task on any change
}


class UnsupportedSpark(ValueError):
    """A package is not known for the installed pyspark; the message names those that have it."""


class JavaMissing(RuntimeError):
    """There is no Java to run Spark with; the message says what to install."""


class Package(StrEnum):
    """What is fetched from Maven's repositories and put on the class path."""

    KAFKA = "kafka"
    ICEBERG = "iceberg"
    DELTA = "delta"
    AVRO = "avro"

    def coordinates(self) -> str:
        """Return group:artifact:version for the installed pyspark.

        Raises:
            UnsupportedSpark: none is known.
        """
        match self:
            case Package.KAFKA:
                return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
            case Package.AVRO:
                return f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"
            case Package.ICEBERG:
                return self._of_minor(_ICEBERG)
            case Package.DELTA:
                return self._of_minor(_DELTA)

    def _of_minor(self, known: Mapping[str, str]) -> str:
        minor = pyspark.__version__.rpartition(".")[0]
        if minor not in known:
            versions = " or ".join(f"{version}.*" for version in known)
            raise UnsupportedSpark(
                f"{self} is not known for pyspark {pyspark.__version__}; install {versions}"
            )
        return known[minor]


def build_session(
    name: str,
    *,
    master: str = LOCAL_MASTER,
    packages: Collection[Package] = (Package.KAFKA,),
    warehouse: Path | str | None = None,
    checkpoints: Path | str | None = None,
    location: LogLocation | None = None,
    settings: Mapping[str, str] | None = None,
    java_directory: Path | None = None,
) -> SparkSession:
    """Start Spark, or return the session that this process has.

    Packages are fetched once per machine (`spark.jars.ivy` says where they are kept). A session
    that is there already keeps its packages and settings; a `location` is told to it.

    Args:
        name: of the application.
        master: URL of the cluster; `local[N]` is N threads here.
        packages: beyond Spark itself. ICEBERG gives the catalog `iceberg` of tables under
            `warehouse`, DELTA makes `USING delta` work in the default catalog.
        warehouse: directory or URL of tables that are named, not given by path; Spark's default
            is ./spark-warehouse.
        checkpoints: directory or URL under which a named query keeps its progress if it is not
            told where; none by default.
        location: the log of format("streamhouse") where its options do not name one; by default
            what the environment says.
        settings: of Spark, over those of this module. No secrets: `ps` and Spark's pages show them.
        java_directory: from where Java takes relative paths, and where Spark 4.0.0 makes a folder
            `artifacts`; by default that of this process, if it can be written to.

    Raises:
        JavaMissing: there is no Java.
        UnsupportedSpark: a package is not known for this version of Spark.
        ValueError: ICEBERG without a warehouse.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        if location is not None:
            active.sparkContext.environment.update(_environment(location))
            register_source(active)
        return active
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise JavaMissing("Spark needs Java 17: install openjdk-17-jre-headless or set JAVA_HOME")
    had_folder = has_folder()
    everything = {
        **_STREAMING,
        **_java(java_directory or directory_for_java()),
        **(_LOCAL if master.startswith("local") else {}),
        **_packages(frozenset(packages), warehouse),
        **_directories(warehouse, checkpoints),
        # workers import what a plan names: sources, sinks, functions
        "spark.executorEnv.PYTHONPATH": _python_path(),
        **(settings or {}),
    }
    builder = SparkSession.builder.master(master).appName(name)
    session = builder.config(map=dict(everything)).getOrCreate()
    interrupt_in_any_case()
    context = session.sparkContext
    spare_workers(context)
    if not had_folder:
        leave_no_folder(context)
    context.environment.update(_environment(location))
    if master.startswith("local"):
        context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    register_source(session)
    return session


def register_source(session: SparkSession) -> None:
    """Make format("streamhouse") known, with what the workers' environment is now."""
    session.dataSource.register(StreamHouse)


def spare_workers(context: SparkContext) -> None:
    """Take jars without Python modules from what a session's Python workers import from.

    spark-submit puts all jars of packages there, as some have modules. At each call, of a task or
    to plan, a worker then reads their directories anew (importlib.invalidate_caches): most of a
    second of processor time with Iceberg's.
    """
    includes = context._python_includes or []  # noqa: SLF001 - nothing public tells of them
    includes[:] = [name for name in includes if not name.endswith(".jar") or _has_modules(name)]


def _has_modules(jar: str) -> bool:
    with ZipFile(SparkFiles.get(jar)) as archive:
        return any(name.endswith((".py", ".pyc")) for name in archive.namelist())


def _java(directory: Path | None) -> dict[str, str]:
    place = "" if directory is None else f" -Duser.dir={directory}"
    return {
        "spark.driver.defaultJavaOptions": _JAVA_OPTIONS + place,
        "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
    }


def _packages(packages: frozenset[Package], warehouse: Path | str | None) -> dict[str, str]:
    extensions: list[str] = []
    settings: dict[str, str] = {}
    if packages:
        names = (package.coordinates() for package in sorted(packages))
        settings["spark.jars.packages"] = ",".join(names)
    if Package.ICEBERG in packages:
        if warehouse is None:
            raise ValueError("Iceberg keeps its tables in a warehouse: name its directory")
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        catalog = f"spark.sql.catalog.{ICEBERG_CATALOG}"
        settings[catalog] = "org.apache.iceberg.spark.SparkCatalog"
        settings[f"{catalog}.type"] = "hadoop"
        settings[f"{catalog}.warehouse"] = f"{warehouse}/{ICEBERG_CATALOG}"
        settings[f"{catalog}.cache-enabled"] = "false"  # other processes commit, too
    if Package.DELTA in packages:
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        default = "spark.sql.catalog.spark_catalog"
        settings[default] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if extensions:
        settings["spark.sql.extensions"] = ",".join(extensions)
    return settings


def _directories(warehouse: Path | str | None, checkpoints: Path | str | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    if warehouse is not None:
        settings["spark.sql.warehouse.dir"] = str(warehouse)
    if checkpoints is not None:
        settings["spark.sql.streaming.checkpointLocation"] = str(checkpoints)
    return settings


def _python_path() -> str:
    """Return where this package is, before what the environment names."""
    here = str(Path(__file__).resolve().parents[1])
    given = os.environ.get("PYTHONPATH")
    return f"{here}{os.pathsep}{given}" if given else here


def _environment(location: LogLocation | None) -> dict[str, str]:
    """Return what workers need to reach the log; Spark carries it inside of tasks, nowhere else."""
    names = [name for name in os.environ if name.startswith("AWS_")]
    names += [POSTGRES_VARIABLE, STORE_VARIABLE]
    environment = {name: os.environ[name] for name in names if name in os.environ}
    if location is not None:
        environment[POSTGRES_VARIABLE] = location.postgres
        environment[STORE_VARIABLE] = location.store
    return environment
