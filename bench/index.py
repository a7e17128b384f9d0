"""Measure lookups in an index of millions of segments: python -m bench.index --rows 5000000.

It starts a Postgres of its own, fills the index as commits would have done, and goes through the
metadata port. The rows of a partition therefore lie far apart in the table.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from random import Random
from typing import Annotated, Final

import asyncpg
import structlog
import typer
from rich.console import Console

from bench.results import Figures, Row, percentile, show
from protocol.ids import Partition
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import SegmentLookup
from storage.metadata.segments import RetentionRequest
from storage.postgres.postgres_connection import Connection
from tests.support.postgres import create_database

PART: Final = "index"
RECORDS: Final = 10  # of a row
ROW_BYTES: Final = 1_000_000
INTERVAL_MS: Final = 1_000  # between a partition's rows
ROUNDS_PER_FILL: Final = 500
PAGE: Final = 1_000
COUNTED_ROWS: Final = 256
BUILT_SHARE: Final = 0.9
FILL_OBJECTS: Final = """
    INSERT INTO streamhouse_internal.objects (path, state, size)
    SELECT 'wal/' || n, 'live', 1 FROM generate_series($1::bigint, $2::bigint) AS n
"""
FILL_SEGMENTS: Final = """
    INSERT INTO streamhouse_internal.segments (
        topic_id, partition, start_offset, end_offset, object_id, byte_start, byte_length,
        max_timestamp_ms
    )
    SELECT
        p.topic_id, p.partition, n * $3::bigint, n * $3 + $3 - 1,
        (SELECT o.object_id FROM streamhouse_internal.objects AS o WHERE o.path = 'wal/' || n),
        0, $4::bigint, n * $5::bigint
    FROM generate_series($1::bigint, $2::bigint) AS n, streamhouse_internal.partitions AS p
    ORDER BY n
"""
FINISH: Final = """
    UPDATE streamhouse_internal.partitions SET high_watermark = $1, built_offset = $2
"""
SIZE: Final = "SELECT pg_total_relation_size('streamhouse_internal.segments') / 1e6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much there is, and how often it is asked.

    Attributes:
        rows: of the index.
        partitions: over which they are spread.
        rounds: of each kind of question.
        pages: of each kind of page, of 1,000 partitions.
    """

    rows: int
    partitions: int
    rounds: int
    pages: int

    @property
    def rows_each(self) -> int:
        """Rows of a partition."""
        return self.rows // self.partitions


class Index:
    """A filled index, and its questions; each method asks one."""

    def __init__(self, store: PostgresMetadata, partitions: list[Partition], plan: Plan) -> None:
        self._store = store
        self._partitions = partitions
        self._plan = plan
        self._random = Random(1)  # noqa: S311

    async def ask_nothing(self) -> None:
        """Ask what takes no time: what is measured with it is of machine and connection."""
        await self._store.cluster_id()

    async def find_one(self) -> None:
        """Look up where a reader goes on."""
        await self._find_segments(1)

    async def find_many(self) -> None:
        """Look up the next 50 rows of a reader."""
        await self._find_segments(50)

    async def _find_segments(self, count: int) -> None:
        offset = self._random.randrange(self._plan.rows_each) * RECORDS
        lookup = SegmentLookup(
            partition=self._random.choice(self._partitions),
            offset=offset,
            max_bytes=count * ROW_BYTES,
        )
        ((first, *_),) = await self._store.find_segments([lookup])
        assert first.start_offset <= offset <= first.end_offset

    async def find_timestamp(self) -> None:
        """Look up a moment."""
        timestamp_ms = self._random.randrange(self._plan.rows_each) * INTERVAL_MS
        partition = self._random.choice(self._partitions)
        found = await self._store.find_timestamp(partition, timestamp_ms)
        assert found is not None
        assert found.max_timestamp_ms == timestamp_ms

    async def find_max_timestamp(self) -> None:
        """Look up the latest record of a partition."""
        assert await self._store.find_max_timestamp(self._random.choice(self._partitions))

    async def unbuilt_page(self) -> None:
        """Look at a page of partitions for what is to be built."""
        first = self._random.randrange(max(len(self._partitions) - PAGE, 0) + 1)
        after = self._partitions[first - 1] if first else None
        ranges, _ = await self._store.unbuilt_ranges(after, PAGE, COUNTED_ROWS)
        assert len(ranges) == min(PAGE, len(self._partitions))

    async def retention_page(self) -> None:
        """Look at a page of partitions for what has had its time."""
        chosen = self._random.sample(self._partitions, min(PAGE, len(self._partitions)))
        requests = [
            RetentionRequest(partition=each, before_ms=0, keep_bytes=None) for each in chosen
        ]
        assert await self._store.expire_records(requests) == {}

    async def purge_nothing(self) -> None:
        """Look for rows before log starts."""
        assert await self._store.purge(PAGE) == 0

    async def purge_a_row(self) -> None:
        """Remove one row, of a partition somewhere."""
        partition = self._random.choice(self._partitions)
        offsets = (await self._store.partition_offsets([partition]))[partition]
        await self._store.delete_records({partition: offsets.log_start_offset + RECORDS})
        assert await self._store.purge(PAGE) == 1


