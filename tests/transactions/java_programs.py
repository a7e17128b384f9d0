"""Java programs of the tests, compiled once per machine against the jars of the stock tools."""

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients.cache import filled_once
from tests.clients.java_tools import java_tools
from tests.clients.processes import program, run

COMPILE_S: Final = 120


def java_program(source: Path, *arguments: str) -> Sequence[str]:
    """Return the command that runs the class of a source file, which is named for it.

    Raises:
        ProgramMissing: there is no Java, or no compiler, and Debian's cannot be installed.
    """
    return (*java_tools("").command(source.stem, classes=_classes(source)), *arguments)


@functools.cache
def _classes(source: Path) -> Path:
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]

    def compile_into(directory: Path) -> None:
        javac = program("javac", debian_package="openjdk-17-jdk-headless")
        options = ("-Xlint:all", "-cp", f"{java_tools('').jars}/*", "-d", str(directory))
        run([javac, *options, str(source)], timeout_s=COMPILE_S)

    return filled_once(f"{source.stem}-{version}", compile_into)
