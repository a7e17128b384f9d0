"""The body of a PUT, sent out of the buffers that it is made of.

botocore takes anything that can be read; aiohttp then asks its registry for how to send it. Of the
kinds that it knows, a BytesIO would need a copy of the object, made on the event loop (10 ms for
8 MiB whose pages are new), and any other file is read by threads, 64 KiB at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload, payload_type

from storage.config import KiB
from storage.objects.port import Buffer

PIECE_BYTES: Final = 512 * KiB
"""What the socket is given at a time: a tenth of a millisecond."""

JOINED_BYTES: Final = 64 * KiB
"""To send a smaller buffer by itself costs more than to copy it."""


class PartsBody:
    """Buffers as one body.

    Attributes:
        parts: whoever changes them while they are sent makes the server refuse the body, whose
            checksum it was told.
        moved: called when a piece has been sent.
    """

    __slots__ = ("moved", "parts")

    def __init__(self, parts: Sequence[Buffer], moved: Callable[[], None]) -> None:
        self.parts = parts
        self.moved = moved

    def read(self) -> bytes:
        """Return all of it."""
        return b"".join(self.parts)

    def pieces(self) -> Iterator[Buffer]:
        """Yield all of it, in pieces of PIECE_BYTES at most."""
        joined: list[Buffer] = []
        joined_bytes = 0
        for part in self.parts:
            if len(part) < JOINED_BYTES:
                joined.append(part)
                joined_bytes += len(part)
                if joined_bytes < PIECE_BYTES - JOINED_BYTES:
                    continue
            if joined:
                yield b"".join(joined)
                joined, joined_bytes = [], 0
            if len(part) >= JOINED_BYTES:
                view = memoryview(part)
                for start in range(0, len(view), PIECE_BYTES):
                    yield view[start : start + PIECE_BYTES]
        if joined:
            yield b"".join(joined)


@payload_type(PartsBody)
class _PartsPayload(Payload):
    """How aiohttp sends such a body."""

    _value: PartsBody
    _autoclose = True  # there is nothing to close

    def __init__(self, value: PartsBody, *args: Any, **kwargs: Any) -> None:
        super().__init__(value, *args, **kwargs)
        self._size = sum(map(len, value.parts))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.read().decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for piece in self._value.pieces():
            await writer.write(piece)
            self._value.moved()

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        assert content_length in (None, self._size)
        await self.write(writer)
