"""Classes of Kafka's clients as the JVM has them in memory once loaded, mapped from a file.

A tool of Kafka works for a moment and loads classes for a second or two; with the archive it is
half of that. A JVM that cannot use it (another Java, other jars) goes without it and says nothing.
"""

import functools
import hashlib
from pathlib import Path
from typing import Final

from tests.clients.cache import filled_once
from tests.clients.processes import run

SOURCE: Final = Path(__file__).with_name("LoadClasses.java")
FILE: Final = "classes.jsa"
DUMP_S: Final = 300.0
NOTHING_SAID: Final = "-Xlog:disable"  # the JVM's own log goes to stdout, among a tool's answers


@functools.cache
def archive_options(
    java: tuple[str, ...], jars: Path, main_classes: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the JVM's options to use the archive of these jars; it is made if it is not there.

    Args:
        java: the program and its other options.
        jars: directory of all jars, which have to come first in the class path.
        main_classes: of the tools that it is to be good for.
    """
    version = run([java[0], "-version"], timeout_s=DUMP_S).stderr
    made_of = "\n".join((version, *java, str(jars), *main_classes, SOURCE.read_text()))
    name = f"class-archive-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"

    def dump(directory: Path) -> None:
        into = (f"-XX:ArchiveClassesAtExit={directory / FILE}", NOTHING_SAID)
        program = ("-cp", f"{jars}/*", str(SOURCE), *main_classes)
        run([*java, *into, *program], timeout_s=DUMP_S)

    return (f"-XX:SharedArchiveFile={filled_once(name, dump) / FILE}", NOTHING_SAID)
