"""Folders of a directory store in which nothing is any more."""

from pathlib import Path
from typing import Final

BUILT: Final = "topics/"


def remove_empty(root: Path, folder: str) -> None:
    """Remove a folder of built segments in which nothing is any more, and such ones above it.

    Whoever is about to put something there makes it again. Other folders are few, and in use.
    """
    while folder.startswith(BUILT):
        try:
            (root / folder).rmdir()
        except FileNotFoundError:  # somebody else was first
            pass
        except OSError:  # there is something in it, or it is not ours to remove
            return
        folder = folder.rpartition("/")[0]
