"""PushTelemetry: v0 (KIP-714). What a client pushes is exported by GET /metrics."""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request
from broker.telemetry.telemetry_points import PushedMetrics


async def handle(request: Request) -> Awaitable[Payload]:
    """Take a push; what the client asks next does not wait for it."""
    body = request.decode()
    pushed = PushedMetrics(
        instance_id=body.client_instance_id,
        subscription_id=body.subscription_id,
        codec=body.compression_type,
        payload=body.metrics,
        terminating=body.terminating,
    )
    return _answer(request, pushed)


async def _answer(request: Request, pushed: PushedMetrics) -> Payload:
    telemetry = request.services.telemetry
    await telemetry.push(pushed, request.header.client_id, request.peer, request.session)
    response: Payload = request.types.PushTelemetryResponse(
        throttle_time=NOT_THROTTLED, error_code=ErrorCode.none
    )
    return response
