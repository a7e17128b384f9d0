"""Records out of lines: one a line, with or without a key in front."""

import os
from collections.abc import Iterator
from select import select
from typing import BinaryIO, Final

from streamctl.errors import Failure
from streamctl.sending import Outgoing

_QUIET_S: Final = 0.1
_CHUNK_BYTES: Final = 1 << 16  # what a pipe holds


class LineSource:
    """Iterates over the records of a file or pipe.

    The bytes go as they are: no decoding, only the line's end (LF or CR LF) is taken off. An
    empty line is a record with an empty value.

    Attributes:
        bytes_read: of the stream, ends of lines included.
    """

    def __init__(self, stream: BinaryIO, *, key: bytes | None, separator: bytes | None) -> None:
        self._stream = stream
        self._key = key
        self._separator = separator
        self.bytes_read = 0

    def __iter__(self) -> Iterator[Outgoing | None]:
        """Yield the records, and None whenever none comes for a moment.

        Raises:
            Failure: a line has no separator, though one was asked for.
        """
        number = 0
        for line in self._lines():
            if line is None:
                yield None
                continue
            number += 1
            text = line.removesuffix(b"\r")
            if self._separator is None:
                yield Outgoing(key=self._key, value=text)
                continue
            key, separator, value = text.partition(self._separator)
            if not separator:
                shown = self._separator.decode("utf-8", "backslashreplace")
                raise Failure(
                    f"line {number} has no {shown!r} between key and value",
                    fix="the lines before it were sent; correct it and send the rest",
                )
            yield Outgoing(key=key, value=value)

    def _lines(self) -> Iterator[bytes | None]:
        """Yield lines without LF, and None whenever nothing can be read for a moment."""
        begun: list[bytes] = []  # parts of a line whose end has not come
        while True:
            if not select([self._stream], [], [], _QUIET_S)[0]:
                yield None
                continue
            chunk = os.read(self._stream.fileno(), _CHUNK_BYTES)  # no more than is there
            if not chunk:
                break
            self.bytes_read += len(chunk)
            first, *others = chunk.split(b"\n")
            begun.append(first)
            if others:
                yield b"".join(begun)
                yield from others[:-1]
                begun = others[-1:]
        if last := b"".join(begun):
            yield last
