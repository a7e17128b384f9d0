"""Responses as bytes, without keeping the event loop from everybody else."""

import asyncio
from typing import Final

from kio.static.protocol import Payload

from protocol.codec import encode_response

_LARGE_BYTES: Final = 16 * 1024
"""The response to a larger request may be large as well, and take seconds to encode."""
_LONG_LIST: Final = 500


async def encoded(correlation_id: int, response: Payload, request_bytes: int) -> bytes:
    """Return the whole response frame to a request of that size."""
    if request_bytes <= _LARGE_BYTES:
        return encode_response(correlation_id, response)
    return await asyncio.to_thread(encode_response, correlation_id, response)


async def encoded_list(correlation_id: int, response: Payload, entries: int) -> bytes:
    """Return the whole response frame, of a list with so many entries; its request may be small."""
    if entries <= _LONG_LIST:
        return encode_response(correlation_id, response)
    return await asyncio.to_thread(encode_response, correlation_id, response)
