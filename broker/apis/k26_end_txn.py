"""EndTxn: v0-5.

v2 PRODUCER_FENCED (KIP-588), v3 flexible, v4 as v3, v5 the transaction's end bumps the producer's
epoch, and the answer names it (KIP-890): so a request that comes late can never end the next one.

It does not wait for requests of the same connection that are not answered yet: clients end what
they have been told is written, and a batch that comes too late is refused.

When it is answered, all of it has happened: markers, offsets of groups, last stable offsets. Asking
for the same end again gets the same answer. ACLs: WRITE on the transactional id.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.refusals import coordinating
from broker.requests import NOT_THROTTLED, Request
from broker.transactions.transaction_requests import code_of_verdict, named_producer
from broker.transactions.transactions import EndMode
from protocol.acl import Operation, ResourceType
from storage.metadata.transactions import Verdict

_FIRST_TO_SAY_FENCED: Final = 2
_FIRST_TO_BUMP: Final = 5


async def handle(request: Request) -> Payload:
    """Commit or abort one transaction."""
    body, types = request.decode(), request.types
    request.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
    producer = named_producer(body.transactional_id, body.producer_id, body.producer_epoch)
    mode = EndMode(committed=body.committed, bumps_epoch=request.version >= _FIRST_TO_BUMP)
    with coordinating():
        outcome = await request.services.transactions.end(producer, mode)
    if outcome.verdict is not Verdict.DONE or outcome.producer is None:
        says_fenced = request.version >= _FIRST_TO_SAY_FENCED
        refusal: Payload = types.EndTxnResponse(
            throttle_time=NOT_THROTTLED,
            error_code=code_of_verdict(outcome.verdict, says_fenced=says_fenced),
        )
        return refusal
    response: Payload = types.EndTxnResponse(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        producer_id=outcome.producer.producer_id,
        producer_epoch=outcome.producer.producer_epoch,
    )
    return response
