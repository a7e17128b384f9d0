"""Spark's jobs, each a process of its own: this package shares no code with them."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from streamctl.errors import Failure

COMMAND_VARIABLE: Final = "STREAMCTL_COMMAND"
"""Where a job reads what it is called (spark/jobs/options.py)."""

INSTALL_SPARK: Final = "make spark (for an image: uv sync --extra spark)"
"""Nothing by name from PyPI: what is called streamhouse there is another project."""


def check_spark() -> None:
    """See whether a job could run at all.

    Raises:
        Failure: Spark or Java is missing.
    """
    if find_spec("pyspark") is None:
        raise Failure("pyspark is not installed", fix=INSTALL_SPARK)
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else None
    if not (java.exists() if java else shutil.which("java")):
        where = f"JAVA_HOME is {home}, which has none" if home else "no java is on the PATH"
        raise Failure(
            f"Spark needs Java 17: {where}",
            fix="apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
        )


def become_job(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], *, command: str
) -> NoReturn:
    """Go on as a job, in this process and on this terminal: signals and exit code are its own.

    Args:
        module: that is run.
        command: that people type for it, which its help shows.
        arguments: of the job; no secrets, which a command line would show.
        environment: what the job's has beyond this one.

    Raises:
        Failure: Spark or Java is missing.
    """
    check_spark()
    words = [sys.executable, "-m", module, *arguments]
    told = {COMMAND_VARIABLE: command, **environment}
    sys.stdout.flush()
    os.execve(sys.executable, words, {**os.environ, **told})  # noqa: S606 (our own module)
