"""Measure the builder: bytes of the log that become segments, per CPU second and per second.

python -m bench.builder; a directory as object store and an embedded Postgres, in a temporary
folder. CPU time is that of this process with all its threads, so without Postgres.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final
from uuid import uuid4

import structlog
import typer
from rich.console import Console

from bench.results import Figures, Row, show
from protocol.compression import Codec
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.config import KiB, MiB, PostgresConfig, UpkeepConfig
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import BatchCommit, MetadataStore
from storage.objects.objects_directory import DirectoryStore
from storage.objects.port import ObjectStore
from storage.postgres.migrate import migrate
from storage.postgres.postgres_embedded import EmbeddedPostgres
from storage.upkeep.builder import Builder
from tests.support.policies import read_policy

PARTITIONS: Final = 8
ROW_BYTES: Final = MiB  # of one partition in one object
RECORD_BYTES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the log has, and what the topic asks for.

    Attributes:
        batch_bytes: about, before compression.
        codec: of the producer.
        wanted: of the topic; None keeps what the producer chose.
    """

    batch_bytes: int
    codec: Codec = Codec.NONE
    wanted: Codec | None = None

    @property
    def name(self) -> str:
        wanted = "as it is" if self.wanted is None else f"to {self.wanted.name.lower()}"
        return f"{self.codec.name.lower()} {wanted}, batches of {self.batch_bytes // KiB} KiB"


CASES: Final = (
    Case(batch_bytes=1 * KiB),
    Case(batch_bytes=16 * KiB),
    Case(batch_bytes=512 * KiB),
    Case(batch_bytes=16 * KiB, wanted=Codec.LZ4),
    Case(batch_bytes=16 * KiB, wanted=Codec.ZSTD),
    Case(batch_bytes=16 * KiB, codec=Codec.LZ4, wanted=Codec.ZSTD),
)


def make_batch(case: Case, seed: int) -> bytes:
    """Return a batch of JSON records, which compress like events do: about four to one."""
    chance = random.Random(seed)  # noqa: S311 (the same data at each run)
    records = [
        Record(offset_delta=delta, key=b"%08d" % chance.randrange(10**6), value=_event(chance))
        for delta in range(max(case.batch_bytes // RECORD_BYTES, 1))
    ]
    return build_batch(records, attributes=case.codec)


def _event(chance: random.Random) -> bytes:
    event = {
        "event_id": f"{chance.getrandbits(64):016x}",
        "user_id": chance.randrange(10**6),
        "event_type": chance.choice(("page_view", "click", "purchase", "sign_up")),
        "page": f"/products/{chance.randrange(5000)}/reviews",
        "referrer": "https://www.example.com/search?q=streaming",
        "user_agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    }
    return json.dumps(event).encode().ljust(RECORD_BYTES - 20)


async def write_log(
    metadata: MetadataStore, objects: ObjectStore, case: Case, total_bytes: int
) -> tuple[list[Partition], int]:
    """Write objects as brokers do, each with some of every partition.

    Returns:
        the partitions, and bytes written.
    """
    topic = await metadata.create_topic(
        f"bench-{uuid4().hex[:8]}", partition_count=PARTITIONS, replication_factor=1, configs={}
    )
    partitions = [Partition(topic.topic_id, index) for index in range(PARTITIONS)]
    batches = [make_batch(case, seed) for seed in range(16)]
    counts = [max(case.batch_bytes // RECORD_BYTES, 1)] * len(batches)
    run = list(_cycle(batches, counts))
    run_bytes = sum(len(batch) for batch, _ in run)
    written = 0
    while written < total_bytes:
        commits: list[BatchCommit] = []
        start = 0
        for partition in partitions:
            for batch, count in run:
                commits.append(
                    BatchCommit(
                        partition=partition,
                        start=start,
                        length=len(batch),
                        record_count=count,
                        max_timestamp_ms=0,
                    )
                )
                start += len(batch)
        path = f"wal/00/{uuid4()}"
        await metadata.reserve_objects([path])
        await objects.put(path, [batch for batch, _ in run] * PARTITIONS)
        await metadata.commit_object(path, start, commits)
        written += run_bytes * PARTITIONS
    return partitions, written


def _cycle(batches: Sequence[bytes], counts: Sequence[int]) -> Iterator[tuple[bytes, int]]:
    """Yield batches, one after the other and again, until there is enough for a row."""
    size = 0
    while True:
        for batch, count in zip(batches, counts, strict=True):
            yield batch, count
            size += len(batch)
            if size >= ROW_BYTES:
                return


async def measure(
    metadata: MetadataStore, objects: ObjectStore, case: Case, total_bytes: int
) -> Figures:
    """Write a log, and build all of it."""
    partitions, written = await write_log(metadata, objects, case, total_bytes)
    policy = replace(
        read_policy("bench", PARTITIONS),
        segment_bytes=1024 * MiB,
        segment_ms=0,
        codec=case.wanted,
        compression_level=None,
    )
    builder = Builder(
        metadata=metadata,
        objects=objects,
        config=UpkeepConfig(),
        policy_of=lambda _: policy,
        clock=time.monotonic,
    )
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    for partition in partitions:
        while await builder.build(partition) is not None:
            pass
    took_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    return {
        "read_mb": written / 1e6,
        "written_mb": builder.counts.size / 1e6,
        "segments": builder.counts.segments,
        "mb_per_cpu_s": written / 1e6 / cpu_s,
        "mb_per_s": written / 1e6 / took_s,
    }


async def measure_all(total_bytes: int, progress: Console) -> list[Row]:
    """Measure each case on a topic of its own."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="streamhouse-bench-") as home:
        async with EmbeddedPostgres(Path(home) / "postgres") as postgres:
            await migrate(postgres.dsn, PostgresConfig())
            metadata = await PostgresMetadata.open(postgres.dsn)
            objects = await DirectoryStore.open(Path(home) / "objects")
            try:
                for case in CASES:
                    progress.print(f"builder: {case.name}")
                    figures = await measure(metadata, objects, case, total_bytes)
                    rows.append(Row(part="builder", case=case.name, figures=figures))
            finally:
                await objects.close()
                await metadata.close()
    return rows


def main(
    *,
    mebibytes: Annotated[int, typer.Option(help="Of the log, in each case.", min=1)] = 512,
    quick: Annotated[bool, typer.Option("--quick", help="64 MiB in each case.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Measure the builder on this machine."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    mebibytes = 64 if quick else mebibytes
    rows = asyncio.run(measure_all(mebibytes * MiB, Console(stderr=True)))
    settings = {"mebibytes": mebibytes, "partitions": PARTITIONS, "row_bytes": ROW_BYTES}
    show(rows, settings, as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
