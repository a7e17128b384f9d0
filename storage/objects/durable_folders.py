"""The folders of a directory store: made durable once, and those in use kept open.

Threads of the store call it, several at a time.
"""

from pathlib import Path
from typing import Final

from storage.objects.incoming_folder import flush_folder
from storage.objects.open_folder import OpenFolder, open_folder

MAX_KNOWN_FOLDERS: Final = 65_536
MAX_OPEN_FOLDERS: Final = 512
"""Of them: those that a file was put into lately. What the writer puts has 256."""


class DurableFolders:
    """What one store knows of the folders below its root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Path] = {}  # to be there and durable
        self._open: dict[str, OpenFolder] = {}

    def find(self, path: str) -> Path:
        """Return a durable folder: itself, and its name in all folders above it up to the root."""
        if not path:
            return self._root
        known = self._known.get(path)
        if known is not None:
            return known
        parent = self.find(path.rpartition("/")[0])
        folder = self._root / path
        folder.mkdir(exist_ok=True)
        flush_folder(parent)  # another thread may have made, and not yet flushed it
        if len(self._known) >= MAX_KNOWN_FOLDERS:
            self._known.clear()
        self._known[path] = folder
        return folder

    def open(self, path: str) -> OpenFolder:
        """Return a durable folder, open.

        Raises:
            FileNotFoundError: it was known, and somebody has removed it.
        """
        known = self._open.get(path)
        if known is not None:
            return known
        folder = open_folder(self.find(path))
        if len(self._open) >= MAX_OPEN_FOLDERS:
            self._open.clear()
        self._open[path] = folder
        return folder

    def forget(self) -> None:
        """Look at all folders again."""
        self._known.clear()
        self.close()

    def close(self) -> None:
        """Keep none open."""
        self._open.clear()
