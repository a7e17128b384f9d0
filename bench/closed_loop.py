"""Connections that each have one request in flight: the next one goes out when the answer is in.

The request is encoded once; only its correlation id and its counter change. An answer is compared
with the one before and decoded only when it differs, so that the client is seldom the limit; where
every answer differs, it can be judged by its bytes.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from kio.index import load_response_schema
from kio.serial import entity_reader

from bench.results import Figures, MeasurementFailed, percentile
from tests.support.wire import encode_frame

COUNTER: Final = 0x6B61_666B_6121_0000
"""An int64 in a request that is to be replaced by a number that grows with each request."""

WARM_S: Final = 0.5
PATIENCE_S: Final = 10.0
_SIZE: Final = slice(0, 4)
_CORRELATION_ID: Final = slice(8, 12)
_ANSWERED_ID: Final = slice(4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one connection asks again and again.

    Attributes:
        address: HOST:PORT.
        request: an entity of kio; where its encoding holds COUNTER, it counts.
        codes_of: the error codes of a response; all shall be 0.
        is_fine: tells of an answer's bytes, after its correlation id, that it need not be
            decoded: all its error codes are 0.
    """

    address: str
    request: Any
    codes_of: Callable[[Any], Sequence[int]]
    is_fine: Callable[[bytes], bool] | None = None


class _Loop(asyncio.Protocol):
    def __init__(self, question: Question, ended: "asyncio.Future[None]") -> None:
        self._question = question
        self._ended = ended
        self._frame = bytearray(encode_frame(question.request, 0))
        at = bytes(self._frame).find(COUNTER.to_bytes(8))
        self._counter = slice(at, at + 8) if at >= 0 else None
        self._sent = 0
        self._sent_s = 0.0
        self._answer = bytearray()
        self._last_body = b""
        self._transport: asyncio.Transport | None = None
        self.answers: list[tuple[float, float]] = []
        """When each answer came, and how long it took, in seconds."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if len(self._answer) < 4 or len(self._answer) < 4 + int.from_bytes(self._answer[_SIZE]):
            return
        now_s = time.perf_counter()
        self.answers.append((now_s, now_s - self._sent_s))
        if (failure := self._refusal()) is not None:
            self._end(MeasurementFailed(failure))
            return
        self._answer.clear()
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(MeasurementFailed(f"connection lost: {exc or 'closed by the broker'}"))

    def _ask(self) -> None:
        assert self._transport is not None
        self._sent += 1
        self._frame[_CORRELATION_ID] = self._sent.to_bytes(4)
        if self._counter is not None:
            self._frame[self._counter] = self._sent.to_bytes(8)
        self._sent_s = time.perf_counter()
        self._transport.write(bytes(self._frame))

    def _refusal(self) -> str | None:
        """Return what is wrong with the answer, if anything is."""
        if int.from_bytes(self._answer[_ANSWERED_ID]) != self._sent:
            return "answer to another request"
        body = bytes(self._answer[8:])
        is_fine = self._question.is_fine
        if body == self._last_body or (is_fine is not None and is_fine(body)):
            return None
        request = self._question.request
        kind: Any = load_response_schema(request.__api_key__, request.__version__)
        response, _ = entity_reader(kind)(body, 1 if kind.__flexible__ else 0)
        if any(self._question.codes_of(response)):
            return f"refused: {response}"
        self._last_body = body
        return None

    def _end(self, error: MeasurementFailed) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)


async def rate(questions: Sequence[Question], duration_s: float) -> Figures:
    """Ask on one connection for each question; return what came back after a short warm-up.

    Raises:
        MeasurementFailed: an answer had an error code, or a connection ended.
    """
    running = asyncio.get_running_loop()
    ended: asyncio.Future[None] = running.create_future()
    loops: list[_Loop] = []
    transports: list[asyncio.BaseTransport] = []
    try:
        for question in questions:
            loop = _Loop(question, ended)
            host, _, port = question.address.rpartition(":")
            async with asyncio.timeout(PATIENCE_S):
                opened, _ = await running.create_connection(
                    lambda loop=loop: loop,  # type: ignore[misc]  # bound now, not when it is called
                    host,
                    int(port),
                )
            loops.append(loop)
            transports.append(opened)
        await _wait(ended, WARM_S)
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        await _wait(ended, duration_s)
        took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    finally:
        ended.cancel()
        for transport in transports:
            transport.close()
    latencies_s = [
        latency_s for loop in loops for at_s, latency_s in loop.answers if at_s >= began_s
    ]
    if not latencies_s:
        raise MeasurementFailed(f"no answer in {duration_s:.1f} s")
    return {
        "per_s": len(latencies_s) / took_s,
        "p50_ms": percentile(latencies_s, 0.5) * 1000,
        "p99_ms": percentile(latencies_s, 0.99) * 1000,
        "client_cpu": cpu_s / took_s,
    }


async def _wait(ended: "asyncio.Future[None]", duration_s: float) -> None:
    """Let the connections work.

    Raises:
        MeasurementFailed: one of them has ended.
    """
    done, _ = await asyncio.wait([ended], timeout=duration_s)
    for one in done:
        one.result()
