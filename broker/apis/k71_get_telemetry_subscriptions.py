"""GetTelemetrySubscriptions: v0 (KIP-714).

It is always advertised, because GET /metrics always exports what clients push. Where no
subscription means a client, it is told so, and asks again after five minutes.
"""

import datetime as dt

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request
from broker.telemetry.telemetry import COMPRESSIONS


async def handle(request: Request) -> Payload:
    """Tell a client who it is, and what it shall push."""
    body = request.decode()
    telemetry = request.services.telemetry
    client_id, peer = request.header.client_id, request.peer
    instance_id, wanted = telemetry.ask(body.client_instance_id, client_id, peer, request.session)
    interval = dt.timedelta(milliseconds=wanted.interval_ms)
    response: Payload = request.types.GetTelemetrySubscriptionsResponse(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        client_instance_id=instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=tuple(int(codec) for codec in COMPRESSIONS),
        push_interval=i32Timedelta.parse(interval),
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=wanted.metrics,
    )
    return response
