"""A schema registry that does what a test tells it: it knows schemas, counts, hangs, fails.

It speaks the two requests of the API that brokers make. That a real registry answers them like this
is what tests/clients/test_schema_registry.py is for.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

HANG_S: Final = 300
HANG_UP: Final = -1
"""A status that ends the connection without an answer."""


@dataclass(slots=True)
class FakeRegistry:
    """What the registry knows, and how it behaves.

    Attributes:
        schemas: by id, the answer for it.
        subjects: by id, those it is registered under.
        asked: requests so far, by path.
        logins: the Authorization headers that came.
        status: what it answers everything with, if not 0.
        body: what that answer holds.
        broken, hanging: ids that it fails to answer for, or does not answer for.
        open: cleared while requests are to hang.
    """

    url: str = ""
    schemas: dict[int, dict[str, str]] = field(default_factory=dict)
    subjects: dict[int, list[str]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    logins: set[str | None] = field(default_factory=set)
    status: int = 0
    body: bytes = b"{}"
    broken: set[int] = field(default_factory=set)
    hanging: set[int] = field(default_factory=set)
    open: threading.Event = field(default_factory=threading.Event)

    def register(self, schema_id: int, *subjects: str, schema: str = "{}", kind: str = "") -> None:
        """Register a schema under subjects."""
        answer = {"schema": schema} | ({"schemaType": kind} if kind else {})
        self.schemas[schema_id] = answer
        self.subjects[schema_id] = list(subjects)

    def asked_for(self, schema_id: int) -> int:
        """Return how often the subjects of a schema were asked for."""
        return self.asked[f"/schemas/ids/{schema_id}/versions"]

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body for a path."""
        self.asked[path] += 1
        self.open.wait(HANG_S)
        if self.status:
            return self.status, self.body
        parts = path.strip("/").split("/")
        schema_id = int(parts[2])
        while schema_id in self.hanging:
            time.sleep(0.05)
        if schema_id in self.broken:
            return 500, b'{"error_code":50001,"message":"Error in the backend data store"}'
        if schema_id not in self.schemas:
            return 404, b'{"error_code":40403,"message":"Schema not found"}'
        if parts[3:] == ["versions"]:
            versions = [{"subject": one, "version": 1} for one in self.subjects[schema_id]]
            return 200, json.dumps(versions).encode()
        return 200, json.dumps(self.schemas[schema_id]).encode()


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    """Run one on a free port, in threads of this process."""
    registry = FakeRegistry()
    registry.open.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            registry.logins.add(self.headers["Authorization"])
            status, body = registry.answer(self.path)
            if status == HANG_UP:
                self.close_connection = True
                return
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:
                return  # whoever asked has given up

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 100  # who finds no place in it tries again after a second

    with Server(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield registry
        finally:
            registry.open.set()
            server.shutdown()
            thread.join()
