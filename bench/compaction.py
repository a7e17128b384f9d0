"""Measure log compaction: records per CPU-second, and the memory that it takes.

python -m bench.compaction --keys N --records M; everything is in a folder that goes afterwards: an
embedded Postgres, a directory as object store. The log is written and built by one process, and
compacted by another one, whose memory is what counts.
"""

import asyncio
import multiprocessing
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

import typer

from bench.results import MeasurementFailed, Row, show
from protocol.batch import HEADER_BYTES, read_header
from protocol.compression import Codec
from protocol.ids import Partition
from protocol.records import Record, build_batch, encode_records
from storage.config import MiB, PostgresConfig, UpkeepConfig
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.metadata.port import BatchCommit, MetadataStore
from storage.objects.objects_directory import DirectoryStore
from storage.objects.port import ObjectStore
from storage.postgres.postgres_embedded import EmbeddedPostgres
from storage.upkeep.builder import Builder
from storage.upkeep.compaction import Compactor
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.recompression import recompress
from tests.support.policies import read_policy

SCATTER: Final = 2_654_435_761  # a prime: neighbours in the log have keys that are far apart
OBJECT_BYTES: Final = 8 * MiB
TOPIC: Final = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is written, and with how much memory it is compacted."""

    keys: int
    records: int
    value_bytes: int
    batch_records: int
    codec: str
    key_map_mib: int
    segment_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one compaction took; memory is the largest resident size of its process so far."""

    rounds: int
    seconds: float
    cpu_seconds: float
    records_learned: int
    records_rewritten: int
    records_left: int
    size_before: int
    size_after: int
    start_rss: int
    peak_rss: int


def policy_of(plan: Plan) -> TopicPolicy:
    return replace(
        read_policy(TOPIC, configs={"cleanup.policy": "compact"}),
        segment_bytes=plan.segment_mib * MiB,
        segment_ms=1 << 40,
    )


def config_of(plan: Plan) -> UpkeepConfig:
    return UpkeepConfig(segment_bytes=plan.segment_mib * MiB, key_map_bytes=plan.key_map_mib * MiB)


@asynccontextmanager
async def stores(folder: Path) -> AsyncIterator[tuple[MetadataStore, ObjectStore]]:
    async with EmbeddedPostgres(folder / "postgres") as postgres:
        metadata = await PostgresMetadata.open(postgres.dsn, PostgresConfig(pool_size=2))
        objects = await DirectoryStore.open(folder / "objects")
        try:
            yield metadata, objects
        finally:
            await objects.close()
            await metadata.close()


def batches(plan: Plan) -> Iterator[bytes]:
    """Yield the log; all records have the same value, so only keys and numbers are put in."""
    codec = Codec[plan.codec.upper()]
    value = b"v" * plan.value_bytes
    key = b"user-%012d" % 0
    cut: list[tuple[bytes, bytes]] = []
    for number in range(plan.batch_records):
        one = encode_records([Record(offset_delta=number, key=key, value=value)])
        head, tail = one.split(key)
        cut.append((head, tail))
    for first in range(0, plan.records, plan.batch_records):
        count = min(plan.batch_records, plan.records - first)
        payload = b"".join(
            b"%suser-%012d%s" % (head, (first + at) * SCATTER % plan.keys, tail)
            for at, (head, tail) in enumerate(cut[:count])
        )
        empty = build_batch([Record(offset_delta=0)] * 0, last_offset_delta=count - 1)
        yield _filled(empty, payload, count, codec)


def _filled(empty: bytes, payload: bytes, count: int, codec: Codec) -> bytes:
    """Return a batch with this payload; recompression sets its length and checksum."""
    header = read_header(empty)
    plain = bytearray(empty[:HEADER_BYTES] + payload)
    plain[8:12] = (header.batch_length + len(payload)).to_bytes(4, "big")
    plain[35:43] = (0).to_bytes(8, "big")
    plain[57:61] = count.to_bytes(4, "big")
    packed = recompress(memoryview(plain), Codec.ZSTD if codec is Codec.NONE else codec, None)
    if codec is not Codec.NONE:
        return bytes(packed)
    return bytes(recompress(memoryview(packed), Codec.NONE, None))


