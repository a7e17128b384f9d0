"""What the header of a batch has to be for its topic and its request."""

from typing import Final

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from broker.requests import Request
from broker.topics import KnownTopic
from broker.transactions.transaction_requests import check_transactional_id
from protocol.batch import NO_PRODUCER_ID, BatchHeader
from protocol.compression import Codec
from protocol.errors import InvalidRecords, UnsupportedCompression
from protocol.produce import ProduceRequest
from protocol.produce_response import NO_TIMESTAMP
from storage.metadata.port import TransactionUse

_FIRST_ZSTD: Final = 7
_FIRST_IMPLICIT: Final = 12


def check_transactional(
    request: Request, produce: ProduceRequest, header: BatchHeader
) -> TransactionUse:
    """Return how a batch belongs to its transaction.

    Raises:
        Refusal, InvalidRecords: it cannot belong to one.
    """
    if produce.transactional_id is None:
        code = ErrorCode.transactional_id_authorization_failed
        raise Refusal(code, "a batch of a transaction in a request without transactional id")
    check_transactional_id(produce.transactional_id)
    if header.producer_id == NO_PRODUCER_ID:
        raise InvalidRecords("a batch of a transaction has a producer id")
    return TransactionUse.ADDS if request.version >= _FIRST_IMPLICIT else TransactionUse.ADDED


def check_header(request: Request, topic: KnownTopic, header: BatchHeader) -> None:
    """Check a batch's codec and timestamps.

    Raises:
        UnsupportedCompression: the codec is unknown, or needs a later version of the request.
        Refusal: the timestamps are out of the topic's range.
    """
    codec = header.codec
    if codec > Codec.ZSTD:
        raise UnsupportedCompression(f"compression codec {codec}")
    if codec == Codec.ZSTD and request.version < _FIRST_ZSTD:
        raise UnsupportedCompression("zstd needs Produce v7 (KIP-110)")
    if topic.config.log_append_time:
        return
    now_ms = request.services.now_ms()
    if header.max_timestamp_ms - now_ms > topic.config.timestamp_after_max_ms or (
        header.base_timestamp_ms != NO_TIMESTAMP
        and now_ms - header.base_timestamp_ms > topic.config.timestamp_before_max_ms
    ):
        raise Refusal(ErrorCode.invalid_timestamp, "timestamp out of the topic's range")
