"""From topic to topic through the direct sink, killed at every turn: each record once, in order.

`copy` takes no broker's help, so their deaths must not even be noticed; `repartition` reads through
them. Both write without, and a stock consumer has the last word. A run takes one of them, or as
many as CRASH_ROUNDS says.
"""

import random
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import ROUNDS, Tell
from tests.spark.crash.cluster import KillableCluster
from tests.spark.crash.conftest import JobMaker
from tests.spark.crash.faults import Fault, Moment, Trial, shuffled
from tests.spark.crash.job_process import JobProcess, running_job
from tests.spark.crash.keyed_input import send
from tests.spark.crash.topic_checks import check_copy

RECORDS: Final = 3_000
BATCH_RECORDS: Final = 450
MORE_PARTITIONS: Final = 5
FAULTS: Final = {
    "copy": [
        (Fault.DRIVER, Moment.WRITTEN),  # committed to the log, but Spark does not know
        (Fault.POSTGRES, Moment.WITHIN),
        (Fault.BROKER, Moment.WITHIN),  # last: the job may end before a broker has started again
    ],
    "repartition": [
        (Fault.POSTGRES, Moment.WITHIN),
        (Fault.BROKER, Moment.PLANNED),
        (Fault.JVM, Moment.WRITTEN),
    ],
}


@pytest.mark.parametrize("turn", range(min(ROUNDS, len(FAULTS))))
def test_a_topic_written_without_brokers_has_each_record_once(
    killable: KillableCluster,
    make_job: JobMaker,
    dice: random.Random,
    seed: int,
    turn: int,
    tmp_path: Path,
    tell: Tell,
) -> None:
    # Given a topic with committed and aborted transactions
    kind = shuffled(FAULTS, seed)[turn]
    source, target, checkpoint = f"{kind}-source", f"{kind}-target", tmp_path / "checkpoint"
    given = send(killable.confluent, source, RECORDS, partitions=3)
    before = killable.sink_batches()
    job = make_copy if kind == "copy" else make_repartition
    trial = Trial(
        job=job(killable, make_job, source, target, checkpoint),
        cluster=killable,
        checkpoint=checkpoint,
        dice=dice,
        written=lambda: killable.sink_batches() - before,
    )

    # When the driver, the broker and Postgres are killed while it goes into one of more partitions
    with running_job(trial.job):
        trial.suffer(FAULTS[kind])
        trial.finish()
    tell(f"seed={seed} {kind}: {'; '.join(trial.told)}")

    # Then a stock consumer finds every visible record, once, in the order of its key
    check_copy(killable.confluent, target, given)
    assert len(killable.confluent.partitions(target)) == MORE_PARTITIONS


def make_copy(
    cluster: KillableCluster, make_job: JobMaker, source: str, target: str, checkpoint: Path
) -> JobProcess:
    cluster.confluent.create_topic(target, partition_count=MORE_PARTITIONS)
    words = (source, target, str(checkpoint), str(BATCH_RECORDS))
    return make_job("tests.spark.crash.copy_topic", *words)


def make_repartition(
    cluster: KillableCluster, make_job: JobMaker, source: str, target: str, checkpoint: Path
) -> JobProcess:
    return make_job(
        "spark.jobs.repartition",
        *("--topic", source, "--bootstrap", cluster.bootstrap, "--output", target),
        *("--partitions", str(MORE_PARTITIONS), "--checkpoint", str(checkpoint)),
        *("--read-option", f"maxOffsetsPerTrigger={BATCH_RECORDS}"),
    )
