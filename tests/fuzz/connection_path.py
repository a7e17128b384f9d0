"""What the broker does with a client's bytes, without its stores: cut, check, decode, look inside.

It is the code of a connection and of its handlers, in their order. Whatever is wrong with the bytes
is one of the TYPED exceptions; anything else is a bug.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.api_table import is_supported
from broker.telemetry.telemetry_points import read_push
from coordinator.classic_subscription import UnreadableSubscription, read_subscribed_topics
from coordinator.consumer_protocol import read_assignment, read_subscription
from coordinator.subscriptions import InvalidPattern, compile_pattern
from protocol.batch import HEADER_BYTES, verify_produced
from protocol.batch_scan import (
    find_first_at_or_after,
    find_max_timestamp,
    largest_timestamp,
    records_without_key,
)
from protocol.codec import RequestHeader, read_request_header, request_type
from protocol.compression import Codec
from protocol.decompression import MAX_DECOMPRESSED_BYTES, decompress, default_limit
from protocol.errors import ProtocolError
from protocol.fetch import FetchRequest, decode_fetch
from protocol.framing import FrameBuffer
from protocol.guard import decode_request
from protocol.produce import ProduceRequest, decode_produce
from protocol.record_spans import record_spans, timestamp_deltas
from protocol.records import decode_records
from protocol.schema_ids import schema_ids
from tests.fuzz.sasl_looks import sasl_looks

TYPED: Final = (ProtocolError, UnreadableSubscription, InvalidPattern)
MAX_FRAME_BYTES: Final = 104_857_600
TELEMETRY_BYTES: Final = 1024 * 1024

_SCRATCH: Final = bytearray(256 * 1024)
_PRODUCE, _FETCH, _JOIN_GROUP, _SYNC_GROUP = 0, 1, 11, 14
_SASL_AUTHENTICATE, _CONSUMER_GROUP_HEARTBEAT, _PUSH_TELEMETRY = 36, 68, 72


@dataclass(frozen=True, slots=True)
class Look:
    """One look into a decoded request.

    Attributes:
        limit_bytes: what it may decompress; 0 if it decompresses nothing.
        take: does it; raises one of TYPED.
    """

    name: str
    limit_bytes: int
    take: Callable[[], object]


def cut(stream: bytes, ends: Sequence[int]) -> Iterator[bytearray]:
    """Yield the frames of a stream that arrives in pieces; the last one may lack its end.

    Raises:
        MalformedRequest: it has no meaning.
    """
    buffer = FrameBuffer(_SCRATCH, max_frame_bytes=MAX_FRAME_BYTES)
    start = 0
    for end in (*ends, len(stream)):
        while start < end:
            with buffer.get_buffer() as room:
                count = min(len(room), end - start)
                room[:count] = stream[start : start + count]
            start += count
            yield from buffer.received(count)
            if buffer.announced:
                if buffer.announced > len(stream):  # the memory budget's business
                    return
                buffer.admit()


def decode(frame: bytearray) -> tuple[RequestHeader, Any]:
    """Return the header and what the handler gets.

    Raises:
        UnsupportedVersion, MalformedRequest: as the connection and the handlers raise it.
    """
    header = read_request_header(frame, is_supported)
    if not is_supported(header.api_key, header.api_version):
        return header, None  # ApiVersions of the future: nothing more is read
    if header.api_key == _PRODUCE:
        return header, decode_produce(frame, header.body, header.api_version)
    if header.api_key == _FETCH:
        return header, decode_fetch(frame, header.body, header.api_version)
    kind = request_type(header.api_key, header.api_version)
    return header, decode_request(kind, frame, header.body)


def looks(header: RequestHeader, request: Any) -> Iterator[Look]:
    """Yield what handlers look into, one by one."""
    match request:
        case ProduceRequest():
            for topic in request.topics:
                for _, batch in topic.partitions:
                    if batch is not None:
                        yield from _looks_into_batch(batch)
        case FetchRequest() | None:
            return
        case _:
            make = _LOOKS.get(header.api_key)
            if make is not None:
                yield from make(request)


def _looks_into_batch(batch: memoryview) -> Iterator[Look]:
    yield Look("verify", 0, lambda: verify_produced(batch))
    try:
        header = verify_produced(batch)
    except ProtocolError:
        return
    limit = default_limit(len(batch) - HEADER_BYTES)
    if header.codec == Codec.NONE:
        limit = len(batch)
    yield Look("null key", limit, lambda: records_without_key(batch))
    yield Look("largest timestamp", limit, lambda: largest_timestamp(batch))
    yield Look("schema ids", limit, lambda: schema_ids(batch, of_keys=True, of_values=True))
    latest = header.max_timestamp_ms
    limit = limit if header.codec == Codec.NONE else MAX_DECOMPRESSED_BYTES
    yield Look("by time", limit, lambda: find_first_at_or_after([batch], latest))
    yield Look("latest", limit, lambda: find_max_timestamp([batch]))
    try:
        payload = decompress(header.codec, batch[HEADER_BYTES:])
    except ProtocolError:
        return
    count, size = header.record_count, len(payload)
    last = header.last_offset_delta
    yield Look("records", size, lambda: _exhaust(decode_records(payload, count)))
    yield Look("spans", size, lambda: _exhaust(record_spans(payload, count, last)))
    yield Look("timestamps", size, lambda: _exhaust(timestamp_deltas(payload, count)))


def _exhaust(items: Iterator[object]) -> None:
    for _ in items:
        pass


def _looks_into_join(request: Any) -> Iterator[Look]:
    for each in request.protocols:
        data = each.metadata
        yield Look("topics", 0, lambda data=data: read_subscribed_topics(data))  # type: ignore[misc]
        yield Look("subscription", 0, lambda data=data: read_subscription(data))  # type: ignore[misc]


def _looks_into_sync(request: Any) -> Iterator[Look]:
    for each in request.assignments:
        data = each.assignment
        yield Look("assignment", 0, lambda data=data: read_assignment(data))  # type: ignore[misc]


def _looks_into_heartbeat(request: Any) -> Iterator[Look]:
    pattern = getattr(request, "subscribed_topic_regex", None)
    if pattern:
        yield Look("pattern", 0, lambda: compile_pattern(pattern))


def _looks_into_authenticate(request: Any) -> Iterator[Look]:
    for name, take in sasl_looks(request.auth_bytes):
        yield Look(name, 0, take)


def _looks_into_push(request: Any) -> Iterator[Look]:
    def read() -> object:
        codec, payload = request.compression_type, request.metrics
        return read_push(codec, payload, max_bytes=TELEMETRY_BYTES, max_points=1000)

    yield Look("telemetry", TELEMETRY_BYTES, read)


_LOOKS: Final[dict[int, Callable[[Any], Iterator[Look]]]] = {
    _JOIN_GROUP: _looks_into_join,
    _SYNC_GROUP: _looks_into_sync,
    _SASL_AUTHENTICATE: _looks_into_authenticate,
    _CONSUMER_GROUP_HEARTBEAT: _looks_into_heartbeat,
    _PUSH_TELEMETRY: _looks_into_push,
}
