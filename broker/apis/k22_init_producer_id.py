"""InitProducerId: v0-5. A producer id for an idempotent producer (KIP-98), epoch 0.

A producer that already has an id gets a new one (KIP-360 bumps epochs of transactional ids only).
Not done: transactional ids.
"""

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Give out one id."""
    body = request.decode()
    if body.transactional_id is not None:
        raise Refusal(ErrorCode.invalid_request, "transactional ids are not supported yet")
    response: Payload = request.types.InitProducerIdResponse(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        producer_id=await request.services.producer_ids.take(),
        producer_epoch=0,
    )
    return response
