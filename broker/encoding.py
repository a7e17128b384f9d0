"""Responses as bytes, without keeping the event loop from everybody else."""

import asyncio
from typing import Final

from kio.static.protocol import Payload

from broker.requests import LARGE_BYTES
from protocol.codec import encode_response

_LONG_LIST: Final = 500


async def encoded(
    correlation_id: int, response: Payload, *, request_bytes: int = 0, entries: int = 0
) -> bytes:
    """Return the whole response frame.

    Args:
        correlation_id: of the request.
        response: to it.
        request_bytes: its size, where that tells how large the response may be.
        entries: of the response, if it is a list, which a small request may ask for.
    """
    if request_bytes <= LARGE_BYTES and entries <= _LONG_LIST:
        return encode_response(correlation_id, response)
    return await asyncio.to_thread(encode_response, correlation_id, response)
