"""From a frame to its handler and back, and what an unexpected exception in a handler does."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.api_table import APIS, HANDLERS, is_supported
from broker.broker_metrics import BrokerMetrics
from broker.encoding import encoded
from broker.handlers import Later
from broker.large_requests import LargeRequests
from broker.message_classes import VERSION_BYTES, MessageClasses
from broker.network.answer_when import ENCODED, LATER, Answer, AnswerWhen, Reply
from broker.network.connection import Connection
from broker.network.refused_connections import CloseConnection
from broker.refusals import CONDITIONS, code_of
from broker.requests import LARGE_BYTES, Request
from broker.security.sasl_responses import SASL_AUTHENTICATE, SASL_HANDSHAKE
from broker.services import Services
from broker.topic_lookups import LOOKUP
from protocol.codec import encode_response, error_response, read_request_header
from protocol.errors import MalformedRequest, UnsupportedVersion


class Dispatch:
    """Finds the handler of a frame and turns what it returns, or raises, into an answer."""

    def __init__(
        self,
        services: Services,
        metrics: BrokerMetrics,
        classes: MessageClasses,
        large: LargeRequests,
    ) -> None:
        self._services = services
        self._metrics = metrics
        self._classes = classes
        self._large = large
        self._observers = {key: metrics.observer(api.name) for key, api in APIS.items()}

    async def dispatch(
        self, frame: bytearray, connection: Connection, give_back: Callable[[], None]
    ) -> Reply:
        """Answer one frame, now or by an awaitable; `give_back` stops counting its memory.

        Raises:
            CloseConnection, MalformedRequest, UnsupportedVersion: it gets no answer.
        """
        began_s, size, session = time.monotonic(), len(frame), connection.session
        if not session.authenticated or began_s >= session.expires_s:
            answer = await self._let_in(frame, connection, began_s)
            if answer is not None:
                return answer
        version = bytes(frame[:VERSION_BYTES])
        if version not in self._classes.loaded:
            await self._classes.load(version)
        header = read_request_header(frame, is_supported)
        LOOKUP.set(None)
        quota, quotas = None, self._services.quotas
        if quotas.active:
            api = APIS[header.api_key].name
            quota = quotas.use(connection, header.client_id, api, size)
        request = Request(
            header=header,
            frame=frame,
            services=self._services,
            peer=connection.peer,
            session=session,
            give_back=give_back,
            quota=quota,
        )
        handle = HANDLERS[header.api_key]
        work = handle(request) if size <= LARGE_BYTES else self._large.handle(request, handle)
        return await self._guarded(request, work, began_s, size)

    async def _let_in(
        self, frame: bytearray, connection: Connection, began_s: float
    ) -> bytes | None:
        """Answer a client that is not in, or not any more; None for what anybody may ask."""
        sasl, key, size = self._services.sasl, int.from_bytes(frame[:2]), len(frame)
        assert sasl is not None, "only listeners with SASL ask for authentication"
        answer = await sasl.answer(frame, connection, is_supported)
        if answer is not None and key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            self._observers[key](size, time.monotonic() - began_s)
        return answer

    async def _guarded(
        self,
        request: Request,
        work: Awaitable[Payload | Answer | Later],
        began_s: float,
        size: int,
    ) -> Reply:
        """Return the answer that `work` has, or what waits for it, and take note of it once."""
        header, quota = request.header, request.quota
        answer: Answer
        try:
            result: Any = await (work if quota is None else quota.metered(work))
            if isinstance(result, LATER):
                # Only a first result may be one.
                if quota is None and isinstance(result, AnswerWhen):
                    result.make = partial(self._made, request, result.make, began_s, size)
                    return result
                return cast("Reply", self._guarded(request, result, began_s, size))
            if quota is not None:
                result = quota.throttled(header, result)
            if isinstance(result, ENCODED):
                answer = result
            else:
                encoding = encoded(header.correlation_id, result)
                answer = await (encoding if quota is None else quota.encoding(encoding))
        except Exception as error:  # noqa: BLE001 (looked at there)
            answer = self._failed(request, error)
        self._observers[header.api_key](size, time.monotonic() - began_s)
        return answer

    def _made(
        self, request: Request, make: Callable[[], Answer], began_s: float, size: int
    ) -> Answer:
        """Return the answer that `make` returns, and take note of it."""
        try:
            answer = make()
        except Exception as error:  # noqa: BLE001 (looked at there)
            answer = self._failed(request, error)
        self._observers[request.header.api_key](size, time.monotonic() - began_s)
        return answer

    def _failed(self, request: Request, error: Exception) -> Answer:
        """Return what a client is told of what a handler has raised, if it is told at all."""
        if isinstance(error, CloseConnection | MalformedRequest | UnsupportedVersion):
            raise error
        if isinstance(error, CONDITIONS):
            return self._error(request, code_of(error))
        request.log_bug(error)  # test_guards.py lists where else one is caught
        return self._error(request, ErrorCode.unknown_server_error)

    def _error(self, request: Request, code: ErrorCode) -> Answer:
        header = request.header
        self._metrics.error(APIS[header.api_key].name, code.name)
        response = error_response(header.api_key, header.api_version, code)
        if response is None:
            raise CloseConnection(f"{APIS[header.api_key].name} has no place for {code.name}")
        if request.quota is not None:
            response = cast("Payload", request.quota.throttled(header, response))
        return encode_response(header.correlation_id, response)
