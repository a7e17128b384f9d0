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
    return (*java_tools("").command(source.stem, classes=java_classes(source)), *arguments)


@functools.cache
def java_classes(*sources: Path, jars: Path | None = None) -> Path:
    """Return a folder with the classes of source files, compiled once per machine.

    Args:
        sources: compiled together; the first gives the folder its name.
        jars: a folder with what they need; the stock tools', unless told otherwise.

    Raises:
        ProgramMissing: there is no compiler, and Debian's cannot be installed.
    """
    text = b"".join(source.read_bytes() for source in sources)
    version = hashlib.sha256(text).hexdigest()[:12]

    def compile_into(directory: Path) -> None:
        javac = program("javac", debian_package="openjdk-17-jdk-headless")
        needed = f"{jars or java_tools('').jars}/*"
        options = ("-Xlint:all", "-cp", needed, "-d", str(directory))
        run([javac, *options, *map(str, sources)], timeout_s=COMPILE_S)

    return filled_once(f"{sources[0].stem}-{version}", compile_into)
