"""Frames <-> messages, by a table of (API key, version); headers by Kafka's rules.

- The request header's client_id is a legacy string in every version; flexible requests have tagged
  fields after it (header v2), others do not (v1).
- The response header has tagged fields (v1) where the response is flexible, except for ApiVersions:
  a client that does not know our versions yet must be able to read it (KIP-511).
"""

import io
import struct
from collections.abc import Callable, Hashable
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from functools import cache, partial
from typing import Any, Final, cast

from kio.index import load_payload_module, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Payload, RequestPayload, ResponsePayload

from protocol.errors import MalformedRequest, UnsupportedVersion
from protocol.walk import MAX_ELEMENTS, MEMORY_BASE_BYTES, MEMORY_FACTOR

API_VERSIONS: Final = 18

_FIXED: Final = struct.Struct(">hhih")  # api key, version, correlation id, length of client_id
_SIZE_AND_CORRELATION_ID: Final = struct.Struct(">ii")
_CLIENT_ID_SHOWN: Final = 256
_MAX_UNKNOWN_TAGS: Final = 1000


@dataclass(slots=True, kw_only=True)
class RequestHeader:
    """What precedes every request.

    Nobody changes it; it is not frozen because to make one would take three times as long.

    Attributes:
        client_id: as the peer names itself, cut to 256 characters; empty if it did not.
        body: byte of the frame where the request's own fields begin.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body: int


@cache
def request_type(api_key: int, version: int) -> type[RequestPayload]:
    return load_request_schema(api_key, version)


@cache
def response_type(api_key: int, version: int) -> type[ResponsePayload]:
    return load_response_schema(api_key, version)


def kio_versions(api_key: int) -> tuple[int, int]:
    """Return the lowest and the highest version of an API that the codec knows."""
    versions = schema_name_map[api_key_map[api_key]]
    return min(versions), max(versions)


def read_request_header(frame: bytearray, supported: Callable[[int, int], bool]) -> RequestHeader:
    """Return the header of a request frame.

    Args:
        frame: without its size.
        supported: whether a (key, version) is advertised; only then is the rest looked at.

    Raises:
        UnsupportedVersion: key or version is not advertised (not raised for ApiVersions, whose
            client_id is not read then either).
        MalformedRequest: the header does not fit into the frame.
    """
    if len(frame) < _FIXED.size:
        raise MalformedRequest(f"a request of {len(frame)} bytes has no header")
    api_key, api_version, correlation_id, length = _FIXED.unpack_from(frame)
    start = _FIXED.size
    if not supported(api_key, api_version):
        if api_key != API_VERSIONS:
            raise UnsupportedVersion(f"API key {api_key} version {api_version} is not supported")
        return RequestHeader(
            api_key=api_key,
            api_version=api_version,
            correlation_id=correlation_id,
            client_id="",
            body=start,
        )
    client_id = ""
    if length > 0:
        if start + length > len(frame):
            raise MalformedRequest("client_id is longer than the request")
        client_id = frame[start : start + length].decode("utf-8", "replace")[:_CLIENT_ID_SHOWN]
        start += length
    elif length < -1:
        raise MalformedRequest(f"client_id of {length} bytes")
    if request_type(api_key, api_version).__flexible__:
        # One zero byte where there are none: nearly always.
        start = start + 1 if frame[start : start + 1] == b"\0" else skip_tagged_fields(frame, start)
    return RequestHeader(
        api_key=api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
        body=start,
    )


class ElementLimit:
    """Counts the elements of all arrays of one request, and their memory (protocol/walk.py).

    Args:
        size: of the request's frame, in bytes.
    """

    __slots__ = ("_left", "_memory_left")

    def __init__(self, size: int) -> None:
        self._left = MAX_ELEMENTS
        self._memory_left = MEMORY_FACTOR * size + MEMORY_BASE_BYTES

    def take(self, count: int, memory: int = 0) -> int:
        """Return the length of an array, which may not be null (-1).

        Args:
            count: as the array announces.
            memory: bytes that an element takes when it is decoded.

        Raises:
            MalformedRequest: it is null, or the request has too many elements.
        """
        if count < 0:
            raise MalformedRequest(f"an array of {count} elements")
        self._left -= count
        self._memory_left -= count * memory
        if self._left < 0 or self._memory_left < 0:
            raise MalformedRequest(f"{count} elements are too many for a request of this size")
        return count


def read_uvarint(data: bytearray | bytes | memoryview, start: int) -> tuple[int, int]:
    """Return an unsigned varint (at most 5 bytes) and the byte after it.

    Raises:
        MalformedRequest: it does not end in time.
    """
    if start < len(data) and data[start] < 0x80:  # nearly all of them
        return data[start], start + 1
    value = shift = 0
    for position in range(start, min(start + 5, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise MalformedRequest("a varint does not end")


def write_uvarint(value: int) -> bytes:
    """Return `value` as an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tagged_fields(data: bytearray | memoryview, start: int) -> int:
    """Return the byte after a section of tagged fields, all of them unknown to us (KIP-482).

    Raises:
        MalformedRequest: they do not fit into the data.
    """
    count, start = read_uvarint(data, start)
    if count > _MAX_UNKNOWN_TAGS:
        raise MalformedRequest(f"{count} unknown tagged fields")
    for _ in range(count):
        _, start = read_uvarint(data, start)
        size, start = read_uvarint(data, start)
        start += size
        if start > len(data):
            raise MalformedRequest("a tagged field is longer than the request")
    return start


