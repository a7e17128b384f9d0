"""Where the tests keep what they fetch once per machine: the data set, Java tools, Spark's jars."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """Return ~/.cache/streamhouse/tests, or what STREAMHOUSE_CACHE names; made if missing."""
    default = Path.home() / ".cache" / "streamhouse" / "tests"
    directory = Path(os.environ.get("STREAMHOUSE_CACHE") or default)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def filled_once(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the cache's directory `name`; `fill` makes its content if it is not there.

    It is filled under another name and renamed when whole, so an interrupted run leaves no half of
    it. `name` holds the version of the content.
    """
    target = cache_directory() / name
    if target.is_dir():
        return target
    with one_at_a_time(name):
        if target.is_dir():
            return target
        unfinished = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=cache_directory()))
        try:
            fill(unfinished)
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return target


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Wait until no other process of this machine is in a block of this name.

    Several processes run the tests, and what they fetch and install with knows nothing of that:
    Maven, Ivy, apt-get. A process that ends leaves nothing locked.
    """
    with (cache_directory() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
