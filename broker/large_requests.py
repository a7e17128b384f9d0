"""Requests with more in them than can be decoded without keeping the event loop from all others.

They are decoded part by part, one at a time, and hosts take turns. Those that take more memory than
their bytes explain have other turns, until they are handled: nobody else waits for them. Those are
for APIs whose handlers are made for any number of elements; to others it is too much.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import fields
from typing import Final

from kio.static.protocol import Payload

from broker.api_table import APIS
from broker.gradual import MANY
from broker.handlers import Handler, Later
from broker.network.answer_when import Answer
from broker.requests import Request
from broker.turns import Turns
from protocol.codec import request_type
from protocol.entity_parts import decode_parts
from protocol.errors import RequestTooLarge

LARGEST: Final = 2
"""So many are handled at a time."""
LARGEST_BYTES: Final = 128 * 1024 * 1024
"""What one of them may take, when it is decoded, beyond its frame."""


class LargeRequests:
    """Those of one process."""

    def __init__(self) -> None:
        self._decoding = Turns()
        self._largest = Turns(LARGEST)

    async def handle(self, request: Request, handle: Handler) -> Payload | Answer | Later:
        """Return what the handler does, which decodes the request before it does anything else.

        Raises:
            RequestTooLarge: it takes more than LARGEST_BYTES, or than others may.
            MalformedRequest: it does not follow the schema of its version.
        """
        # Each error is gone before the next try: its frames have what was decoded.
        with suppress(RequestTooLarge):
            return await handle(request)
        host = request.session.host
        try:
            async with self._decoding.of(host):
                request.check_is_awaited()
                await _decode(request, None)
        except RequestTooLarge:
            if not APIS[request.header.api_key].gradual:
                raise
        else:
            return await handle(request)
        async with self._largest.of(host):
            request.check_is_awaited()
            return await _handle_largest(request, handle)


async def _handle_largest(request: Request, handle: Handler) -> Payload | Answer:
    await _decode(request, LARGEST_BYTES)
    try:
        result = await handle(request)
        return await result if isinstance(result, Awaitable) else result
    finally:
        await _forget_body(request)


async def _decode(request: Request, largest_bytes: int | None) -> None:
    header = request.header
    kind = request_type(header.api_key, header.api_version)
    decoding = decode_parts(kind, request.frame, header.body, largest_bytes=largest_bytes)
    while True:
        try:
            next(decoding)
        except StopIteration as end:
            request.body = end.value[0]
            return
        await asyncio.sleep(0)


async def _forget_body(request: Request) -> None:
    """Free it bit by bit: at once, that would take as long as hundreds of requests."""
    body, request.body = request.body, None
    values = [getattr(body, each.name) for each in fields(body)]
    del body
    parts = [list(value) for value in values if isinstance(value, tuple)]
    del values
    for part in parts:
        while part:
            del part[-MANY:]
            await asyncio.sleep(0)