@cache
def _writer(entity_type: type[Any]) -> Callable[[io.BytesIO, Any], None]:
    return entity_writer(entity_type)


def encode_response(correlation_id: int, response: Payload) -> bytes:
    """Return the whole response frame."""
    body = io.BytesIO()
    body.write(_SIZE_AND_CORRELATION_ID.pack(0, correlation_id))
    if response.__flexible__ and response.__api_key__ != API_VERSIONS:
        body.write(b"\x00")
    _writer(type(response))(body, response)
    frame = body.getbuffer()
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    return bytes(frame)


class ResponseTypes:
    """The response classes of one API version, by name, without the fields that version lacks.

    `types.MetadataResponse(throttle_time=ZERO, brokers=...)` builds that version's class; a field
    that only other versions have is left out, one that no version has is a bug and raises at once.
    """

    def __init__(self, api_key: int, version: int) -> None:
        self._api_key = api_key
        self._module = load_payload_module(api_key, version, EntityType.response)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        maker = partial(_make, self._api_key, getattr(self._module, name))
        setattr(self, name, maker)
        return maker


@cache
def response_types(api_key: int, version: int) -> ResponseTypes:
    return ResponseTypes(api_key, version)


@cache
def _fields_of(entity: Hashable) -> frozenset[str]:
    return frozenset(field.name for field in fields(cast("Any", entity)))


@cache
def _is_of_another_version(api_key: int, name: str, field: str) -> bool:
    """Look at the newest first, which most likely has it: to import each takes milliseconds."""
    low, high = kio_versions(api_key)
    for version in range(high, low - 1, -1):
        module = load_payload_module(api_key, version, EntityType.response)
        entity = getattr(module, name, None)
        if entity is not None and field in _fields_of(entity):
            return True
    return False


def _make(api_key: int, entity: type[Any], /, **values: Any) -> Any:
    own = _fields_of(cast("Hashable", entity))
    others = values.keys() - own
    for field in others:
        if not _is_of_another_version(api_key, entity.__name__, field):
            raise TypeError(f"{entity.__name__} has no field {field}")
        del values[field]
    return entity(**values)


def error_response(api_key: int, version: int, code: ErrorCode) -> Payload | None:
    """Return an otherwise empty response with that code; None if the API has no code of its own."""
    entity: Any = response_type(api_key, version)
    values: dict[str, object] = {}
    for field in fields(entity):
        if field.default is not MISSING:
            continue
        match field.metadata.get("kafka_type"):
            case "error_code":
                values[field.name] = code
            case "string" | "bytes" as kind:
                nothing = "" if kind == "string" else b""
                values[field.name] = None if "None" in str(field.type) else nothing
            case "timedelta_i32":
                values[field.name] = i32Timedelta.parse(timedelta(0))
            case "bool":
                values[field.name] = False
            case "uuid" | "records":
                values[field.name] = None
            case str():
                values[field.name] = 0
            case _:
                values[field.name] = ()
    if code not in values.values():
        return None
    response: Payload = entity(**values)
    return response
