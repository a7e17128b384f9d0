"""Records out of lines: one a line, with or without a key in front."""

from collections.abc import Iterator
from typing import BinaryIO

from streamctl.errors import Failure
from streamctl.sending import Outgoing


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

    def __iter__(self) -> Iterator[Outgoing]:
        """Yield the records.

        Raises:
            Failure: a line has no separator, though one was asked for.
        """
        for number, line in enumerate(self._stream, start=1):
            self.bytes_read += len(line)
            text = line.removesuffix(b"\n").removesuffix(b"\r")
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