async def _write(plan: Plan, metadata: MetadataStore, objects: ObjectStore, topic: UUID) -> None:
    partition = Partition(topic, 0)
    gathered: list[bytes] = []
    number = 0

    async def flush() -> None:
        path = f"wal/{number:08d}"
        commits, start = [], 0
        for batch in gathered:
            commits.append(
                BatchCommit(
                    partition=partition,
                    start=start,
                    length=len(batch),
                    record_count=read_header(batch).record_count,
                    max_timestamp_ms=0,
                )
            )
            start += len(batch)
        await metadata.reserve_objects([path])
        await objects.put(path, gathered)
        await metadata.commit_object(path, start, commits)

    for batch in batches(plan):
        gathered.append(batch)
        if sum(map(len, gathered)) >= OBJECT_BYTES:
            await flush()
            gathered.clear()
            number += 1
    if gathered:
        await flush()


async def _fill(folder: Path, plan: Plan) -> None:
    async with stores(folder) as (metadata, objects):
        topic = await metadata.create_topic(
            TOPIC, partition_count=1, replication_factor=1, configs={}
        )
        await _write(plan, metadata, objects, topic.topic_id)
        builder = Builder(
            metadata=metadata,
            objects=objects,
            config=config_of(plan),
            policy_of=lambda _: policy_of(plan),
            clock=time.monotonic,
        )
        while await builder.build(Partition(topic.topic_id, 0)):
            pass


async def _compact(folder: Path, plan: Plan) -> Measured:
    async with stores(folder) as (metadata, objects):
        (topic,) = (await metadata.topic_changes(0)).changed
        partition = Partition(topic.topic_id, 0)
        compactor = Compactor(
            metadata=metadata,
            objects=objects,
            config=config_of(plan),
            policy_of=lambda _: policy_of(plan),
            clock=time.monotonic,
        )
        (before,) = await metadata.cleanable_ranges([partition])
        start_rss, began_s, began_cpu_s = _peak_rss(), time.monotonic(), time.process_time()
        rounds = await compactor.compact(partition)
        seconds, cpu_seconds = time.monotonic() - began_s, time.process_time() - began_cpu_s
        (after,) = await metadata.cleanable_ranges([partition])
        if after.compacted_offset != plan.records:
            raise MeasurementFailed(f"compacted up to {after.compacted_offset} only")
        return Measured(
            rounds=rounds,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            records_learned=compactor.counts.records_learned,
            records_rewritten=compactor.counts.records_read,
            records_left=min(plan.keys, plan.records),
            size_before=before.clean_size + before.dirty_size,
            size_after=after.clean_size + after.dirty_size,
            start_rss=start_rss,
            peak_rss=_peak_rss(),
        )


def _peak_rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fill(folder: Path, plan: Plan) -> None:
    asyncio.run(_fill(folder, plan))


def compact(folder: Path, plan: Plan) -> Measured:
    return asyncio.run(_compact(folder, plan))


def measure(plan: Plan) -> Measured:
    """Do it in a new folder, each step in a new process."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="compaction-") as name:
        folder = Path(name)
        with ProcessPoolExecutor(max_workers=1, mp_context=context) as filler:
            filler.submit(fill, folder, plan).result()
        with ProcessPoolExecutor(max_workers=1, mp_context=context) as compactor:
            return compactor.submit(compact, folder, plan).result()


def main(
    *,
    keys: Annotated[int, typer.Option(help="Different ones.", min=1)] = 1_000_000,
    records: Annotated[int, typer.Option(help="In all.", min=1)] = 2_000_000,
    value_bytes: Annotated[int, typer.Option(min=0)] = 100,
    batch_records: Annotated[int, typer.Option(min=1)] = 500,
    codec: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    key_map_mib: Annotated[int, typer.Option(help="upkeep.key_map_bytes", min=1)] = 48,
    segment_mib: Annotated[int, typer.Option(help="upkeep.segment_bytes", min=1)] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
) -> None:
    """Measure log compaction of one partition of which everything is dirty."""
    plan = Plan(
        keys=keys,
        records=records,
        value_bytes=value_bytes,
        batch_records=batch_records,
        codec=codec,
        key_map_mib=key_map_mib,
        segment_mib=segment_mib,
    )
    measured = measure(plan)
    looked_at = measured.records_learned + measured.records_rewritten
    row = Row(
        part="log compaction",
        case=f"{records:,} records, {keys:,} keys",
        figures={
            "rounds": measured.rounds,
            "seconds": measured.seconds,
            "records_per_s": looked_at / measured.seconds,
            "records_per_cpu_s": looked_at / measured.cpu_seconds,
            "left": measured.records_left,
            "mb_before": measured.size_before / 1e6,
            "mb_after": measured.size_after / 1e6,
            "start_mib": measured.start_rss / MiB,
            "peak_mib": measured.peak_rss / MiB,
        },
    )
    show([row], {**asdict(plan), **asdict(measured)}, as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
