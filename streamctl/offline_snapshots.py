"""What `streamctl snapshot` does in Postgres; no broker and no object store is asked."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from rich.markup import escape

from storage.config import YEAR_MS
from storage.snapshots import (
    InvalidSnapshotId,
    Snapshot,
    SnapshotExists,
    SnapshotPartition,
    Snapshots,
    SnapshotTopicsMissing,
    UnknownSnapshot,
)
from streamctl.errors import Failure, UsageError
from streamctl.offline_stores import POOL, as_failures, open_postgres
from streamctl.output import UNKNOWN, Json, counted, note, print_done, print_json, results, table
from streamctl.units import INFINITE

LONGEST_KEPT_MS: Final = 1000 * YEAR_MS
"""Neither Postgres nor Python has dates for all durations of Kafka's 64 bits."""

T = TypeVar("T")


def run_create(
    postgres: str | None,
    data: Path | None,
    snapshot_id: str,
    topics: Sequence[str] | None,
    *,
    all_topics: bool,
    kept_ms: int,
    as_json: bool,
) -> None:
    """Make a snapshot, and show it.

    Raises:
        UsageError, Failure: it cannot be made.
    """
    if bool(topics) == all_topics:
        raise UsageError(
            "it is not said which topics are in it" if not topics else "--all-topics has them all",
            fix="give either --topic NAME, as often as needed, or --all-topics",
        )
    if kept_ms > LONGEST_KEPT_MS:
        raise UsageError(
            "a snapshot is kept for at most 1,000 years", fix="say --retention infinite"
        )
    retention_ms = None if kept_ms == INFINITE else kept_ms

    async def create(snapshots: Snapshots) -> Snapshot:
        return await snapshots.create(snapshot_id, topics or None, retention_ms=retention_ms)

    made = _in_database(postgres, data, create)
    if as_json:
        print_json(_as_json(made))
        return
    of = f"{counted(made.partition_count, 'partition')} of {counted(len(made.topics), 'topic')}"
    print_done(f"snapshot {made.snapshot_id} made: {of} at {_moment(made.created_at)}")


def run_list(postgres: str | None, data: Path | None, *, as_json: bool) -> None:
    """Show all that can be read."""

    async def find(snapshots: Snapshots) -> list[Snapshot]:
        return await snapshots.find_all()

    found = _in_database(postgres, data, find)
    if as_json:
        print_json([_as_json(one) for one in found])
        return
    listing = table("ID", "MADE", "EXPIRES", "PARTITIONS", "TOPICS", numbers=("PARTITIONS",))
    for one in found:
        listing.add_row(
            *(one.snapshot_id, _moment(one.created_at)),
            _moment(one.expires_at) if one.expires_at else UNKNOWN,
            *(f"{one.partition_count:,}", escape(", ".join(one.topics))),
        )
    results().print(listing)


def run_describe(
    postgres: str | None, data: Path | None, snapshot_id: str, *, as_json: bool
) -> None:
    """Show the partitions of one, and what has become of them."""

    async def find(snapshots: Snapshots) -> tuple[Snapshot, list[SnapshotPartition]]:
        return await snapshots.describe(snapshot_id), await snapshots.partitions(snapshot_id)

    snapshot, partitions = _in_database(postgres, data, find)
    if as_json:
        print_json(
            {**_as_json(snapshot), "partitions": [_partition_as_json(p) for p in partitions]}
        )
        return
    numbers = ("PARTITION", "FROM", "TO", "LOST")
    listing = table("TOPIC", *numbers, "COMPACTED", numbers=numbers)
    for one in partitions:
        deleted = " (deleted)" if one.first_offset is None else ""
        listing.add_row(
            *(escape(one.topic + deleted), str(one.partition), str(one.log_start_offset)),
            *(str(one.high_watermark), f"{one.lost:,}", "yes" if one.compacted else "no"),
        )
    results().print(listing)
    ends = f"expires {_moment(snapshot.expires_at)}" if snapshot.expires_at else "never expires"
    note(f"made {_moment(snapshot.created_at)}, {ends}; TO is the first offset that is not in it")


def run_delete(postgres: str | None, data: Path | None, snapshot_id: str) -> None:
    """Forget one."""

    async def delete(snapshots: Snapshots) -> None:
        await snapshots.delete(snapshot_id)

    _in_database(postgres, data, delete)
    print_done(f"snapshot {snapshot_id} deleted")


def _in_database(
    postgres: str | None, data: Path | None, work: Callable[[Snapshots], Awaitable[T]]
) -> T:
    async def run() -> T:
        async with open_postgres(postgres, data) as dsn, Snapshots.open(dsn, POOL) as snapshots:
            return await work(snapshots)

    try:
        with as_failures():
            return asyncio.run(run())
    except SnapshotExists as error:
        raise Failure(
            f"there is a snapshot {error} already",
            fix=f"name another, or: streamctl snapshot delete {error}",
        ) from error
    except UnknownSnapshot as error:
        raise Failure(
            f"there is no snapshot {error}, or it has expired", fix="see: streamctl snapshot list"
        ) from error
    except SnapshotTopicsMissing as error:
        raise Failure(f"there is no topic {error}", fix="see: streamctl topic list") from error
    except InvalidSnapshotId as error:
        raise UsageError(f"no id of a snapshot: {error}") from error


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _as_json(one: Snapshot) -> dict[str, Json]:
    return {
        "id": one.snapshot_id,
        "created_at": one.created_at.isoformat(),
        "expires_at": one.expires_at.isoformat() if one.expires_at else None,
        "topics": list(one.topics),
        "partition_count": one.partition_count,
    }


def _partition_as_json(one: SnapshotPartition) -> Json:
    return {
        "topic": one.topic,
        "topic_id": str(one.topic_id),
        "partition": one.partition,
        "log_start_offset": one.log_start_offset,
        "high_watermark": one.high_watermark,
        "deleted": one.first_offset is None,
        "lost": one.lost,
        "compacted": one.compacted,
    }
