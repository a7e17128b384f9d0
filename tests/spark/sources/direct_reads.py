"""Reads of format("streamhouse") as a driver and its executors do them, without a session."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from spark.sources import stores
from spark.sources.direct_batch import plan_batch
from spark.sources.split import Split
from spark.sources.split_reader import read_split
from tests.clients.records import ConsumedRecord

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def plan_read(options: Mapping[str, str]) -> list[Split]:
    return asyncio.run(plan_batch({"includeHeaders": "true", **options}))


def close_stores() -> None:
    """Close the stores of this process; a later read opens them anew."""
    found = stores._stores.pop(os.getpid(), None)
    if found is not None:
        found.close()


def read_rows(splits: Iterable[Split]) -> list[dict[str, Any]]:
    """Return the rows of all splits, in their order."""
    return [row for split in splits for batch in read_split(split) for row in batch.to_pylist()]


def read_records(options: Mapping[str, str]) -> list[ConsumedRecord]:
    """Return what a read gives, as stock consumers give it."""
    return [record_of(row) for row in read_rows(plan_read(options))]


def record_of(row: Mapping[str, Any]) -> ConsumedRecord:
    return ConsumedRecord(
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=(row["timestamp"] - EPOCH) // timedelta(milliseconds=1),
        key=row["key"],
        value=row["value"],
        headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
    )
