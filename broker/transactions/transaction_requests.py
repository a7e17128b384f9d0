"""What the APIs of transactions have in common."""

from typing import Final

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from storage.metadata.transactions import Producer, Verdict

MAX_TRANSACTIONAL_ID_LENGTH: Final = 512

_CODES: Final = {
    Verdict.DONE: ErrorCode.none,
    Verdict.UNKNOWN_ID: ErrorCode.invalid_producer_id_mapping,
    Verdict.FENCED: ErrorCode.producer_fenced,
    Verdict.INVALID_STATE: ErrorCode.invalid_txn_state,
    Verdict.OPEN: ErrorCode.concurrent_transactions,
    Verdict.UNKNOWN_PARTITION: ErrorCode.unknown_topic_or_partition,
}


def code_of_verdict(verdict: Verdict, *, says_fenced: bool) -> ErrorCode:
    """Return what a client is told.

    Args:
        verdict: not one of TxnOffsetCommit only.
        says_fenced: the API's version has PRODUCER_FENCED; older clients know of no such code
            (KIP-588), and take INVALID_PRODUCER_EPOCH for it.
    """
    if verdict is Verdict.FENCED and not says_fenced:
        return ErrorCode.invalid_producer_epoch
    return _CODES[verdict]


def check_transactional_id(transactional_id: str) -> None:
    """Refuse what cannot be a transactional id.

    Raises:
        Refusal: INVALID_REQUEST.
    """
    if not transactional_id:
        raise Refusal(ErrorCode.invalid_request, "the transactional id is empty")
    if len(transactional_id) > MAX_TRANSACTIONAL_ID_LENGTH:
        limit = f"{MAX_TRANSACTIONAL_ID_LENGTH} characters at most"
        raise Refusal(ErrorCode.invalid_request, f"the transactional id is too long: {limit}")


def named_producer(transactional_id: str, producer_id: int, producer_epoch: int) -> Producer:
    """Return who a request says to come from.

    Raises:
        Refusal: INVALID_REQUEST: nobody has such a transactional id.
    """
    check_transactional_id(transactional_id)
    return Producer(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch
    )
