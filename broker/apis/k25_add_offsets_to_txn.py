"""AddOffsetsToTxn: v0-4. v2 PRODUCER_FENCED (KIP-588), v3 flexible, v4 as v3 (KIP-890).

Lets a group take part in a transaction, so that TxnOffsetCommit may bring its offsets. The group
need not exist yet, nor be coordinated by this broker. ACLs: WRITE on the transactional id, READ on
the group.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_requests import named_group
from broker.groups.group_table import MAX_GROUP_ID_LENGTH
from broker.refusals import Refusal, coordinating
from broker.requests import NOT_THROTTLED, Request
from broker.transactions.transaction_requests import code_of_verdict, named_producer
from protocol.acl import Operation, ResourceType

_FIRST_TO_SAY_FENCED: Final = 2


async def handle(request: Request) -> Payload:
    """Add one group."""
    body = request.decode()
    request.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
    request.authorize(Operation.READ, ResourceType.GROUP, body.group_id)
    producer = named_producer(body.transactional_id, body.producer_id, body.producer_epoch)
    group_id = named_group(body.group_id)
    if len(group_id) > MAX_GROUP_ID_LENGTH:
        raise Refusal(ErrorCode.invalid_group_id)
    with coordinating():
        verdict = await request.services.transactions.add(producer, (), [group_id])
    code = code_of_verdict(verdict, says_fenced=request.version >= _FIRST_TO_SAY_FENCED)
    response: Payload = request.types.AddOffsetsToTxnResponse(
        throttle_time=NOT_THROTTLED, error_code=code
    )
    return response
