"""TLS of one connection, in memory: what came from the socket goes in, what is to go out comes out.

Not asyncio's start_tls: that drops the alert which tells a client why its handshake failed, keeps
buffers of 256 KiB for every connection, and encrypts a whole answer at once, however large, while
all others wait. Here the buffers are the event loop's, and the connection decides how much is
encrypted.
"""

import ssl
from typing import Final, cast

RECORD_BYTES: Final = 16 * 1024
"""What TLS encrypts at a time at the most (RFC 8446, 5.1)."""

_SIZE_AT: Final = 3  # behind type and version
_HEADER_BYTES: Final = 5
_HANDSHAKE: Final = 0x16
_MAJOR_VERSION: Final = 3


def is_handshake(data: bytes) -> bool:
    """Whether a connection that begins with these bytes, one at least, can be TLS."""
    return data[0] == _HANDSHAKE and (len(data) < 2 or data[1] == _MAJOR_VERSION)


def is_first_record(data: bytes) -> bool:
    """Whether the first record of a connection is there, or can be no record."""
    size = int.from_bytes(data[_SIZE_AT:_HEADER_BYTES])
    return len(data) >= _HEADER_BYTES and (size > RECORD_BYTES or len(data) >= _HEADER_BYTES + size)


class TlsStream:
    """The server's end.

    Attributes:
        ended: whether the peer has said that it sends nothing more.
    """

    __slots__ = ("_incoming", "_outgoing", "_tls", "ended")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.ended = False

    def feed(self, data: memoryview) -> None:
        """Take bytes from the socket.

        Those behind the peer's goodbye mean nothing (RFC 8446, 6.1). OpenSSL leaves them where they
        are, so they would be kept for as long as the peer sends.
        """
        if not self.ended:
            self._incoming.write(data)

    def take_outgoing(self) -> bytes:
        """Return what is to be sent; empty if nothing is."""
        return self._outgoing.read()

    def shake_hands(self) -> bool:
        """Go on with the handshake; return whether it is done.

        Raises:
            ssl.SSLError: it failed; the alert that says so is in what is to be sent.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def peer_certificate(self) -> bytes | None:
        """Return the peer's certificate as DER, if it has shown one that was verified."""
        return self._tls.getpeercert(binary_form=True)

    def read_into(self, buffer: memoryview) -> int:
        """Decrypt what is here into `buffer`, as far as it has room; return the count of bytes.

        Raises:
            ssl.SSLError: it is no TLS, or was changed on its way.
        """
        filled = 0
        try:
            while filled < len(buffer):
                rest = buffer[filled:]
                count = cast("int", self._tls.read(len(rest), rest))  # as it is with a buffer
                if not count:
                    self.ended = True
                    break
                filled += count
        except ssl.SSLWantReadError:
            return filled
        except ssl.SSLZeroReturnError:
            self.ended = True
        return filled

    def encrypt(self, data: bytes | memoryview) -> None:
        """Make records of all of `data`.

        Raises:
            ssl.SSLError: the connection cannot be used any more.
        """
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]

    def end(self) -> None:
        """Say that nothing more will be sent."""
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            return  # the peer's own goodbye is not waited for, or it has broken TLS before
