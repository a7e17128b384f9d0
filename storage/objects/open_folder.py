"""A folder that stays open: to name a file in it and to flush the name are two calls of the system.

To open it and to close it again for each file would be two more, and after each call a thread has
to get the interpreter lock again. If somebody removes the folder, and another takes its place, the
first finds out: no file can be named in a folder that was removed.
"""

import os
from pathlib import Path


class OpenFolder:
    """Made by `open_folder`; closed when nobody refers to it any more, whichever thread that is."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)

    def link(self, file: Path, name: str) -> bool:
        """Give a file one more name, in this folder; return False if that is taken.

        Raises:
            FileNotFoundError: the folder was removed.
        """
        try:
            os.link(file, name, dst_dir_fd=self.descriptor)
        except FileExistsError:
            return False
        return True


def open_folder(path: Path) -> OpenFolder:
    """Open a folder.

    Raises:
        OSError: there is none, or it cannot be opened.
    """
    return OpenFolder(os.open(path, os.O_RDONLY | os.O_DIRECTORY))


def flush_names(folder: OpenFolder) -> None:
    """Make the names in a folder survive a power cut."""
    os.fsync(folder.descriptor)
