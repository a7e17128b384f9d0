"""What a batch has to be for its topic and its request."""

from typing import Final

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from broker.requests import Request
from broker.topics import KnownTopic
from broker.transactions.transaction_requests import check_transactional_id
from protocol.batch import (
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    set_max_timestamp,
    stamp_create_time,
)
from protocol.batch_scan import largest_timestamp, records_without_key
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


def correct_timestamp_type(topic: KnownTopic, batch: memoryview, header: BatchHeader) -> None:
    """Let a batch have its producer's timestamps that says to have the broker's, as Kafka does.

    Raises:
        Refusal: those of the topic are the broker's, or the batch has none.
    """
    if not header.attributes & TIMESTAMP_TYPE_BIT:
        return
    if topic.config.log_append_time or header.max_timestamp_ms == NO_TIMESTAMP:
        raise Refusal(
            ErrorCode.invalid_timestamp, "producers do not set the timestamp type to LogAppendTime"
        )
    stamp_create_time(batch)


async def with_max_timestamp(
    request: Request, topic: KnownTopic, batch: memoryview, header: BatchHeader
) -> BatchHeader:
    """Return the header of a batch, which is made to say what its largest timestamp is.

    Sarama before 2025-03 does not. Searches by time and retention go by it; Kafka asks the records
    of all batches for it.

    Raises:
        CorruptBatch, DecompressedTooLarge, InvalidRecords: the records cannot be read.
        Refusal: the timestamps are out of the topic's range.
    """
    largest_ms = await request.services.record_scans.scan(request.peer, largest_timestamp, batch)
    set_max_timestamp(batch, largest_ms)
    header = header._replace(max_timestamp_ms=largest_ms)
    check_header(request, topic, header)
    return header


async def check_keys(request: Request, batch: memoryview) -> None:
    """Check that all records of a batch for a compacted topic have a key.

    Raises:
        CorruptBatch, DecompressedTooLarge: the records cannot be read.
        InvalidRecords: nor these, or some have no key.
    """
    count, places = await request.services.record_scans.scan(
        request.peer, records_without_key, batch
    )
    if count:
        raise InvalidRecords("records of a compacted topic need a key", places)
