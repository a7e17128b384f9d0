"""Conditions -> Kafka error codes, in one table; a test keeps it whole.

A code among the definite ones promises that nothing was or will be appended (facts of KAFKA-13574);
an unknown outcome is REQUEST_TIMED_OUT. Whatever is not in the table is a bug: dispatch logs it and
answers UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from protocol import errors as wire
from protocol.sasl import AuthenticationFailed
from storage import errors as stored


class Refusal(Exception):
    """A request, or part of one, that is answered with this error code.

    Attributes:
        code: what the client sees.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code


CODES: Final[dict[type[Exception], ErrorCode]] = {
    stored.UnknownPartition: ErrorCode.unknown_topic_or_partition,
    stored.TopicAlreadyExists: ErrorCode.topic_already_exists,
    stored.InvalidPartitionCount: ErrorCode.invalid_partitions,
    stored.ConfigsChanged: ErrorCode.request_timed_out,
    stored.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    stored.OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    stored.InvalidProducerEpoch: ErrorCode.invalid_producer_epoch,
    stored.InvalidTransactionState: ErrorCode.invalid_txn_state,
    stored.InvalidProducerIdMapping: ErrorCode.invalid_producer_id_mapping,
    stored.FencedLeaderEpoch: ErrorCode.not_leader_or_follower,
    stored.CommitOutcomeUnknown: ErrorCode.request_timed_out,
    stored.BufferClosed: ErrorCode.not_leader_or_follower,
    stored.ObjectStoreUnavailable: ErrorCode.kafka_storage_error,
    stored.BadObject: ErrorCode.kafka_storage_error,
    stored.ObjectConflict: ErrorCode.kafka_storage_error,
    stored.MetadataUnavailable: ErrorCode.request_timed_out,
    stored.MetadataWentBack: ErrorCode.request_timed_out,
    stored.NothingWritten: ErrorCode.request_timed_out,
    stored.PostgresNotTrusted: ErrorCode.request_timed_out,
    stored.PostgresRefused: ErrorCode.request_timed_out,
    stored.WrongStore: ErrorCode.kafka_storage_error,
    stored.IdentityTaken: ErrorCode.duplicate_broker_registration,
    stored.BrokerDisplaced: ErrorCode.broker_not_available,
    wire.MalformedRequest: ErrorCode.invalid_request,
    wire.UnsupportedVersion: ErrorCode.unsupported_version,
    wire.CorruptBatch: ErrorCode.corrupt_message,
    wire.InvalidRecords: ErrorCode.invalid_record,
    wire.UnsupportedCompression: ErrorCode.unsupported_compression_type,
    wire.DecompressedTooLarge: ErrorCode.invalid_record,
    AuthenticationFailed: ErrorCode.sasl_authentication_failed,
}


CONDITIONS: Final[tuple[type[Exception], ...]] = (Refusal, *CODES)
"""What handlers turn into error codes: `except CONDITIONS as condition`."""


def unknown_topic(topic_id: UUID | None) -> ErrorCode:
    """Return the code for a topic that is not there; None as id if it was asked for by name."""
    return ErrorCode.unknown_topic_or_partition if topic_id is None else ErrorCode.unknown_topic_id


def code_of(error: Exception) -> ErrorCode:
    """Return the code for a condition of the table, or a Refusal; raise anything else again."""
    if isinstance(error, Refusal):
        return error.code
    for kind in type(error).__mro__:  # a narrower kind is answered as the one that the table has
        if kind in CODES:
            return CODES[kind]
    raise error


def refusal_of(condition: Exception) -> Refusal:
    """Return the error code and the message that answer a condition."""
    if isinstance(condition, Refusal):
        return condition
    return Refusal(code_of(condition), str(condition))


def coordinator_refusal(unavailable: stored.MetadataUnavailable) -> Refusal:
    """Return what answers a request to a coordinator that Postgres did not: clients try again."""
    return Refusal(ErrorCode.coordinator_not_available, str(unavailable))


@contextmanager
def coordinating() -> Iterator[None]:
    """Name a metadata store without an answer as clients of groups and transactions expect it.

    All of them look for the coordinator, and ask again.

    Raises:
        Refusal: COORDINATOR_NOT_AVAILABLE.
    """
    try:
        yield
    except stored.MetadataUnavailable as unavailable:
        raise coordinator_refusal(unavailable) from unavailable
