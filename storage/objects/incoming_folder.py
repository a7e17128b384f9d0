"""Where a directory store keeps files that are not objects yet, and how folders become durable."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from storage.objects.open_folder import flush_names, open_folder

INCOMING: Final = ".incoming"


def open_incoming(root: Path) -> tuple[Path, int]:
    """Return a new folder for unfinished files, and the descriptor that holds the lock on it.

    Folders that nobody holds a lock on, left by brokers that crashed, are removed.

    Raises:
        OSError: `root` cannot be made or written.
    """
    root = root.absolute()  # a later chdir must not move the store
    _make_root(root)
    shared = root / INCOMING
    shared.mkdir(exist_ok=True)
    with _nobody_else_in(shared):
        for left in tuple(shared.iterdir()):
            if _is_abandoned(left):
                shutil.rmtree(left)
        incoming = shared / uuid4().hex
        incoming.mkdir()
        lock = os.open(incoming, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return incoming, lock


def close_incoming(incoming: Path, lock: int) -> None:
    """Remove the folder and give the lock back.

    Raises:
        OSError: the folder is left for whoever opens the store next.
    """
    try:
        with _nobody_else_in(incoming.parent):
            shutil.rmtree(incoming)
    finally:
        os.close(lock)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    flush_names(open_folder(folder))


@contextmanager
def _nobody_else_in(shared: Path) -> Iterator[None]:
    """Let nobody see a folder that is made but not yet locked, or one that is about to go."""
    guard = os.open(shared, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)


def _is_abandoned(incoming: Path) -> bool:
    lock = os.open(incoming, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _make_root(root: Path) -> None:
    """Make the folder, if it is not there, for its owner alone: so what is below needs no mode."""
    if not root.is_dir():
        _make_folders(root.parent)
        root.mkdir(mode=0o700, exist_ok=True)
        flush_folder(root.parent)


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        flush_folder(folder.parent)
