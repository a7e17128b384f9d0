"""The folders of a directory store that are in use: durable, and kept open.

Threads of the store call it, several at a time. Others may remove a folder in which nothing is. So
nothing is believed of a folder by its path: one that was durable when it was opened is so as long
as something can be named in it, for whoever removes one above it has to remove it first.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from storage.objects.open_folder import OpenFolder, flush_names, open_folder

MAX_OPEN_FOLDERS: Final = 512
"""Those that a file was put into lately, and those above them. What the writer puts has 256."""


class DurableFolders:
    """What one store has open of the folders below its root.

    Attributes:
        root: of the store.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open: dict[str, OpenFolder] = {}

    def open(self, path: str) -> OpenFolder:
        """Return a durable folder: itself, and its name in all folders above it up to the root.

        Raises:
            FileNotFoundError: somebody has removed it, or one above it.
        """
        known = self._open.get(path)
        if known is not None:
            return known
        folder = self._make(path) if path else open_folder(self.root)
        if len(self._open) >= MAX_OPEN_FOLDERS:
            self._open.clear()
        self._open[path] = folder
        return folder

    def _make(self, path: str) -> OpenFolder:
        """Return a folder that is made if it is not there."""
        above, _, name = path.rpartition("/")
        parent = self.open(above)
        folder = parent.make(name)
        try:
            flush_names(parent)  # another thread may have made, and not yet flushed it
        except OSError:
            with suppress(OSError):  # the kernel tells this once: next time it has to be made anew
                os.rmdir(name, dir_fd=parent.descriptor)
            raise
        return folder

    def close(self) -> None:
        """Keep none open; whoever asks again finds out which of them were removed."""
        self._open.clear()
