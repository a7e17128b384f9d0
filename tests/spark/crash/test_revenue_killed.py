"""ShopFlow's revenue, killed at every turn: no payment is counted twice, none is missed."""

import random
from pathlib import Path
from typing import Final

from spark.tables.late import DUPLICATE, LATE, UNREADABLE, Patience
from spark.tables.windows import Lengths
from tests.conftest import Tell
from tests.spark.crash.cluster import KillableCluster
from tests.spark.crash.conftest import JobMaker
from tests.spark.crash.faults import Fault, Moment, Trial
from tests.spark.crash.job_process import running_job
from tests.spark.crash.judge import violations
from tests.spark.crash.table_files import batch_files, batches_of, rows_of
from tests.spark.shopflow import order_events, produce
from tests.spark.shopflow_answers import Verdicts, running, verdicts, windows

EVENTS: Final = 1_500
PARTITIONS: Final = 3
OPEN: Final = "open_windows"
BATCH_OFFSETS: Final = 250
RUNNING: Final = ("partition", "offset", "revenue", "key_revenue")
ASIDE: Final = ("partition", "offset", "reason", "late_by_ms")
WINDOW: Final = ("kind", "key", "window_start", "window_end", "revenue", "payments")
FAULTS: Final = (
    (Fault.DRIVER, Moment.WRITTEN),  # its tables are written, but Spark does not know
    (Fault.BROKER, Moment.PLANNED),
    (Fault.POSTGRES, Moment.WITHIN),
    (Fault.DRIVER, Moment.WITHIN),
)
CI_FAULTS: Final = 3


def test_revenue_is_that_of_plain_python(
    killable: KillableCluster,
    make_job: JobMaker,
    dice: random.Random,
    rounds: int,
    seed: int,
    tmp_path: Path,
    tell: Tell,
) -> None:
    # Given order events of which some are late, twice, out of order or unreadable
    events = order_events(seed, EVENTS, partitions=PARTITIONS)
    killable.confluent.create_topic("order_events", partition_count=PARTITIONS)
    produce(killable.bootstrap, "order_events", events)
    output, checkpoint = tmp_path / "revenue", tmp_path / "checkpoint"
    job = make_job(
        "spark.jobs.revenue",
        *("--topic", "order_events", "--bootstrap", killable.bootstrap),
        *("--output", str(output), "--checkpoint", str(checkpoint)),
        *("--read-option", f"maxOffsetsPerTrigger={BATCH_OFFSETS}"),
    )
    trial = Trial(
        job=job,
        cluster=killable,
        checkpoint=checkpoint,
        dice=dice,
        written=lambda: max(batches_of(output / OPEN), default=-1) + 1,
    )

    # When the driver, the broker and Postgres are killed while it works
    with running_job(job):
        trial.suffer(FAULTS[: CI_FAULTS * rounds])
        trial.finish()
    tell(f"seed={seed} {'; '.join(trial.told)}")

    # Then running totals, windows and what is kept aside are those of plain Python
    found = verdicts(events, Patience())
    wrong = violations(
        ((*place, *totals) for place, totals in running(events, found).items()),
        rows_of(batch_files(output / "running"), *RUNNING),
    )
    wrong += violations(
        ((*window, *amounts) for window, amounts in windows(events, found, Lengths()).items()),
        rows_of(_windows_files(output), *WINDOW),
    )
    wrong += violations(_expected_aside(found), rows_of(batch_files(output / "aside"), *ASIDE))
    assert not wrong, f"seed {seed}: {'; '.join(wrong)}"


def _windows_files(output: Path) -> list[Path]:
    """Return the files of closed windows, and of those that were open in the end."""
    last = max(batches_of(output / OPEN))
    return [*batch_files(output / "windows"), *batch_files(output / OPEN, last)]


def _expected_aside(found: Verdicts) -> list[tuple[int, int, str, int | None]]:
    return [
        (*place, verdict, found.late_by_ms.get(place))
        for place, verdict in found.of.items()
        if verdict in {LATE, DUPLICATE, UNREADABLE}
    ]
