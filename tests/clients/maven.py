"""Jars from Maven's repositories, as a pom.xml names them."""

from pathlib import Path
from typing import Final

from tests.clients.cache import one_at_a_time
from tests.clients.processes import program, run

RESOLVE_S: Final = 600.0


def copy_dependencies(pom: Path, directory: Path) -> None:
    """Copy the jars of a pom.xml's runtime dependencies into a directory, none of its own.

    Raises:
        ProgramMissing: there is no Maven, and Debian's cannot be installed.
        ProgramFailed: they could not be fetched.
    """
    maven = [program("mvn", debian_package="maven"), "--batch-mode", "--file", str(pom)]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    with one_at_a_time("maven"):  # its local repository stands one process at a time
        run([*maven, *goal, f"-DoutputDirectory={directory}"], timeout_s=RESOLVE_S)
