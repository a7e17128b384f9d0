"""One put of a directory store, as its thread sees it.

Every call of the system costs more than itself, because the thread has to get the interpreter lock
again, in competition with the event loop. So what nobody waits for is left to `tidy`.
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from storage.errors import ObjectConflict
from storage.objects.disk_room import check_room
from storage.objects.durable_file import write_durably
from storage.objects.durable_folders import DurableFolders
from storage.objects.open_folder import OpenFolder, flush_names
from storage.objects.port import Buffer

REMOVED: Final = frozenset({errno.ENOENT, errno.ESTALE})
"""What is said of a folder that somebody has removed; by another machine, on NFS, the latter."""

TRIES: Final = 8
"""Whoever finds a folder empty removes it, which may be the one that was just made."""


class ObjectPut:
    """The Work of storage/worker_threads.py.

    Args:
        folders: of the store.
        next_unfinished: returns a name for a file that is not an object yet.
        path: of the object.
        parts: its bytes.

    Attributes:
        parts: buffers of the caller, who may change them once the call is cancelled.
        cancelled: set by the event loop; the thread looks at it after it has copied all parts.
    """

    __slots__ = (
        "_file",
        "_folders",
        "_next_unfinished",
        "_path",
        "_unfinished",
        "cancelled",
        "parts",
    )

    def __init__(
        self,
        folders: DurableFolders,
        next_unfinished: Callable[[], Path],
        path: str,
        parts: Sequence[Buffer],
    ) -> None:
        self._folders = folders
        self._next_unfinished = next_unfinished
        self._path = path
        self._unfinished: Path | None = None
        self._file = -1
        self.parts = parts
        self.cancelled = False

    def run(self) -> None:
        """Write, flush and name the file, and flush its name.

        Raises:
            ObjectConflict: other bytes have that name.
            OSError: the file system did not do it.
        """
        self._unfinished = unfinished = self._next_unfinished()
        check_room(unfinished.parent, sum(map(len, self.parts)))
        self._file = write_durably(unfinished, self.parts)
        if self.cancelled:  # the caller may have changed the parts while they were copied
            return
        folder, linked = self._link(unfinished)
        if not linked:
            if not _holds(self._folders.root / self._path, self.parts):
                raise ObjectConflict(f"{self._path} holds other bytes")
            # Whoever linked it may have crashed before the flush, or that may have failed, which
            # the kernel tells just once. So it is named anew: there is something to flush again.
            folder.replace(unfinished, self._path.rpartition("/")[2])
        flush_names(folder)

    def _link(self, unfinished: Path) -> tuple[OpenFolder, bool]:
        """Name the file in its folder, which is returned, unless that name is taken."""
        folder_path, _, name = self._path.rpartition("/")
        tries = 1
        while True:
            try:
                folder = self._folders.open(folder_path)
                return folder, folder.link(unfinished, name)
            except OSError as error:
                if error.errno not in REMOVED or tries == TRIES:
                    raise
                self._folders.close()
                tries += 1

    def tidy(self) -> None:
        """Close the file and remove its first name; what is left goes with the store's folder."""
        if self._file >= 0:
            with suppress(OSError):  # it was flushed
                os.close(self._file)
        if self._unfinished is not None:
            with suppress(OSError):
                self._unfinished.unlink()


def _holds(target: Path, parts: Sequence[Buffer]) -> bool:
    return target.is_file() and target.read_bytes() == b"".join(parts)
