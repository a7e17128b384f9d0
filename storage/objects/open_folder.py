"""A folder that stays open: to name a file in it and to flush the name are two calls of the system.

To open it and to close it again for each file would be two more, and after each call a thread has
to get the interpreter lock again. If somebody removes the folder, and another takes its place, the
first finds out: no file can be named in a folder that was removed.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY


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

    def replace(self, file: Path, name: str) -> None:
        """Give a name in this folder, which is taken, and its time to another file of the same."""
        stored = os.stat(name, dir_fd=self.descriptor)
        os.utime(file, ns=(stored.st_atime_ns, stored.st_mtime_ns))
        os.rename(file, name, dst_dir_fd=self.descriptor)

    def make(self, name: str) -> "OpenFolder":
        """Return the folder of that name in this one, made if it is not there.

        Raises:
            FileNotFoundError: one of the two was removed.
        """
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self.descriptor)
        return OpenFolder(os.open(name, _FLAGS, dir_fd=self.descriptor))


def open_folder(path: Path) -> OpenFolder:
    """Open a folder.

    Raises:
        OSError: there is none, or it cannot be opened.
    """
    return OpenFolder(os.open(path, _FLAGS))


def flush_names(folder: OpenFolder) -> None:
    """Make the names in a folder survive a power cut."""
    os.fsync(folder.descriptor)
