"""How the tests start Spark: with what costs it time before its first row done once.

Its JVM loads twelve thousand classes; from an archive (class_archive.py) a session is there in 5 s
instead of 8, and has its first answer another 2 s earlier. Each kind of its Python processes
compiles pyspark anew from a zip file, 0.7 s; with a home without that they take what is installed.
"""

import functools
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyspark

from tests.clients.cache import filled_once
from tests.clients.class_archive import DUMP_S, archived
from tests.clients.processes import program, run

JARS: Final = Path(pyspark.__file__).with_name("jars")
PROGRAM: Final = "tests.clients.spark_classes"
# Many short queries, or a job of seconds: the better compiler takes twice the CPU and never pays.
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@functools.cache
def _lean_home() -> Path:
    """Return SPARK_HOME of the installed pyspark, without copies of its modules."""
    installed = Path(pyspark.__file__).parent

    def link(directory: Path) -> None:
        for name in ("bin", "jars"):
            (directory / name).symlink_to(installed / name)

    return filled_once(f"spark-home-{sha256(bytes(installed)).hexdigest()[:12]}", link)


def driver_environment(*arguments: str) -> dict[str, str]:
    """Return what tells a driver of it; the archive is made if it is not there.

    Args:
        arguments: more of spark-submit.

    Raises:
        ProgramMissing: there is no Java, and Debian's cannot be installed.
    """
    return _environment(_java_options(), *arguments)


@functools.cache
def _java_options() -> tuple[str, ...]:
    java = program("java", debian_package="openjdk-17-jre-headless")
    jars = (f"{jar} {jar.stat().st_mtime_ns}" for jar in sorted(JARS.glob("*.jar")))
    return (*QUICK, *archived(java, (*QUICK, *jars), _load))


def _environment(java_options: Iterable[str], *arguments: str) -> dict[str, str]:
    options = f'--driver-java-options "{" ".join(java_options)}"'
    submitted = (options, *arguments, "pyspark-shell")
    return {"PYSPARK_SUBMIT_ARGS": " ".join(submitted), "SPARK_HOME": str(_lean_home())}


def _load(options: tuple[str, ...]) -> None:
    # the JVM has the program's output, which is read to its end: so it is waited for, too
    run(
        [sys.executable, "-m", PROGRAM],
        timeout_s=DUMP_S,
        environment=_environment((*QUICK, *options)),
    )
