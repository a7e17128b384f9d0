"""Classes as the JVM has them in memory once loaded, mapped from a file.

A program that works for a moment loads classes for most of it; with the archive it is half of that.
A JVM that cannot use it (another Java, other jars) goes without it and says nothing.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.clients.cache import filled_once
from tests.clients.processes import run

SOURCE: Final = Path(__file__).with_name("LoadClasses.java")
FILE: Final = "classes.jsa"
DUMP_S: Final = 300.0
NOTHING_SAID: Final = "-Xlog:disable"  # the JVM's own log goes to stdout, among a tool's answers


def archived(
    java: str, made_of: tuple[str, ...], load: Callable[[tuple[str, ...]], None]
) -> tuple[str, ...]:
    """Return the JVM's options to use an archive; it is made if it is not there.

    Args:
        java: the program.
        made_of: whatever another archive would have to be made for, its version aside.
        load: runs a JVM, with these options beside its own, that loads the classes and ends.
    """
    version = run([java, "-version"], timeout_s=DUMP_S).stderr
    known_by = hashlib.sha256("\n".join((version, *made_of)).encode()).hexdigest()[:12]

    def dump(directory: Path) -> None:
        load((f"-XX:ArchiveClassesAtExit={directory / FILE}", NOTHING_SAID))

    directory = filled_once(f"class-archive-{known_by}", dump)
    return (f"-XX:SharedArchiveFile={directory / FILE}", NOTHING_SAID)


@functools.cache
def archive_options(
    java: tuple[str, ...], jars: Path, main_classes: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the options to use an archive of Kafka's clients.

    Args:
        java: the program and its other options.
        jars: directory of all jars, which have to come first in the class path.
        main_classes: of the tools that it is to be good for.
    """

    def load(options: tuple[str, ...]) -> None:
        program = ("-cp", f"{jars}/*", str(SOURCE), *main_classes)
        run([*java, *options, *program], timeout_s=DUMP_S)

    made_of = (*java, str(jars), *main_classes, SOURCE.read_text())
    return archived(java[0], made_of, load)
