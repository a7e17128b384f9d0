"""The revenue job on a real broker: killed at bad moments, resumed, and nothing counted twice."""

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertDataFrameEqual

from spark.jobs.durations import parse_duration
from spark.jobs.folding import Folding, Outcome
from spark.jobs.options import JobFailed, PipelineOptions, Source, WrongUsage
from spark.jobs.revenue import ROWS, RevenueFold, run_revenue
from spark.sinks.batch_tables import BatchTables
from spark.tables import revenue, windows
from spark.tables.late import Patience
from spark.tables.revenue import CARRIED_SCHEMAS, Carried, Rules
from spark.tables.windows import Lengths
from tests.clients.confluent import Confluent
from tests.spark import shopflow_answers as answers
from tests.spark.shopflow import Event, order_events, produce, trace
from tests.spark.warehouse_runs import make_again

FOLD: Final = RevenueFold(
    decisions=Rules(
        patience=Patience(delay=timedelta(minutes=5)), lengths=Lengths(gap=timedelta(minutes=3))
    )
)


class DriverDied(Exception):
    """Stands for a kill -9 at that line: what is written stays, what is not is not."""


def options_of(topic: str, bootstrap: str, place: Path, **reader: str) -> PipelineOptions:
    return PipelineOptions(
        bootstrap=bootstrap,
        topics=(topic,),
        output=str(place / "revenue"),
        checkpoint=str(place / "checkpoint"),
        report=place / "report",
        reader=reader,
    )


def tables_of(session: SparkSession, options: PipelineOptions) -> BatchTables:
    return BatchTables(session=session, path=options.output)


def forget_that_a_batch_is_done(options: PipelineOptions, batch: int) -> None:
    """Leave the checkpoint as a driver does that dies before it notes its last batch."""
    commits = Path(options.checkpoint) / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink()


