"""DescribeCluster: v0-2 (KIP-700). v1 endpoint types (KIP-919), v2 fenced brokers (KIP-1073).

A fenced broker is one that is known, and not alive: it owns nothing, and its node id is kept for a
day, or until UnregisterBroker.

ACLs: everybody may ask; DESCRIBE on the cluster for the operations on it.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.cluster import Node
from broker.requests import NOT_THROTTLED, Request
from broker.security.authorized_operations import NOT_ASKED, cluster_operations

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(request: Request) -> Payload:
    """Name the cluster, its brokers and the one that takes administrative requests."""
    body, cluster = request.decode(), request.services.cluster
    endpoint_type = getattr(body, "endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        return _refused(request, endpoint_type)
    asked = body.include_cluster_authorized_operations
    fenced: list[Node] = []
    if getattr(body, "include_fenced_brokers", False):
        dead = await request.services.metadata.dead_brokers()
        live = {node.node_id for node in cluster.live}  # what is known here may be a moment older
        known = (cluster.node(broker) for broker in dead if broker.node_id not in live)
        fenced = [node for node in known if node is not None]
    response: Payload = request.types.DescribeClusterResponse(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.node_id,
        brokers=(
            *(_broker(request, node, is_fenced=False) for node in cluster.live),
            *(_broker(request, node, is_fenced=True) for node in fenced),
        ),
        cluster_authorized_operations=cluster_operations(request, asked=asked),
    )
    return response


def _broker(request: Request, node: Node, *, is_fenced: bool) -> object:
    return request.types.DescribeClusterBroker(
        broker_id=node.node_id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        is_fenced=is_fenced,
    )


def _refused(request: Request, endpoint_type: int) -> Payload:
    if endpoint_type == _CONTROLLERS:
        code, message = ErrorCode.mismatched_endpoint_type, "This endpoint is a broker's."
    else:
        code = ErrorCode.unsupported_endpoint_type
        message = f"There are no endpoints of type {endpoint_type}."
    response: Payload = request.types.DescribeClusterResponse(
        throttle_time=NOT_THROTTLED,
        error_code=code,
        error_message=message,
        endpoint_type=_BROKERS,
        cluster_id="",
        controller_id=-1,
        brokers=(),
        cluster_authorized_operations=NOT_ASKED,
    )
    return response
