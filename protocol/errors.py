"""What can be wrong with bytes that a peer sent, named for what happened.

`broker/refusals.py` gives each its Kafka error code; none says anything about our own state.
"""

from collections.abc import Sequence


class ProtocolError(Exception):
    """Base of everything that is wrong with a peer's bytes."""


class MalformedRequest(ProtocolError):
    """A request that does not follow the schema of its API key and version."""


class RequestTooLarge(MalformedRequest):
    """A request with more in it than may be decoded; it may follow its schema."""


class TlsHandshake(MalformedRequest):
    """The beginning of TLS in place of a frame."""


class UnsupportedVersion(ProtocolError):
    """An API key or version that this broker does not speak."""


class CorruptBatch(ProtocolError):
    """A record batch whose framing, checksum or compressed payload is damaged."""


class InvalidRecords(ProtocolError):
    """An undamaged batch whose header and records contradict each other or the format (KIP-98).

    Attributes:
        records: which are at fault (KIP-467), by their places in the batch; none if that is not
            known, or not of single ones.
    """

    def __init__(self, message: str = "", records: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.records = tuple(records)


class UnsupportedCompression(ProtocolError):
    """A batch that names a compression codec id that Kafka has not assigned."""


class DecompressedTooLarge(ProtocolError):
    """A compressed payload that would grow beyond the limit for it; nothing of it was kept."""
