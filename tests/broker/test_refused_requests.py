"""Requests that are refused go at once: their frames may have a megabyte, and more.

A refusal that is kept and raised holds the frames that hold it, and with them the whole request.
The garbage collector looks rarely (see app.py).
"""

import gc
import weakref
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from kio.schema.errors import ErrorCode

from broker.apis import k00_produce, k02_list_offsets
from broker.refusals import Refusal
from broker.requests import Request
from protocol.codec import read_request_header, request_type
from storage.errors import MetadataUnavailable
from tests.support.wire import build, encode_frame, produce_request, request_entities

PARTITIONS: Final = 3
PRODUCE_VERSION: Final = 9
OFFSETS_VERSION: Final = 7
_SIZE: Final = 4


class Topics:
    """Postgres is away, so no topic is found."""

    async def find(self, name: str = "", topic_id: object = None) -> None:
        raise MetadataUnavailable


class Asked:
    """A request of a client who may do what `allowed` says."""

    def __init__(self, message: Any, *, allowed: bool, is_cut_off: bool) -> None:
        self.frame = bytearray(encode_frame(message, 1))[_SIZE:]
        self.header = read_request_header(self.frame, lambda key, version: True)
        self.version = self.header.api_version
        self.services = SimpleNamespace(
            authorizer=SimpleNamespace(enabled=True),
            cluster=SimpleNamespace(brokers=SimpleNamespace(is_cut_off=is_cut_off)),
            schemas=SimpleNamespace(appends=SimpleNamespace(last={})),
            topics=Topics(),
        )
        self._allowed = allowed
        self.message = message
        self.errors: list[int] = []

    def allows(self, *_: object) -> bool:
        return self._allowed

    def authorize(self, *_: object) -> None:
        if not self._allowed:
            raise Refusal(ErrorCode.topic_authorization_failed, "Not authorized.")

    def check_is_awaited(self) -> None:
        """Its client is there."""

    def decode(self) -> Any:
        return self.message

    async def aside(self, work: Callable[..., bytes], *arguments: Any) -> bytes:
        return work(*arguments)

    def count_errors(self, codes: Iterable[int]) -> None:
        self.errors = list(codes)


def _produce() -> Any:
    return produce_request("t", bytes(100), version=PRODUCE_VERSION)


def _list_offsets() -> Any:
    module = request_entities(2, OFFSETS_VERSION)
    partitions = tuple(
        build(
            *(module, "ListOffsetsPartition"),
            partition_index=index,
            current_leader_epoch=-1,
            timestamp=-1,
        )
        for index in range(PARTITIONS)
    )
    topic = build(module, "ListOffsetsTopic", name="t", partitions=partitions)
    return build(module, "ListOffsetsRequest", replica_id=-1, isolation_level=0, topics=(topic,))


async def _answer(handle: Callable[[Request], Any], asked: Asked) -> bytes:
    answer = await handle(cast("Request", asked))
    return answer if isinstance(answer, bytes) else cast("bytes", await answer)


@pytest.mark.parametrize(
    ("handle", "message", "times", "allowed", "is_cut_off", "code"),
    [
        (k00_produce.handle, _produce, 1, False, False, 29),
        (k00_produce.handle, _produce, 1, True, False, 7),
        (k02_list_offsets.handle, _list_offsets, PARTITIONS, False, False, 29),
        (k02_list_offsets.handle, _list_offsets, PARTITIONS, True, False, 7),
        (k02_list_offsets.handle, _list_offsets, PARTITIONS, True, True, 6),
    ],
)
async def test_a_refused_request_is_not_left_to_the_garbage_collector(
    handle: Callable[[Request], Any],
    message: Callable[[], Any],
    times: int,
    *,
    allowed: bool,
    is_cut_off: bool,
    code: int,
) -> None:
    # Given a request of somebody who may not ask it, or while Postgres is away
    asked = Asked(message(), allowed=allowed, is_cut_off=is_cut_off)
    request_type(asked.header.api_key, asked.version)
    gone = weakref.ref(asked)
    gc.collect()
    gc.disable()
    try:
        # When it is answered
        answer = await _answer(handle, asked)
        del asked

        # Then each partition is told why, and nothing holds the request any more
        assert answer.count(code.to_bytes(2) + b"\xff" * 8) == times
        assert gone() is None
    finally:
        gc.enable()
