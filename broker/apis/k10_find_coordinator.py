"""FindCoordinator: v0-6. v1 key types, v4 several keys at once (KIP-699).

There are no coordinators yet, and it says so (COORDINATOR_NOT_AVAILABLE). It is advertised because
librdkafka takes the absence of v0 for a broker that cannot store lz4, and silently sends such
batches uncompressed.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request

_FIRST_BATCHED: Final = 4
_NOBODY: Final = -1


async def handle(request: Request) -> Payload:
    """Name no coordinator for any key."""
    body, types = request.decode(), request.types
    code, message = ErrorCode.coordinator_not_available, "There are no group coordinators yet."
    coordinators: tuple[object, ...] = ()
    if request.version >= _FIRST_BATCHED:
        coordinators = tuple(
            types.Coordinator(
                key=key,
                node_id=_NOBODY,
                host="",
                port=_NOBODY,
                error_code=code,
                error_message=message,
            )
            for key in body.coordinator_keys
        )
    response: Payload = types.FindCoordinatorResponse(
        throttle_time=NOT_THROTTLED,
        error_code=code,
        error_message=message,
        node_id=_NOBODY,
        host="",
        port=_NOBODY,
        coordinators=coordinators,
    )
    return response
