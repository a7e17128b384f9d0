"""Room that objects leave on their disk for what makes room: Postgres may have the same one.

A Postgres without room for its own log ends, and does not start again; then nothing can be deleted
by which there would be room.
"""

import errno
import os
from pathlib import Path
from typing import Final

from storage.config import MiB

RESERVE_BYTES: Final = 128 * MiB
"""A few files of Postgres' log, and an object of each thread that has looked just before."""

RESERVE_PART: Final = 10
"""Of a small disk it is this part instead."""


def check_room(folder: Path, size: int) -> None:
    """Check that there is room for a file of that size.

    Raises:
        OSError: there is not, beyond the reserve.
    """
    disk = os.statvfs(folder)
    if not disk.f_blocks:  # a file system that does not tell
        return
    reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // RESERVE_PART)
    if disk.f_bavail * disk.f_frsize < size + reserve:
        told = f"No space left on device but {reserve // MiB} MiB, which are kept for Postgres"
        raise OSError(errno.ENOSPC, told)
