"""Clients that send as fast as the broker reads, without waiting for answers in between."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.support.wire import WireClient, encode_frame, produce_request

BATCH_BYTES: Final = 256 * 1024
PATIENCE_S: Final = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """How much is sent, each frame one batch of one record.

    Attributes:
        timeout_ms: of each request; the broker then says that it does not know the outcome.
    """

    topic: str
    connections: int = 16
    frames: int = 64
    timeout_ms: int

    @property
    def records(self) -> int:
        return self.connections * self.frames

    @property
    def bytes(self) -> int:
        return self.records * BATCH_BYTES


async def run_flood(bootstrap: str, flood: Flood) -> list[ErrorCode]:
    """Send everything on all connections; return the error codes of all answers."""
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(
            *(_one_connection(bootstrap, flood) for _ in range(flood.connections))
        )
    return [code for codes in answers for code in codes]


async def _one_connection(bootstrap: str, flood: Flood) -> list[ErrorCode]:
    value = bytes(BATCH_BYTES)
    batch = build_batch(
        [Record(offset_delta=0, value=value)], base_timestamp_ms=int(time.time() * 1000)
    )
    request = produce_request(flood.topic, batch, timeout_ms=flood.timeout_ms)
    async with await WireClient.connect(bootstrap) as client:

        async def send_all() -> None:
            for number in range(flood.frames):
                await client.send(encode_frame(request, number))

        sending = asyncio.create_task(send_all())
        codes = []
        for number in range(flood.frames):
            correlation_id, response = await client.receive(request)
            assert correlation_id == number, "answers in the order of the requests"
            codes.append(response.responses[0].partition_responses[0].error_code)
        await sending
        return codes