async def fill(dsn: str, plan: Plan) -> float:
    """Make the index; return its megabytes."""
    connection: Connection = await asyncpg.connect(dsn)
    for first in range(0, plan.rows_each, ROUNDS_PER_FILL):
        last = min(first + ROUNDS_PER_FILL, plan.rows_each) - 1
        await connection.execute(FILL_OBJECTS, first, last)
        await connection.execute(FILL_SEGMENTS, first, last, RECORDS, ROW_BYTES, INTERVAL_MS)
    built = round(plan.rows_each * BUILT_SHARE) * RECORDS
    await connection.execute(FINISH, plan.rows_each * RECORDS, built)
    await connection.execute("VACUUM ANALYZE")
    size = await connection.fetchval(SIZE)
    await connection.close()
    return float(size)


async def measure(question: Callable[[], Awaitable[None]], rounds: int) -> Figures:
    """Ask again and again; the first answers, for which plans are made, are not counted."""
    for _ in range(3):
        await question()
    took_s = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        await question()
        took_s.append(time.perf_counter() - began_s)
    return {
        "rounds": rounds,
        "p50_ms": percentile(took_s, 0.5) * 1000,
        "p99_ms": percentile(took_s, 0.99) * 1000,
    }


async def run(plan: Plan, progress: Console) -> list[Row]:
    """Fill an index and ask everything."""
    dsn = await create_database()
    store = await PostgresMetadata.open(dsn)
    topic = await store.create_topic(
        "measured", partition_count=plan.partitions, replication_factor=1, configs={}
    )
    began_s = time.monotonic()
    megabytes = await fill(dsn, plan)
    filled = {
        "rows": plan.rows_each * plan.partitions,
        "table_mb": megabytes,
        "fill_s": time.monotonic() - began_s,
    }
    progress.print(f"filled in {filled['fill_s']:.0f} s: {megabytes:,.0f} MB")
    rows = [Row(part="table", case=f"{plan.partitions} partitions", figures=filled)]
    partitions = [Partition(topic.topic_id, index) for index in range(plan.partitions)]
    index = Index(store, partitions, plan)
    page = f"of {min(PAGE, plan.partitions):,} partitions"
    for case, question, rounds in (
        ("nothing, to compare", index.ask_nothing, plan.rounds),
        ("find_segments, 1 row", index.find_one, plan.rounds),
        ("find_segments, 50 rows", index.find_many, plan.rounds),
        ("find_timestamp", index.find_timestamp, plan.rounds),
        ("find_max_timestamp", index.find_max_timestamp, plan.rounds),
        (f"unbuilt_ranges {page}", index.unbuilt_page, plan.pages),
        (f"expire_records {page}", index.retention_page, plan.pages),
        ("purge, nothing to do", index.purge_nothing, plan.rounds),
        ("delete_records and purge of a row", index.purge_a_row, plan.pages),
    ):
        progress.print(case)
        rows.append(Row(part=PART, case=case, figures=await measure(question, rounds)))
    await store.close()
    return rows


def main(
    *,
    rows: Annotated[int, typer.Option(help="Of the index.", min=1_000)] = 5_000_000,
    partitions: Annotated[int, typer.Option(help="That have them.", min=1)] = 1_000,
    rounds: Annotated[int, typer.Option(help="Of each lookup.", min=1)] = 2_000,
    pages: Annotated[int, typer.Option(help="Of each look at many.", min=1)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Measure lookups in a large index."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
    plan = Plan(rows=rows, partitions=partitions, rounds=rounds, pages=pages)
    measured = asyncio.run(run(plan, Console(stderr=True)))
    show(measured, asdict(plan), as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
