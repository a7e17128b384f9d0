"""FindCoordinator: v0-6. v1 key types, v4 several keys at once (KIP-699).

Every live broker computes the same coordinator of a key, so any can be asked, and nothing is looked
up. But one that is cut off from Postgres cannot know who coordinates what it did. A key that is
named twice is answered once: clients look for the answer to a key.

ACLs: DESCRIBE on each group or transactional id. Not done: share groups (key type 2, KIP-932).
"""

from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.cluster import Cluster, Node
from broker.gradual import Gradually
from broker.requests import DENIED, NOT_THROTTLED, Request
from broker.sent_away import send_away
from protocol.acl import Operation, ResourceType

GROUP: Final = 0
TRANSACTION: Final = 1
_FIRST_BATCHED: Final = 4
_RESOURCES: Final = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}
_NOBODY: Final[dict[str, object]] = {
    "node_id": -1,
    "host": "",
    "port": -1,
    "error_code": ErrorCode.invalid_request,
}


async def handle(request: Request) -> Payload:
    """Name the coordinator of each key, named once or twice."""
    body, types = request.decode(), request.types
    key_type = getattr(body, "key_type", GROUP)
    cluster = request.services.cluster.frozen()

    def find(key: str) -> dict[str, object]:
        if key_type not in _RESOURCES:
            return _NOBODY | {"error_message": f"There are no coordinators of type {key_type}."}
        if not request.allows(Operation.DESCRIBE, _RESOURCES[key_type], key):
            return _NOBODY | {
                "error_code": DENIED[_RESOURCES[key_type]],
                "error_message": None if request.version < _FIRST_BATCHED else "",
            }
        return _place(cluster.coordinator(key))

    keys = body.coordinator_keys if request.version >= _FIRST_BATCHED else (body.key,)
    if cluster.brokers.is_cut_off and await request.aside(_is_any_unknown, cluster, keys):
        send_away(request)
    if request.version < _FIRST_BATCHED:
        return _response(request, **find(body.key))
    found: dict[str, object] = {}
    async for key in Gradually().each(keys):
        if key not in found:
            found[key] = types.Coordinator(key=key, **find(key))
    return _response(request, coordinators=tuple(found.values()))


def _is_any_unknown(cluster: Cluster, keys: Iterable[str]) -> bool:
    return any(cluster.coordinator(key) is None for key in keys)


def _place(node: Node | None) -> dict[str, object]:
    if node is None:  # it has no listener of the client's protocol, or is cut off from Postgres
        return _NOBODY | {
            "error_code": ErrorCode.coordinator_not_available,
            "error_message": "The coordinator cannot be reached here, or is not known.",
        }
    return {
        "node_id": node.node_id,
        "host": node.host,
        "port": node.port,
        "error_code": ErrorCode.none,
        "error_message": None,
    }


def _response(request: Request, **fields: object) -> Payload:
    response: Payload = request.types.FindCoordinatorResponse(throttle_time=NOT_THROTTLED, **fields)
    return response
