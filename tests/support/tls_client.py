"""A client of TLS 1.3 that makes its own records, so that it may send what no library would."""

import hmac
import ssl
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_DATA: Final = 0x17
_HANDSHAKE: Final = 0x16
_HEADER: Final = b"\x17\x03\x03"
_TAG_BYTES: Final = 16
_HASH: Final = "sha384"
_HASH_BYTES: Final = 48
_KEY_UPDATE: Final = b"\x18\x00\x00\x01"
_WITH_A_REPLY: Final = b"\x01"


def begin_tls(
    context: ssl.SSLContext, keys: Path
) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """Return a client that has not begun: its end, what it receives, and what it sends.

    Args:
        keys: a file that does not exist; `ClientRecords` reads there what was agreed on.
    """
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(keys)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1"), incoming, outgoing


class ClientRecords:
    """Makes the records behind a handshake (RFC 8446, 5.2) with TLS_AES_256_GCM_SHA384.

    Args:
        keys: the file given to `begin_tls`.
    """

    def __init__(self, keys: Path) -> None:
        lines = (line.split() for line in keys.read_text().splitlines())
        (secret,) = (one[2] for one in lines if one[0] == "CLIENT_TRAFFIC_SECRET_0")
        self._secret = bytes.fromhex(secret)
        self._begin()

    def data(self, content: bytes) -> bytes:
        """Return a record of a client's data."""
        return self._record(_DATA, content)

    def key_update(self) -> bytes:
        """Return a record with which the client changes its keys, and tells the server to."""
        record = self._record(_HANDSHAKE, _KEY_UPDATE + _WITH_A_REPLY)
        self._secret = self._expand(b"traffic upd", _HASH_BYTES)
        self._begin()
        return record

    def _begin(self) -> None:
        self._cipher = AESGCM(self._expand(b"key", 32))
        self._mask = int.from_bytes(self._expand(b"iv", 12))
        self._count = 0

    def _record(self, kind: int, content: bytes) -> bytes:
        inner = content + bytes([kind])
        header = _HEADER + (len(inner) + _TAG_BYTES).to_bytes(2)
        nonce = (self._mask ^ self._count).to_bytes(12)
        self._count += 1
        return header + self._cipher.encrypt(nonce, inner, header)

    def _expand(self, label: bytes, size: int) -> bytes:
        """Return HKDF-Expand-Label (RFC 8446, 7.1); one round is enough for all that is needed."""
        label = b"tls13 " + label
        info = size.to_bytes(2) + bytes([len(label)]) + label + b"\x00"
        return hmac.digest(self._secret, info + b"\x01", _HASH)[:size]
