"""FindCoordinator: v0-6. v1 key types, v4 several keys at once (KIP-699).

There are no coordinators yet, and it says so (COORDINATOR_NOT_AVAILABLE: a final error would end
librdkafka's consumers, which ask even if they only assign partitions). It is advertised because
librdkafka takes the absence of v0 for a broker that cannot store lz4, and silently sends such
batches uncompressed.
"""

from functools import lru_cache
from typing import Final

import structlog
from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request

NOT_YET: Final = (
    "Consumer groups and transactions are not supported yet: assign partitions instead."
)
_FIRST_BATCHED: Final = 4
_NOBODY: Final = -1

log = structlog.get_logger()


async def handle(request: Request) -> Payload:
    """Name no coordinator for any key."""
    body, types = request.decode(), request.types
    code, message = ErrorCode.coordinator_not_available, NOT_YET
    _tell_once(request.header.client_id)
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


@lru_cache(maxsize=1000)
def _tell_once(client_id: str) -> None:
    """Log it for the operator once a client, however often it asks."""
    log.warning("a client asked for a coordinator", client_id=client_id, answer=NOT_YET)
