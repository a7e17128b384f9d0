"""ListPartitionReassignments: v0 (KIP-455). Nothing is ever on its way: see k45.

ACLs: DESCRIBE on the cluster.
"""

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Say that no partition is being reassigned; unknown ones are not, either."""
    request.decode()
    response: Payload = request.types.ListPartitionReassignmentsResponse(
        throttle_time=NOT_THROTTLED, error_code=ErrorCode.none, error_message=None, topics=()
    )
    return response
