"""Where the tests keep what they fetch once per machine: the data set, Java tools, Spark's jars."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_directory() -> Path:
    """Return ~/.cache/streamhouse/tests, or what STREAMHOUSE_CACHE names; made if missing."""
    default = Path.home() / ".cache" / "streamhouse" / "tests"
    directory = Path(os.environ.get("STREAMHOUSE_CACHE") or default)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def filled_once(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the cache's directory `name`; `fill` makes its content if it is not there.

    It is filled under another name and renamed when whole, so neither an interrupted run nor a
    second one at the same time leaves or sees half of it. `name` holds the version of the content.
    """
    target = cache_directory() / name
    if target.is_dir():
        return target
    unfinished = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=cache_directory()))
    try:
        fill(unfinished)
        try:
            unfinished.rename(target)
        except OSError:  # another run was faster: its content is the same
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target
