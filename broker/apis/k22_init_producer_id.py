"""InitProducerId: v0-5.

v2 flexible, v3 a producer that has an identity names it (KIP-360), v4 PRODUCER_FENCED (KIP-588), v5
as v4 (KIP-890).

Without a transactional id: a producer id for an idempotent producer (KIP-98), epoch 0; one that has
an id already gets a new one. With one: its next epoch, once its open transaction is aborted, which
is done at once: CONCURRENT_TRANSACTIONS is for an id that many begin transactions of.

ACLs: WRITE on the transactional id; without one, IDEMPOTENT_WRITE on the cluster or WRITE on any
topic.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_requests import milliseconds
from broker.refusals import Refusal, coordinating
from broker.requests import NOT_THROTTLED, Request
from broker.services import Services
from broker.transactions.transaction_requests import check_transactional_id, code_of_verdict
from protocol.acl import Operation, ResourceType
from protocol.batch import NO_PRODUCER_ID
from storage.errors import MetadataUnavailable
from storage.metadata.transactions import Verdict

_FIRST_TO_SAY_FENCED: Final = 4
_NO_EPOCH: Final = -1


async def handle(request: Request) -> Payload:
    """Give out one identity."""
    body = request.decode()
    try:
        code, producer_id, epoch = await _identify(request, body)
    except Refusal as refusal:
        code, producer_id, epoch = refusal.code, NO_PRODUCER_ID, _NO_EPOCH
    response: Payload = request.types.InitProducerIdResponse(
        throttle_time=NOT_THROTTLED,
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return response


async def _identify(request: Request, body: Any) -> tuple[ErrorCode, int, int]:
    """Return error code, producer id and epoch."""
    services = request.services
    _authorize(request, body.transactional_id)
    expected = _expected(body)
    if body.transactional_id is None:
        return ErrorCode.none, await _take_id(services), 0
    check_transactional_id(body.transactional_id)
    timeout_ms = milliseconds(body.transaction_timeout)
    if not 1 <= timeout_ms <= services.config.transaction_max_timeout_ms:
        raise Refusal(ErrorCode.invalid_transaction_timeout, f"{timeout_ms} ms")
    with coordinating():
        outcome = await services.transactions.init(
            body.transactional_id, timeout_ms=timeout_ms, expected=expected
        )
    if outcome.producer is None or outcome.verdict is not Verdict.DONE:
        says_fenced = request.version >= _FIRST_TO_SAY_FENCED
        raise Refusal(code_of_verdict(outcome.verdict, says_fenced=says_fenced))
    return ErrorCode.none, outcome.producer.producer_id, outcome.producer.producer_epoch


async def _take_id(services: Services) -> int:
    """Return an id for an idempotent producer.

    Raises:
        Refusal: COORDINATOR_LOAD_IN_PROGRESS while there is none; stock producers give up on
            REQUEST_TIMED_OUT (KAFKA-14417), and there is no coordinator that they could look for.
    """
    try:
        return await services.producer_ids.take()
    except MetadataUnavailable as unavailable:
        code = ErrorCode.coordinator_load_in_progress
        raise Refusal(code, str(unavailable)) from unavailable


def _authorize(request: Request, transactional_id: str | None) -> None:
    """Check that the client may have that id; without one, that it may write anything (KIP-679).

    Raises:
        Refusal: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
    """
    if transactional_id is not None:
        request.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return
    idempotent = Operation.IDEMPOTENT_WRITE
    if not request.allows(idempotent, ResourceType.CLUSTER, audit=False):
        authorizer = request.services.authorizer
        if not authorizer.allows_any(request.session, Operation.WRITE, ResourceType.TOPIC):
            request.authorize(idempotent, ResourceType.CLUSTER)


def _expected(body: Any) -> tuple[int, int] | None:
    """Return the identity that the client believes to have.

    Raises:
        Refusal: INVALID_REQUEST: an id without an epoch, or the other way round.
    """
    producer_id = getattr(body, "producer_id", NO_PRODUCER_ID)
    epoch = getattr(body, "producer_epoch", _NO_EPOCH)
    if (producer_id == NO_PRODUCER_ID) != (epoch == _NO_EPOCH):
        raise Refusal(ErrorCode.invalid_request, "a producer id and its epoch come together")
    return None if producer_id == NO_PRODUCER_ID else (producer_id, epoch)
