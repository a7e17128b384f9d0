"""Requests to bytes and bytes to answers, in any version that kio knows."""

import io
import struct
from contextlib import suppress
from typing import Any, Final

from kio.index import (
    UnknownEntity,
    load_payload_module,
    load_request_schema,
    load_response_schema,
)
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

API_VERSIONS: Final = 18
_CLIENT_ID: Final = b"streamctl"


def newest_version(api_key: int, offered: range) -> int | None:
    """Return the highest of the offered versions that can be spoken here; None if none can."""
    for version in reversed(offered):
        with suppress(UnknownEntity):  # newer than the codec
            request_types(api_key, version)
            return version
    return None


def request_types(api_key: int, version: int) -> Any:
    """Return the module with the request's classes."""
    return load_payload_module(api_key, version, EntityType.request)


def build(api_key: int, version: int, fields: dict[str, object]) -> Any:
    """Return the request with those of the fields that its version has."""
    kind: Any = load_request_schema(api_key, version)
    return kind(**{name: one for name, one in fields.items() if name in kind.__dataclass_fields__})


def encode(request: Any, correlation_id: int) -> bytes:
    """Return a whole frame, size included."""
    body = io.BytesIO()
    header = (request.__api_key__, request.__version__, correlation_id, len(_CLIENT_ID))
    body.write(struct.pack(">hhih", *header) + _CLIENT_ID)
    if request.__flexible__:
        body.write(b"\0")  # no tagged fields
    entity_writer(type(request))(body, request)
    return struct.pack(">i", body.tell()) + body.getvalue()


def decode(request: Any, frame: bytes) -> Any:
    """Return the answer to `request` in a frame without its size."""
    kind: Any = load_response_schema(request.__api_key__, request.__version__)
    start = 5 if kind.__flexible__ and kind.__api_key__ != API_VERSIONS else 4
    response, _ = entity_reader(kind)(frame, start)
    return response
