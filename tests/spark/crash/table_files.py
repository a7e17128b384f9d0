"""The files that make up a table, found in its own metadata by plain Python, without Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import fastavro
import pyarrow as pa
from pyarrow import parquet

from spark.sinks.iceberg_tables import BATCH

DELETED = 2  # Iceberg's status of an entry whose file is no more
DATA_FILE = 0
METADATA = "v*.metadata.json"


def rows_of(files: list[Path], *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of all rows of Parquet files."""
    rows: list[tuple[Any, ...]] = []
    for file in files:
        table = parquet.ParquetFile(file).read(columns=list(columns))
        found = (_values(table.column(column)) for column in columns)
        rows.extend(zip(*found, strict=True))
    return rows


def _values(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC"))
    values: list[Any] = column.to_pylist()
    return values


def delta_files(table: Path) -> list[Path]:
    """Return the files that a Delta table's log has added and not removed; it is read from 0."""
    live: set[str] = set()
    for file in sorted((table / "_delta_log").glob("*.json")):
        for line in file.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                assert action["add"].get("deletionVector") is None
                live.add(action["add"]["path"])
            if "remove" in action:
                live.discard(action["remove"]["path"])
    return [table / unquote(path) for path in sorted(live)]


def delta_batches(table: Path) -> int:
    """Return how many micro-batches of a query a Delta table has."""
    actions = (
        json.loads(line)
        for file in (table / "_delta_log").glob("*.json")
        for line in file.read_text().splitlines()
    )
    return max((one["txn"]["version"] + 1 for one in actions if "txn" in one), default=0)


def iceberg_files(table: Path) -> list[Path]:
    """Return the data files of an Iceberg table's current snapshot."""
    metadata = _iceberg_metadata(table)
    current = metadata.get("current-snapshot-id", -1)
    lists = [
        one["manifest-list"]
        for one in metadata.get("snapshots", ())
        if one["snapshot-id"] == current
    ]
    return [
        _path(entry["data_file"]["file_path"])
        for manifests in lists
        for manifest in _avro(_path(manifests))
        for entry in _avro(_path(manifest["manifest_path"]))
        if entry["status"] != DELETED
        if _is_data(entry["data_file"])
    ]


def iceberg_batches(table: Path) -> int:
    """Return how many micro-batches of a query an Iceberg table has."""
    if not list((table / "metadata").glob(METADATA)):
        return 0
    summaries = (one["summary"] for one in _iceberg_metadata(table).get("snapshots", ()))
    return max((int(one[BATCH]) + 1 for one in summaries if BATCH in one), default=0)


def _iceberg_metadata(table: Path) -> dict[str, Any]:
    """Return the newest metadata of a table of a Hadoop catalog."""
    versions = (table / "metadata").glob(METADATA)
    newest = max(versions, key=lambda file: int(file.name.removeprefix("v").partition(".")[0]))
    found: dict[str, Any] = json.loads(newest.read_text())
    return found


def _is_data(file: dict[str, Any]) -> bool:
    assert file.get("content", DATA_FILE) == DATA_FILE, "rows are deleted by position"
    return True


def _avro(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as content:
        yield from fastavro.reader(content)  # type: ignore[misc]


def _path(url: str) -> Path:
    return Path(unquote(urlparse(url).path))


def streamed_batches(table: Path) -> int:
    """Return how many micro-batches the log of Spark's own file sink has."""
    log = table / "_spark_metadata"
    names = [file.name.partition(".")[0] for file in log.iterdir()] if log.is_dir() else []
    return max((int(name) + 1 for name in names if name.isdecimal()), default=0)


def streamed_files(table: Path) -> list[Path]:
    """Return the files that the log of Spark's own file sink names; others are no part of it."""
    live: set[str] = set()
    for file in (table / "_spark_metadata").iterdir():
        if file.name.startswith("."):
            continue
        _version, *lines = file.read_text().splitlines()
        for line in lines:
            action = json.loads(line)
            if action["action"] == "add":
                live.add(action["path"])
    return [_path(url) for url in sorted(live)]


def batches_of(table: Path) -> list[int]:
    """Return the micro-batches that are whole, of a table with a directory for each."""
    return [int(done.parent.name.partition("=")[2]) for done in table.glob("batch=*/_SUCCESS")]


def batch_files(table: Path, batch: int | None = None) -> list[Path]:
    """Return the files of one of these micro-batches, or of all."""
    chosen = batches_of(table) if batch is None else [batch]
    return [file for one in chosen for file in (table / f"batch={one}").glob("part-*.parquet")]
