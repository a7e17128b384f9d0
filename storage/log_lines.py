"""Lines of a log on stderr: one that cannot be written is lost, and nothing else is.

Whoever logs is in the middle of something, which neither a disk that is full nor the reader of a
pipe that has gone may end. (A pipe that nobody reads is another matter: it holds up whoever logs.)
"""

import json
import os
import sys
from io import FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDERR: Final = 2


class LossyFile(FileIO):
    """A file without a buffer, which takes whole lines and never raises OSError.

    The next line that can be written comes after one that tells how many could not.
    """

    lost = 0
    _is_cut = False  # a line, as the disk took no more

    def write(self, line: "ReadableBuffer") -> int:
        """Write a line, or count it."""
        data = memoryview(line)
        try:
            if self._is_cut:
                self._write_all(memoryview(b"\n"))
            if self.lost:
                self._write_all(memoryview(_told(self.lost)))
            self.lost = 0
            self._write_all(data)
        except OSError:
            self.lost += 1
        return len(data)

    def _write_all(self, data: memoryview) -> None:
        while data:
            written = super().write(data)
            if written is None:
                raise BlockingIOError("the pipe is full, and not to be waited for")
            data = data[written:]
            self._is_cut = bool(data)


def log_file() -> TextIO:
    """Return what a logger writes to; stderr is opened to nowhere if it is closed."""
    if sys.stderr is None:  # or what is opened next gets its number, and the lines of all libraries
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != _STDERR:
            os.dup2(nowhere, _STDERR)
        os.set_inheritable(_STDERR, True)
        sys.stderr = os.fdopen(_STDERR, "w")
    lines = LossyFile(_STDERR, "w", closefd=False)
    return TextIOWrapper(lines, encoding="utf-8", errors="backslashreplace", write_through=True)


def _told(lost: int) -> bytes:
    entry = {"lines": lost, "event": "log lines could not be written", "level": "warning"}
    return json.dumps(entry).encode() + b"\n"
