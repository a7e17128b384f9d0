"""Compact logs on Spark, as brokers do it in the background: of each key the latest record stays.

    python -m spark.jobs.compact --data DIR [--topic NAME ...] [--all]

Without --all it does what brokers would do now: partitions of topics with cleanup.policy=compact
that are dirty enough (min.cleanable.dirty.ratio), or have been dirty for too long. With --all it
takes each that has anything to clean. Compaction works on built segments: run the job `build` with
--all before for everything up to the last stable offset. What is kept and what goes is decided by
the same functions as in brokers; only the time at which a tombstone was first seen is this run's.

After a kill -9 of any process the log is right, and running the job again does the rest
(spark/upkeep/compacting.py).
"""

from typing import Annotated, Final

import typer

from spark.jobs.options import UpkeepOptions, run, upkeep
from spark.upkeep.compacting import compact_partitions, plan_compactions
from spark.upkeep.job import PartitionJob
from spark.upkeep.partition_work import PartitionOrder
from spark.upkeep.settings import (
    DEFAULTS,
    AsJson,
    KeyMapBytes,
    SegmentBytes,
    StartedWith,
    Topics,
    upkeep_order,
)
from storage.config import UpkeepConfig

JOB: Final = PartitionJob(
    name="compact logs",
    verb="compact",
    plan=plan_compactions,
    work=compact_partitions,
    columns={
        "records_read": "RECORDS",
        "records_kept": "KEPT",
        "segments": "SEGMENTS",
        "rows": "OF ROWS",
        "size": "SIZE",
        "lost": "LOST",
    },
)


@upkeep
def compact(
    options: UpkeepOptions,
    topic: Topics = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what is not due, however little is dirty.")
    ] = False,
    started_with: StartedWith = None,
    segment_bytes: SegmentBytes = DEFAULTS.segment_bytes,
    key_map_bytes: KeyMapBytes = DEFAULTS.key_map_bytes,
    as_json: AsJson = False,
) -> None:
    """Compact logs on Spark: the work of brokers, with their leases."""
    config = UpkeepConfig(segment_bytes=segment_bytes, key_map_bytes=key_map_bytes)
    order = PartitionOrder(
        upkeep=upkeep_order(options, started_with, config),
        topics=topic or (),
        everything=everything,
    )
    JOB.run(options, order, as_json=as_json)


if __name__ == "__main__":
    run(compact)
