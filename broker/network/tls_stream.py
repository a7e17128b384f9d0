"""TLS of one connection, in memory: what came from the socket goes in, what is to go out comes out.

Not asyncio's start_tls: that drops the alert which tells a client why its handshake failed, keeps
buffers of 256 KiB for every connection, and encrypts a whole answer at once, however large, while
all others wait. Here the buffers are the event loop's, and the connection decides how much is
encrypted.

OpenSSL does not return before it has gone through all that it was given. A record without data is
no more than 27 bytes, and may make it derive new keys and answer (KeyUpdate; RFC 8446, 4.6.3): 64
KiB of them took 150 ms. So it is given some records at a time, and few may be without data.
"""

import ssl
import struct
from typing import Final, cast

from protocol.errors import MalformedRequest

RECORD_BYTES: Final = 16 * 1024
"""What TLS encrypts at a time at the most (RFC 8446, 5.1)."""

RECORDS_AT_ONCE: Final = 64
MOST_WITHOUT_DATA: Final = 64
"""Records; a handshake has fewer than ten."""
DATA_FOR_ONE_WITHOUT: Final = 1000
"""Records. Clients change their keys after millions, if they do."""

_size_at: Final = struct.Struct(">3xH").unpack_from  # behind type and version
_SIZE_AT: Final = 3
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

    __slots__ = ("_incoming", "_outgoing", "_records", "_tls", "_waiting", "_with_data", "ended")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._records = _Records()
        self._with_data = 0  # records
        self._waiting = b""  # for OpenSSL to come to the end of those before it
        self.ended = False

    def feed(self, data: memoryview) -> None:
        """Take bytes from the socket.

        Those behind the peer's goodbye mean nothing (RFC 8446, 6.1). OpenSSL leaves them where they
        are, so they would be kept for as long as the peer sends.
        """
        if not self.ended:
            self._pass_on(memoryview(self._waiting + data) if self._waiting else data)

    def take_outgoing(self) -> bytes:
        """Return what is to be sent; empty if nothing is."""
        return self._outgoing.read()

    def shake_hands(self) -> bool:
        """Go on with the handshake; return whether it is done.

        Raises:
            ssl.SSLError: it failed; the alert that says so is in what is to be sent.
            MalformedRequest: see `read_into`.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._pass_on_more():
                    return False
            else:
                return True

    def peer_certificate(self) -> bytes | None:
        """Return the peer's certificate as DER, if it has shown one that was verified."""
        return self._tls.getpeercert(binary_form=True)

    def read_into(self, buffer: memoryview) -> int:
        """Decrypt what is here into `buffer`, as far as it has room; return the count of bytes.

        Raises:
            ssl.SSLError: it is no TLS, or was changed on its way.
            MalformedRequest: too many records have no data.
        """
        filled = 0
        while filled < len(buffer) and not self.ended:
            rest = buffer[filled:]
            try:
                count = cast("int", self._tls.read(len(rest), rest))  # as it is with a buffer
            except ssl.SSLWantReadError:
                if not self._pass_on_more():
                    break
            except ssl.SSLZeroReturnError:
                self.ended = True
            else:
                self.ended = not count
                self._with_data += 1
                filled += count
        return filled

    def _pass_on_more(self) -> bool:
        """Give OpenSSL, which has read all it had, the next records; return whether some waited."""
        without_data = self._records.begun - self._with_data
        if without_data > MOST_WITHOUT_DATA + self._with_data // DATA_FOR_ONE_WITHOUT:
            raise MalformedRequest(f"{without_data} records of TLS have no data")
        return bool(self._waiting) and self._pass_on(memoryview(self._waiting))

    def _pass_on(self, data: memoryview) -> bool:
        size = self._records.next(data)
        if size == len(data):
            self._waiting = b""
        else:
            self._waiting, data = bytes(data[size:]), data[:size]
        self._incoming.write(data)
        return size > 0

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


class _Records:
    """Where the peer's records are in what comes from the socket.

    Attributes:
        begun: how many there were.
    """

    __slots__ = ("_rest", "begun")

    def __init__(self) -> None:
        self._rest = 0  # bytes of the last one that are to come
        self.begun = 0

    def next(self, data: memoryview) -> int:
        """Return how many bytes are records, as many as go at once; what is left comes again."""
        at, last_at, count = self._rest, len(data) - _HEADER_BYTES, 0
        while at <= last_at and count < RECORDS_AT_ONCE:
            at += _HEADER_BYTES + _size_at(data, at)[0]
            count += 1
        self.begun += count
        size = min(at, len(data))
        self._rest = at - size
        return size
