"""DescribeCluster: v0-2 (KIP-700). v1 endpoint types (KIP-919), v2 fenced brokers (KIP-1073).

Without an authoriser everybody may do everything, and the authorised operations say so. There are
no fenced brokers: one that is not alive is not in the cluster.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NOT_ASKED: Final = -(2**31)
# create, alter, describe, cluster action, describe and alter configs, idempotent write
ALL_CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


async def handle(request: Request) -> Payload:
    """Name the cluster, its brokers and the one that takes administrative requests."""
    body, cluster = request.decode(), request.services.cluster
    endpoint_type = getattr(body, "endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        return _refused(request, endpoint_type)
    asked = body.include_cluster_authorized_operations
    response: Payload = request.types.DescribeClusterResponse(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.node_id,
        brokers=tuple(
            request.types.DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=False,
            )
            for node in cluster.live
        ),
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS if asked else _NOT_ASKED,
    )
    return response


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
        cluster_authorized_operations=_NOT_ASKED,
    )
    return response
