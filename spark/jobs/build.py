"""Build segments of the whole log on Spark, as brokers do it in the background.

    python -m spark.jobs.build --data DIR [--topic NAME ...] [--all]

Without --all it does what brokers would do now: it takes the partitions that are due by the same
rules and the same leases, so the two may run side by side. With --all it also builds what is not
due, however little it is: before an archive is copied, or for the fastest reads. Segments are what
a broker would write of the same rows, byte for byte.

After a kill -9 of any process the log is right, and running the job again does the rest
(spark/upkeep/building.py). Each task takes the memory of one segment and of what it is made from.
"""

from typing import Annotated, Final

import typer

from spark.jobs.options import UpkeepOptions, run, upkeep
from spark.upkeep.building import build_partitions, plan_builds
from spark.upkeep.job import PartitionJob
from spark.upkeep.partition_work import PartitionOrder
from spark.upkeep.settings import (
    DEFAULTS,
    AsJson,
    SegmentAge,
    SegmentBytes,
    SegmentRows,
    StartedWith,
    Topics,
    upkeep_order,
)
from storage.config import UpkeepConfig

JOB: Final = PartitionJob(
    name="build segments",
    verb="build",
    plan=plan_builds,
    work=build_partitions,
    columns={"segments": "SEGMENTS", "rows": "OF ROWS", "size": "SIZE", "lost": "LOST"},
)


@upkeep
def build(
    options: UpkeepOptions,
    topic: Topics = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what is not due, however little it is.")
    ] = False,
    started_with: StartedWith = None,
    segment_bytes: SegmentBytes = DEFAULTS.segment_bytes,
    segment_rows: SegmentRows = DEFAULTS.segment_rows,
    segment_age_ms: SegmentAge = DEFAULTS.segment_age_ms,
    as_json: AsJson = False,
) -> None:
    """Build segments of the log on Spark: the work of brokers, with their leases."""
    config = UpkeepConfig(
        segment_bytes=segment_bytes, segment_rows=segment_rows, segment_age_ms=segment_age_ms
    )
    order = PartitionOrder(
        upkeep=upkeep_order(options, started_with, config),
        topics=topic or (),
        everything=everything,
    )
    JOB.run(options, order, as_json=as_json)


if __name__ == "__main__":
    run(build)
