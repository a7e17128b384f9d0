"""Where Java works: Spark 4.0.0 makes a folder there, has it empty at the end, and leaves it.

Java may work in another directory than this process, one that goes with it. So what people name by
a relative path is made absolute before Java is told (`absolute`).
"""

import atexit
import os
import re
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final

from pyspark import SparkContext

_FOLDER: Final = "artifacts"
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)


def own_directory() -> Path:
    """Return a directory that goes with this process."""
    directory = mkdtemp(prefix="streamhouse-java-")
    atexit.register(rmtree, directory, ignore_errors=True)
    return Path(directory)


def directory_for_java() -> Path | None:
    """Return None for this process' directory, or another one if Spark cannot make its folder."""
    folder = Path(_FOLDER).absolute()
    place = folder if folder.exists() else folder.parent
    return None if place.is_dir() and os.access(place, os.W_OK) else own_directory()


def absolute(place: str) -> str:
    """Return a path as this process has it, wherever Java works; a URL is left as it is."""
    return place if _URL.match(place) else str(Path(place).absolute())


def has_folder() -> bool:
    """Return whether a folder of that name is in this process' directory."""
    return Path(_FOLDER).exists()


def leave_no_folder(context: SparkContext) -> None:
    """Have the folder go with Java, if it is empty then."""
    java = context._jvm  # noqa: SLF001 - pyspark has no other way to it
    assert java is not None
    java.java.io.File(_FOLDER).deleteOnExit()
