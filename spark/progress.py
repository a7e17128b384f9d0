"""What streaming queries do, for Prometheus: over HTTP, or as a file for its node exporter.

Of each query: batches, rows, seconds of each phase, state, watermark, records that its topics are
ahead of it. Of Spark itself, read from its status store whenever somebody asks: executors, tasks,
bytes. A query is known by its name; one without a name by its id.

Spark tells of a batch after it is committed, and to listeners in the driver only: what a driver
counts begins at zero when it starts again.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark.executor_metrics import ExecutorMetrics
from spark.query_metrics import QueryMetrics

LOOPBACK: Final = "127.0.0.1"
HEARD_MS: Final = 60_000
"""In which a listener has heard of all; a busy machine may need more than Spark's ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Where metrics are.

    Attributes:
        address: HOST:PORT of GET /metrics; None without HTTP.
    """

    address: str | None


class ProgressListener(StreamingQueryListener):
    """Hears what all queries of a session do; Spark calls it from a thread of its own."""

    def __init__(self, registry: CollectorRegistry, textfile: Path | None) -> None:
        self._registry = registry
        self._metrics = QueryMetrics(registry)
        self._textfile = textfile
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        name = event.name or str(event.id)
        self._names[str(event.runId)] = name
        self._metrics.started(name)
        self.write()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._metrics.progressed(json.loads(event.progress.json))
        self.write()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing was there to do: what was counted holds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        name = self._names.pop(str(event.runId), str(event.id))
        self._metrics.ended(name, failed=event.exception is not None)
        self.write()

    def write(self) -> None:
        """Write the file, if one is wanted: whole or not at all."""
        if self._textfile is not None:
            write_to_textfile(str(self._textfile), self._registry)


@contextmanager
def watched(
    session: SparkSession,
    *,
    port: int | None = None,
    address: str = LOOPBACK,
    textfile: Path | None = None,
) -> Iterator[Exported]:
    """Count what queries do that are started within the block; they shall end within it.

    Args:
        session: whose queries are counted.
        port: of GET /metrics; 0 for any that is free, None for no HTTP.
        address: to listen on.
        textfile: written after each batch, and at the end; None for no file.

    Yields:
        Where it is exported.

    Raises:
        OSError: the port is taken, or the file's directory is not there.
    """
    registry = CollectorRegistry()
    registry.register(ExecutorMetrics(session))
    listener = ProgressListener(registry, textfile)
    listener.write()
    session.streams.addListener(listener)
    try:
        with _served(registry, port, address) as served:
            yield Exported(address=served)
    finally:
        # Events are on their way for a while after a query has ended.
        session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(HEARD_MS)  # noqa: SLF001
        session.streams.removeListener(listener)
        listener.write()


@contextmanager
def _served(registry: CollectorRegistry, port: int | None, address: str) -> Iterator[str | None]:
    if port is None:
        yield None
        return
    server, thread = start_http_server(port, address, registry)
    try:
        yield f"{address}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