def test_the_seeds_total_goes_on_after_a_crash_and_counts_nothing_twice(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given the seed's first three payments, added up
    confluent.create_topic(topic, partition_count=1)
    produce(confluent.bootstrap, topic, trace()[:3])
    options = options_of(topic, confluent.bootstrap, tmp_path)
    run_revenue(session, options, FOLD)
    tables = tables_of(session, options)
    assert totals(tables) == [10, 35, 40]
    shutil.copytree(options.checkpoint, tmp_path / "older")

    # When the driver dies before it has noted that, and the fourth is there when it resumes
    forget_that_a_batch_is_done(options, 0)
    produce(confluent.bootstrap, topic, trace()[3:])
    run_revenue(session, options, FOLD)

    # Then the total goes on, and no payment is in it twice
    assert totals(tables) == [10, 35, 40, 100]

    # And a run without news changes nothing
    run_revenue(session, options, FOLD)
    assert totals(tables) == [10, 35, 40, 100]

    # And one with the checkpoint as it was does not begin a batch anew that is in the output
    older = replace(options, checkpoint=str(tmp_path / "older"))
    with pytest.raises(JobFailed, match=r"put back from an older copy: .* has batch 1 of it"):
        run_revenue(session, older, FOLD)


def totals(tables: BatchTables) -> list[int]:
    rows = tables.table("running", ROWS["running"]).orderBy("offset").collect()
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    return [int(row["revenue"]) for row in rows]


def test_a_run_that_died_between_two_tables_ends_with_what_plain_python_finds(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given events that come late, twice and out of order, in three partitions
    events = order_events(7, 240)
    confluent.create_topic(topic, partition_count=3)
    produce(confluent.bootstrap, topic, events)
    options = options_of(topic, confluent.bootstrap, tmp_path, maxOffsetsPerTrigger="90")

    # When the driver dies in its second batch, with half of its tables written
    whole = BatchTables.write

    def dying(tables: BatchTables, name: str, rows: DataFrame, batch: int) -> None:
        if (name, batch) == ("aside", 1):
            raise DriverDied
        whole(tables, name, rows, batch)

    with monkeypatch.context() as patched:
        patched.setattr(BatchTables, "write", dying)
        with pytest.raises(StreamingQueryException, match="DriverDied"):
            run_revenue(session, options, FOLD)

    # And another run ends the work
    run_revenue(session, options, FOLD)

    # Then all tables have what a loop over the log gives
    check(session, tables_of(session, options), events)

    # And there is a report to look at
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {"revenue.png", "late.png", "lag.png", "index.html", "lag.jsonl"}


def check(session: SparkSession, tables: BatchTables, events: list[Event]) -> None:
    found = answers.verdicts(events, FOLD.decisions.patience)
    running = tables.table("running", ROWS["running"])
    schema = "partition int, offset long, revenue decimal(28,2), key_revenue decimal(28,2)"
    rows: list[Any] = [(*place, *sums) for place, sums in answers.running(events, found).items()]
    columns = running.select("partition", "offset", "revenue", "key_revenue")
    assertDataFrameEqual(columns, session.createDataFrame(rows, schema))

    aside = tables.table("aside", ROWS["aside"]).select("partition", "offset", "reason")
    rows = [(*at, what) for at, what in found.of.items() if what not in {"counted", "other"}]
    schema = "partition int, offset long, reason string"
    assertDataFrameEqual(aside, session.createDataFrame(rows, schema))

    carried = Carried(**tables.newest(CARRIED_SCHEMAS))
    every = tables.table("windows", windows.SCHEMA).unionByName(carried.open_windows)
    rows = [
        (*window, *sums)
        for window, sums in answers.windows(events, found, FOLD.decisions.lengths).items()
    ]
    assertDataFrameEqual(every, session.createDataFrame(rows, windows.SCHEMA))
    total = revenue.totals(carried).where(F.col("scope") == "all").collect()
    assert [row["payments"] for row in total] == [running.count()]


def test_a_topic_that_is_made_again_is_not_added_to_the_one_before(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    location_options: dict[str, str],
) -> None:
    # Given four payments, of which a batch takes two
    confluent.create_topic(topic, partition_count=1)
    produce(confluent.bootstrap, topic, trace())
    options = options_of(topic, confluent.bootstrap, tmp_path, maxOffsetsPerTrigger="2")

    # When the topic is made again between two batches, with more of them
    def again(_outcome: Outcome, _run_id: str, _batch: int) -> None:
        make_again(confluent, topic, [each.value for each in (*trace(), *trace())])

    folding = Folding(session=session, options=options, fold=FOLD, also=again)
    with pytest.raises(JobFailed, match=f"the topic {topic} was made again"):
        folding.run("revenue")

    # Then no run goes on with it, nor one that reads the log itself with brokers' offsets
    with pytest.raises(JobFailed, match=f"the topic {topic} was made again") as refused:
        run_revenue(session, options, FOLD)
    assert "another --output and --checkpoint" in refused.value.fix
    direct = replace(options, source=Source.direct, log=location_options)
    with pytest.raises(JobFailed, match="was written with --source kafka"):
        run_revenue(session, direct, FOLD)
    assert totals(tables_of(session, options)) == [10, 35]


def test_a_topic_that_is_left_out_is_not_counted_again_later(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    location_options: dict[str, str],
) -> None:
    # Given the payments of two topics, added up
    topics = (topic, f"{topic}-other")
    for name in topics:
        confluent.create_topic(name, partition_count=1)
        produce(confluent.bootstrap, name, trace()[:1])
    options = replace(
        options_of(topic, confluent.bootstrap, tmp_path),
        source=Source.direct,
        log=location_options,
        topics=topics,
    )
    run_revenue(session, options, FOLD)

    # When a run names one of them, then it is refused: the other one would begin anew
    one = replace(options, topics=topics[:1], reader={"failOnDataLoss": "false"})
    with pytest.raises(JobFailed, match=f"is of {topic}-other, too"):
        run_revenue(session, one, FOLD)
    run_revenue(session, options, FOLD)
    running = tables_of(session, options).table("running", ROWS["running"])
    places = [(row["topic"], row["offset"]) for row in running.orderBy("topic").collect()]
    assert places == [(name, 0) for name in topics]


def test_a_fold_goes_on_without_a_report_while_it_runs(
    session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    # Given reports for which there is no room
    def report() -> None:
        raise OSError(28, "No space left on device")

    folding = Folding(session=session, options=PipelineOptions(), fold=FOLD, report=report)

    # When one is due, then that is said, and does not end the fold
    folding._report_meanwhile()
    assert "no report: [Errno 28] No space left on device" in caplog.text


def test_output_checkpoint_and_rules_of_different_runs_are_not_mixed(
    session: SparkSession, tmp_path: Path
) -> None:
    # Given a run
    tables = BatchTables(session=session, path=str(tmp_path / "output"))
    run_id = tables.claim(str(tmp_path / "checkpoint"), {"delay": "5m"})

    # Then it can be resumed as it is
    assert tables.claim(str(tmp_path / "checkpoint"), {"delay": "5m"}) == run_id

    # But not with other rules, another checkpoint, or another output
    with pytest.raises(ValueError, match="other rules \\(delay\\)"):
        tables.claim(str(tmp_path / "checkpoint"), {"delay": "6m"})
    with pytest.raises(ValueError, match="rows of another run"):
        tables.claim(str(tmp_path / "other"), {"delay": "5m"})
    other = BatchTables(session=session, path=str(tmp_path / "new"))
    other.claim(str(tmp_path / "other"), {"delay": "5m"})
    with pytest.raises(ValueError, match="another checkpoint"):
        tables.claim(str(tmp_path / "other"), {"delay": "5m"})

    # And a job says so before it reads anything
    options = PipelineOptions(
        topics=("none",), output=tables.path, checkpoint=str(tmp_path / "third")
    )
    with pytest.raises(JobFailed, match="rows of another run"):
        run_revenue(session, options, FOLD)


def test_lengths_of_time_on_the_command_line() -> None:
    assert parse_duration("--gap", "90s") == timedelta(seconds=90)
    assert parse_duration("--gap", "7d") == timedelta(days=7)
    assert parse_duration("--gap", "36500d") == timedelta(days=36_500)
    for word in ("", "10", "0s", "-1m", "10 m", "1w", "36501d", "99999999999d"):
        with pytest.raises(WrongUsage, match="--gap"):
            parse_duration("--gap", word)
