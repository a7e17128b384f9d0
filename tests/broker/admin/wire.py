"""A client that says exactly what it is told, in the version that it is told."""

import datetime as dt
import io
import socket
import struct
import sys
from dataclasses import dataclass, fields
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

TIMEOUT = i32Timedelta.parse(dt.timedelta(seconds=5))


@dataclass(frozen=True, slots=True)
class Api:
    """One API in one version; fields that this version lacks are left out of what it makes."""

    key: int
    version: int

    def request(self, **values: Any) -> Any:
        return _make(load_request_schema(self.key, self.version), values)

    def part(self, entity: str, /, **values: Any) -> Any:
        module = sys.modules[load_request_schema(self.key, self.version).__module__]
        return _make(getattr(module, entity), values)


@dataclass(frozen=True, slots=True)
class Wire:
    """A broker's address; every question has a connection of its own.

    Attributes:
        source: the address that it is asked from.
    """

    host: str
    port: int
    source: str = "127.0.0.1"

    def ask(self, request: Any) -> Any:
        """Return the typed response.

        Raises:
            EOFError: the broker closed the connection.
        """
        kind = type(request)
        frame = self._exchange(request)
        answer = load_response_schema(kind.__api_key__, kind.__version__)
        read_header, start = entity_reader(answer.__header_schema__)(frame, 0)
        assert read_header.correlation_id == 7
        response, length = entity_reader(answer)(frame, start)
        assert start + length == len(frame)
        return response

    def ask_for_bytes(self, request: Any) -> bytes:
        """Return the body of the response, for what the codec here cannot read."""
        kind = type(request)
        answer = load_response_schema(kind.__api_key__, kind.__version__)
        frame = self._exchange(request)
        _, start = entity_reader(answer.__header_schema__)(frame, 0)
        return frame[start:]

    def _exchange(self, request: Any) -> bytes:
        """Send a request and return the frame that answers it, without its size."""
        kind = type(request)
        header_values: dict[str, Any] = {
            "request_api_key": kind.__api_key__,
            "request_api_version": kind.__version__,
            "correlation_id": 7,
            "client_id": "wire",
        }
        body = io.BytesIO()
        header = _make(kind.__header_schema__, header_values)
        entity_writer(type(header))(body, header)
        entity_writer(kind)(body, request)
        with socket.create_connection(
            (self.host, self.port), timeout=20, source_address=(self.source, 0)
        ) as connection:
            connection.sendall(struct.pack(">i", body.tell()) + body.getvalue())
            (size,) = struct.unpack(">i", _read(connection, 4))
            return _read(connection, size)


def _make(kind: Any, values: dict[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in known})


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        received = connection.recv(size - len(data))
        if not received:
            raise EOFError(f"closed after {len(data)} of {size} bytes")
        data += received
    return data
