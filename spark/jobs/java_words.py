"""What Java and pyspark say on standard error of themselves, of no use to who asks."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Final

from pyspark.accumulators import AccumulatorServer
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

_STDERR: Final = 2
_STREAMS: Final = "org.apache.spark.sql.execution.streaming.MicroBatchExecution"
_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""They write a page of JSON for each mistake in a query, which is told in a line anyhow."""


def hush_pyspark() -> None:
    """Leave what is raised to those who catch it."""
    for name in _QUERY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_has_logger)
    setattr(AccumulatorServer, "handle_error", _say_nothing)  # noqa: B010 (a method, to mypy)


def hush_streams(session: SparkSession) -> None:
    """Leave the stack of a query that fails out: whoever waits for it is told why, in a line."""
    java = session.sparkContext._jvm  # noqa: SLF001 - PySpark sets the level of all loggers only
    assert java is not None
    log4j = java.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(_STREAMS, log4j.Level.OFF)


def _has_logger(_record: logging.LogRecord) -> bool:
    """Leave out what is logged to the root itself: py4j does so, with what it raises."""
    return False


def _say_nothing(*_request: object) -> None:
    """Take the place of a traceback: of the thread that Java talks to, when that has gone."""


@contextmanager
def java_words_aside() -> Iterator[None]:
    """Start Java within: all that it ever says is shown only if it does not start."""
    with TemporaryFile() as aside:
        own = os.dup(_STDERR)
        os.dup2(aside.fileno(), _STDERR)
        try:
            yield
        except Exception:
            os.dup2(own, _STDERR)
            aside.seek(0)
            shutil.copyfileobj(aside, sys.stderr.buffer)
            sys.stderr.flush()
            raise
        finally:
            os.dup2(own, _STDERR)
            os.close(own)
