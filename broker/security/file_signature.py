"""What tells that a file has changed, for those that are read again while the broker runs."""

from pathlib import Path

FileSignature = tuple[int, int, int]
"""The time of a file's last change, its size and its number.

The change may be of its owner or mode: a file that could not be read may be readable now.
"""


def file_signature(path: Path) -> FileSignature | None:
    """Return the signature of a file as it is now; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ctime_ns, found.st_size, found.st_ino
