"""Logs: one JSON object a line on stderr, or coloured text where a person watches."""

import logging
import sys

import structlog

from broker.log_levels import LOG_LEVELS


def configure_logs() -> None:
    """Set up structlog for this process; nothing else of it writes to stderr."""
    for_person = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if for_person else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            LOG_LEVELS.filter,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
