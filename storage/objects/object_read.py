"""Reading a range of a file, as a thread does it (storage/objects/objects_directory.py).

What somebody may want again soon is read through the page cache. What is read once, to build a
segment of it, goes past it: a row of a megabyte is no more than a disk's one answer then, at a
tenth of the CPU time that it takes to find pages for it, to copy it, and to throw the pages away.
"""

import errno
import os
from contextlib import suppress
from typing import Final

from storage.config import MiB
from storage.errors import ObjectMissing, ObjectUnreadable
from storage.objects.direct_io import ALIGNMENT, O_DIRECT, address_of, rounded_up
from storage.objects.port import Owned
from storage.reading.read_buffers import LEAST_BYTES, ReadBuffers

TRUSTED_BYTES: Final = 16 * MiB
"""Memory for more is taken only after a look at how long the file is."""

UNREADABLE: Final = frozenset(
    (errno.EACCES, errno.EIO, errno.EPERM, getattr(errno, "EUCLEAN", errno.EIO))
)
"""What is wrong with one file (a sector, its mode), not with the file system."""


class ObjectRead:
    """One ranged read: the Work of storage/worker_threads.py.

    Every call of the system costs more than itself, because the thread has to get the interpreter
    lock again. So it asks for the bytes, and for why only if it does not get them.
    """

    __slots__ = ("_buffers", "_file", "_length", "_start", "_target")

    def __init__(self, target: str, start: int, length: int, buffers: ReadBuffers) -> None:
        self._target = target
        self._start = start
        self._length = length
        self._buffers = buffers
        self._file = -1

    def run(self) -> Owned:
        """Return the bytes.

        Raises:
            ObjectMissing: there is no such file, or it ends before the range does.
            ObjectUnreadable: the file system does not give these bytes out.
            OSError: it did not do it.
        """
        try:
            self._file = os.open(self._target, os.O_RDONLY)
            if self._length > TRUSTED_BYTES:
                self._check_size()
            data = self._buffers.take(self._length)
            done = os.preadv(self._file, [data], self._start)
            while done < self._length:
                self._check_size()
                with memoryview(data)[done:] as rest:
                    count = os.preadv(self._file, [rest], self._start + done)
                if count == 0:
                    raise ObjectMissing(f"{self._target} was cut short while it was read")
                done += count
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ObjectMissing(f"{self._target} does not exist") from error
        except IsADirectoryError as error:
            raise ObjectMissing(f"{self._target} is not an object") from error
        except OSError as error:
            if error.errno in UNREADABLE:
                told = f"{self._target} cannot be read: {error.strerror}"
                raise ObjectUnreadable(told) from error
            raise
        return data

    def tidy(self) -> None:
        """Close the file."""
        if self._file >= 0:
            with suppress(OSError):  # it was only read
                os.close(self._file)

    def _check_size(self) -> None:
        size, end = os.fstat(self._file).st_size, self._start + self._length
        if end > size:
            raise ObjectMissing(f"{self._target} ends at {size}, before {end}")


class ReadOnce(ObjectRead):
    """One that goes past the page cache if it is large, and if file system and disk let it."""

    __slots__ = ()

    def run(self) -> Owned:
        data = self._read_direct() if LEAST_BYTES <= self._length <= TRUSTED_BYTES else None
        return super().run() if data is None else data

    def _read_direct(self) -> memoryview | None:
        """Return the bytes; None if it did not work, whyever: the other way tells, or does."""
        lead = self._start % ALIGNMENT
        end = lead + self._length
        try:
            file = os.open(self._target, os.O_RDONLY | O_DIRECT)
            try:
                buffer = memoryview(self._buffers.take(rounded_up(end) + ALIGNMENT))
                at = -address_of(buffer) % ALIGNMENT
                aligned = buffer[at : at + rounded_up(end)]
                count = os.preadv(file, [aligned], self._start - lead)
            finally:
                os.close(file)
        except OSError:
            return None
        return aligned[lead:end] if count >= end else None
