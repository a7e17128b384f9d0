"""Columns of format("streamhouse"), which are those of format("kafka")."""

from typing import Final

COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint,"
    " timestamp timestamp, timestampType int"
)
HEADERS: Final = "headers array<struct<key: string, value: binary>>"
"""Behind the others, with includeHeaders."""
