"""The warehouse loader, killed at every turn: each record is once a row or once a dead letter.

A run takes one format of tables, or as many as CRASH_ROUNDS says.
"""

import random
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import ROUNDS, Tell
from tests.spark.crash.cluster import KillableCluster
from tests.spark.crash.conftest import JobMaker
from tests.spark.crash.faults import Fault, Moment, Trial, shuffled
from tests.spark.crash.job_process import running_job
from tests.spark.crash.judge import violations
from tests.spark.crash.keyed_input import KeyedInput, number_of, send
from tests.spark.crash.warehouse_tables import KINDS, WarehouseTables

RECORDS: Final = 4_000
BATCH_OFFSETS: Final = 600
SCHEMA: Final = "event_id string, number bigint, amount bigint"
FAULTS: Final = {
    "delta": [
        (Fault.DRIVER, Moment.WRITTEN),  # rows are committed, but Spark does not know
        (Fault.POSTGRES, Moment.WITHIN),
        (Fault.BROKER, Moment.PLANNED),
    ],
    "iceberg": [
        (Fault.BROKER, Moment.WITHIN),
        (Fault.POSTGRES, Moment.PLANNED),
        (Fault.DRIVER, Moment.WRITTEN),
    ],
    "parquet": [
        (Fault.POSTGRES, Moment.WITHIN),
        (Fault.JVM, Moment.WITHIN),
        (Fault.BROKER, Moment.PLANNED),
    ],
}


@pytest.mark.parametrize("turn", range(min(ROUNDS, len(FAULTS))))
def test_every_record_is_a_row_or_a_dead_letter_once(
    killable: KillableCluster,
    make_job: JobMaker,
    dice: random.Random,
    seed: int,
    turn: int,
    tmp_path: Path,
    tell: Tell,
) -> None:
    # Given a topic of which some records do not fit, and some were aborted
    table_format = shuffled(FAULTS, seed)[turn]
    topic = f"to-{table_format}"
    given = send(killable.confluent, topic, RECORDS, partitions=3)
    output, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    tables = KINDS[table_format](output=output)
    job = make_job(
        "spark.jobs.warehouse",
        *("--topic", topic, "--bootstrap", killable.bootstrap, "--format", table_format),
        *("--output", str(output), "--checkpoint", str(checkpoint), "--schema", SCHEMA),
        *("--unknown-fields", "reject", "--read-option", f"maxOffsetsPerTrigger={BATCH_OFFSETS}"),
    )
    trial = Trial(
        job=job, cluster=killable, checkpoint=checkpoint, dice=dice, written=tables.batches
    )

    # When the driver, the broker and Postgres are killed while it works
    with running_job(job):
        trial.suffer(FAULTS[table_format])
        trial.finish()
    tell(f"seed={seed} {table_format}: {'; '.join(trial.told)}")

    # Then the files of the table have what plain Python expects
    check_tables(tables, given)


def check_tables(tables: WarehouseTables, given: KeyedInput) -> None:
    """Compare rows and dead letters with what was sent."""
    fit = [sent for sent in given.visible if not sent.is_drifted]
    wrong = violations(
        ((sent.partition, sent.offset, sent.number) for sent in fit),
        tables.rows(),
        lambda row: row[2] in given.invisible,
    )
    wrong += violations(
        ((sent.partition, sent.offset, sent.value) for sent in given.visible if sent.is_drifted),
        tables.letters(),
        lambda letter: number_of(letter[2]) in given.invisible,
    )
    assert not wrong, "; ".join(wrong)
