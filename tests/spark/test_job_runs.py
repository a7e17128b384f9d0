"""How jobs run queries: to the end of the log, from the checkpoint they began with, told of."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark.jobs.loading import Loading
from spark.jobs.options import JobFailed, PipelineOptions, Source, UpkeepOptions, WrongUsage, run
from spark.jobs.queries import Counted, Goal, measured
from spark.jobs.replay import backfill, refuse_unnamed, replay
from spark.jobs.revenue import ROWS, RevenueFold, run_revenue
from spark.jobs.task_errors import advice, explain
from spark.jobs.topics import read_now, read_stream, topic_ids
from spark.jobs.warehouse import load
from spark.jobs.warehouse_options import make_loading
from spark.log_location import LogLocation
from spark.sinks.batch_tables import BatchTables
from spark.sinks.hadoop_files import HadoopFiles
from spark.sinks.warehouse import TableFormat
from spark.sources import kept_connection
from spark.tables.revenue import Rules
from spark.upkeep.job import job_session
from tests.clients.confluent import Confluent
from tests.spark.shopflow import produce, trace
from tests.spark.warehouse_runs import contents, loader, send
from tests.streamctl.conftest import REPOSITORY
from tests.support.ports import free_port

SCHEMA = "id bigint"
VALUES = [b'{"id":%d}' % number for number in range(3)]
WORDY = """
import sys
from spark.jobs.options import run
from spark.jobs.sql_output import _Results

def lines():
    for number in range(100_000):
        print(number)

def table():
    _Results(width=10).print("\\n".join(map(str, range(100_000))))

def other():
    raise BrokenPipeError(32, "of something else")

run(globals()[sys.argv.pop()])
"""

TAKEN_OVER = """
from tempfile import TemporaryDirectory
from spark.jobs.checked_query import CheckedBatches, CheckedQuery
from spark.jobs.java_words import hush_streams
from spark.jobs.options import run
from spark.session import build_session
from spark.sinks.hadoop_files import HadoopFiles
from spark.sinks.lake_batches import TakenOver

def write(batch, number):
    raise TakenOver("another loader took orders")

def loader():
    session = build_session("loader", packages=())
    hush_streams(session)
    batches = CheckedBatches(check=lambda: None, write=write)
    with TemporaryDirectory() as checkpoint:
        stream = session.readStream.format("rate").load().writeStream.foreachBatch(batches)
        query = stream.option("checkpointLocation", checkpoint).start()
        CheckedQuery(query=query, batches=batches).wait()

run(loader)
"""


@pytest.fixture
def direct(topic: str, tmp_path: Path, location_options: dict[str, str]) -> PipelineOptions:
    """Of a job that reads the log itself, two offsets at a time."""
    return PipelineOptions(
        source=Source.direct,
        log=location_options,
        topics=(topic,),
        output=str(tmp_path / "orders"),
        checkpoint=str(tmp_path / "checkpoint"),
        reader={"maxOffsetsPerTrigger": "2"},
    )


def files_of(session: SparkSession, options: PipelineOptions) -> Loading:
    return make_loading(session, options, table_format=TableFormat.parquet, schema=SCHEMA)


def forget_the_last_batch(checkpoint: Path) -> None:
    """Leave it as a driver does that dies before it notes that its last batch is done."""
    last = max(int(one.name) for one in (checkpoint / "commits").iterdir() if one.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()


def test_a_bounded_job_without_brokers_reads_all_there_is(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path, direct: PipelineOptions
) -> None:
    # Given a loader that died with a batch that is in the files, and not noted
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, VALUES[:1])
    assert load(files_of(session, direct)) == 1
    forget_the_last_batch(tmp_path / "checkpoint" / "g1")
    send(confluent, topic, VALUES[1:])

    # When it runs again: the first batch is that one, and nothing of it is read
    loading = files_of(session, replace(direct, reader={}))
    assert load(loading) == 2

    # Then all is there once, and a table made anew has come as far, however small its batches
    assert contents(loading.warehouse) == ([0, 1, 2], [])
    generation = backfill(files_of(session, direct))
    assert loading.warehouse.rows(generation).count() == 3


def test_revenue_without_brokers_adds_up_all_there_is(
    session: SparkSession, confluent: Confluent, topic: str, direct: PipelineOptions
) -> None:
    # Given four payments, of which a batch takes two
    confluent.create_topic(topic, partition_count=1)
    produce(confluent.bootstrap, topic, trace())

    # When
    run_revenue(session, direct, RevenueFold(decisions=Rules()))

    # Then
    running = BatchTables(session=session, path=direct.output).table("running", ROWS["running"])
    assert [int(row["revenue"]) for row in running.orderBy("offset").collect()] == [10, 35, 40, 100]


@pytest.mark.parametrize("source", Source)
def test_a_topic_of_a_table_is_left_out_only_when_it_is_gone(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    direct: PipelineOptions,
    source: Source,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Given a table of two topics
    other = f"{topic}-other"
    both = replace(
        direct, source=source, bootstrap=confluent.bootstrap, topics=(topic, other), reader={}
    )
    for name in both.topics:
        confluent.create_topic(name, partition_count=1)
        send(confluent, name, VALUES[:1])
    assert load(files_of(session, both)) == 2

    # When a run names one of them, then it is refused, though it may go on without what is gone
    one = replace(both, topics=(topic,), reader={"failOnDataLoss": "false"})
    with pytest.raises(JobFailed, match=f"is of {other}, too") as refused:
        load(files_of(session, one))
    assert f"--topic {other}, too" in refused.value.fix

    # And it is not made anew from one of them
    words = ("--bootstrap", confluent.bootstrap, "--data", both.log["data"], "--topic", topic)
    places = ("--output", both.output, "--checkpoint", both.checkpoint)
    monkeypatch.setattr(sys, "argv", ["replay", "--source", source, *words, *places])
    with pytest.raises(SystemExit):
        run(replay)
    assert f"the table has records of {other}, too" in capsys.readouterr().err

    # And nothing of it is read twice when both are named again
    send(confluent, other, VALUES[1:2])
    assert load(files_of(session, both)) == 1

    # When it is deleted, then the other one goes on
    admin = AdminClient({"bootstrap.servers": confluent.bootstrap})
    admin.delete_topics([other])[other].result(timeout=30)
    send(confluent, topic, VALUES[1:2])
    loading = files_of(session, one)
    assert load(loading) == 1
    assert contents(loading.warehouse) == ([0, 0, 1, 1], [])
    refuse_unnamed(loading)


def test_a_topic_that_is_not_there_is_named(direct: PipelineOptions) -> None:
    with pytest.raises(WrongUsage, match="there is no topic nowhere") as direct_end:
        Goal.now(replace(direct, topics=("nowhere",)))
    assert "streamctl topic list" in direct_end.value.fix


def test_a_topic_that_brokers_do_not_have_is_named(
    session: SparkSession, confluent: Confluent, topic: str
) -> None:
    # Given one of two topics
    confluent.create_topic(topic, partition_count=1)
    options = PipelineOptions(bootstrap=confluent.bootstrap, topics=(topic, "nowhere"))

    # When both are read, then the other one is named, and what to do
    for read in (read_now, read_stream):
        with pytest.raises(WrongUsage, match="there is no topic nowhere") as ended:
            read(session, options)
        assert "streamctl topic list" in ended.value.fix


def test_a_query_that_ends_says_so_in_a_line() -> None:
    # When a loader ends because another one took its table
    ended = subprocess.run(
        (sys.executable, "-c", TAKEN_OVER),
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )

    # Then its words are the last ones, and no stack comes before them
    error, fix = ended.stderr.splitlines()[-2:]
    assert error == "error: TakenOver: another loader took orders"
    assert fix.startswith("fix:   one loader at a time")
    assert "\tat " not in ended.stderr


def test_files_do_not_take_the_checkpoint_of_other_files(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given two tables, each with its checkpoint
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, VALUES[:1])
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)
    load(run())
    other = run()
    other = replace(other, options=replace(other.options, checkpoint=str(tmp_path / "other")))
    other = replace(
        other,
        warehouse=make_loading(
            session,
            replace(other.options, output=str(tmp_path / "other_orders")),
            table_format=TableFormat.parquet,
        ).warehouse,
    )
    load(other)
    send(confluent, topic, VALUES[1:2])

    # When one is loaded with the other's, then it is refused: its batches have the same numbers
    mixed = replace(run(), options=replace(run().options, checkpoint=str(tmp_path / "other")))
    with pytest.raises(JobFailed, match="another checkpoint"):
        load(mixed)
    assert load(run()) == 1


@pytest.mark.parametrize("table_format", [TableFormat.parquet, TableFormat.iceberg])
def test_a_new_table_does_not_begin_in_the_middle(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a table that was taken away, and its checkpoint that was not
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, VALUES[:2])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run())
    (tmp_path / "orders").rename(tmp_path / "away")

    # When it is loaded again, then it is refused: the first records would be missing
    with pytest.raises(JobFailed, match="does not have"):
        load(run())


def test_metrics_of_a_loader_are_in_its_file(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, VALUES[:3])
    loading = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)()
    file = tmp_path / "spark.prom"

    # When
    with measured(session, PipelineOptions(metrics_file=file, metrics_port=0)):
        load(loading)

    # Then
    assert 'streamhouse_spark_input_rows_total{query="warehouse"} 3.0' in file.read_text()


def test_metrics_that_cannot_be_written_end_the_job_before_it_begins(
    session: SparkSession, tmp_path: Path
) -> None:
    options = PipelineOptions(metrics_file=tmp_path / "nowhere" / "spark.prom")
    with pytest.raises(JobFailed, match="metrics"), measured(session, options):
        pytest.fail("it began")


def test_a_job_without_a_broker_says_what_to_do(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a port at which nobody listens
    timeouts = {"default.api.timeout.ms": "1000", "request.timeout.ms": "500"}
    options = PipelineOptions(bootstrap=f"127.0.0.1:{free_port()}", topics=("t",), client=timeouts)

    def job() -> None:
        read_now(session, options).collect()

    # When a job reads there
    monkeypatch.setattr(sys, "argv", ["job"])
    with pytest.raises(SystemExit) as ended:
        run(job)

    # Then it ends with what failed and what to do
    assert ended.value.code == 1
    error, fix = capsys.readouterr().err.splitlines()[-2:]
    assert error.startswith("error: ")
    assert "TimeoutException" in error
    assert fix.startswith("fix: ")
    assert "--bootstrap" in fix


def test_a_query_that_failed_names_the_cause_and_what_to_do() -> None:
    # Given what Spark says when a task of a streaming query met our own exception
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted\n"
        "Traceback (most recent call last):\n"
        '  File "spark/sources/planning.py", line 1, in plan\n'
        "spark.sources.planning.DataLoss: t-0: offsets 0 to 3 are gone\n\nJVM stacktrace:\nat org"
    )
    error = StreamingQueryException(text)

    # Then
    assert explain(error) == "DataLoss: t-0: offsets 0 to 3 are gone"
    assert "failOnDataLoss=false" in advice(error)


@pytest.mark.parametrize(
    "error",
    [
        Py4JError("An error occurred while calling o65.registerPython"),
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
        EOFError(),
    ],
)
def test_java_that_is_gone_is_said_to_be(error: Exception) -> None:
    assert explain(error) == "Spark's Java has ended"
    assert "memory" in advice(error)


@pytest.mark.parametrize(
    ("job", "into", "code", "said"),
    [
        ("lines", "| head -1", "0", "0\n"),
        ("table", "| head -1", "0", "0\n"),
        ("lines", "> /dev/full", "1", "error: cannot write to standard output: No space left"),
        ("table", "> /dev/full", "1", "error: cannot write to standard output: No space left"),
        ("other", "| head -1", "1", "error: Spark's Java has ended"),
    ],
)
def test_a_reader_that_has_gone_and_a_full_disk_are_no_bugs(
    job: str, into: str, code: str, said: str
) -> None:
    # When a job says more than anybody reads
    command = f'"$0" -c "$1" {job} {into}; echo "ended with ${{PIPESTATUS[0]}}"'
    ended = subprocess.run(
        ("bash", "-c", command, sys.executable, WORDY),
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )

    # Then it ends as all other commands do
    assert ended.stdout.endswith(f"ended with {code}\n")
    assert (ended.stderr or ended.stdout).startswith(said)
    assert "Traceback" not in ended.stderr


def test_a_table_of_batches_is_read_without_a_question_for_each(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a table of several batches, and a directory of one that was never written
    tables = BatchTables(session=session, path=str(tmp_path))
    for batch in range(4):
        tables.write("running", session.range(batch, batch + 1), batch)
    (tmp_path / "unwritten" / "batch=0").mkdir(parents=True)
    asked: list[str] = []
    exists = HadoopFiles.exists

    def counted(self: HadoopFiles, name: str) -> bool:
        asked.append(name)
        return exists(self, name)

    # When it is read, then it has the rows of all, and one of them was asked for
    monkeypatch.setattr(HadoopFiles, "exists", counted)
    rows = tables.table("running", "id bigint").collect()
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 3]
    assert asked == ["running/batch=0/_SUCCESS"]
    assert tables.table("unwritten", "id bigint").count() == 0


def test_batches_are_counted_though_spark_forgets_them() -> None:
    # Given a query that told of two batches, and of a look for records that found none
    def progress(batch: int, phase: str = "addBatch") -> SimpleNamespace:
        return SimpleNamespace(
            batchId=batch,
            numInputRows=10,
            durationMs={phase: 1},
            sources=[SimpleNamespace(endOffset=f"end of {batch}")],
        )

    query: Any = SimpleNamespace(recentProgress=[progress(0), progress(1)])
    counted = Counted()
    counted.note(query)

    # When Spark has forgotten the first one
    query.recentProgress = [progress(1), progress(2), progress(3, "latestOffset")]
    counted.note(query)

    # Then
    assert counted == Counted(batches=3, records=30, last_batch=2, end="end of 2")


def test_upkeep_leaves_a_session_that_was_there(
    session: SparkSession, location_options: dict[str, str]
) -> None:
    with job_session("upkeep", UpkeepOptions(log=location_options)) as used:
        assert used is session
    assert session.range(3).count() == 3


def test_a_replay_of_parquet_keeps_its_partitions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # When a table of Parquet files is to be made anew with other partitions, then it is refused
    words = f"replay --topic t --output {tmp_path / 'orders'} --partition-by id"
    monkeypatch.setattr(sys, "argv", words.split())
    with pytest.raises(SystemExit) as ended:
        run(replay)
    assert ended.value.code == 2
    assert "--partition-by" in capsys.readouterr().err


def test_ids_of_topics_are_asked_for_patiently(
    confluent: Confluent,
    topic: str,
    location: LogLocation,
    session: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a Postgres that comes back when it was asked in vain
    confluent.create_topic(topic, partition_count=1)
    parts = urlsplit(location.postgres)
    (sockets,) = parse_qs(parts.query)["host"]
    with TemporaryDirectory() as directory:
        place = Path(directory, "sockets")
        postgres = location.postgres.replace(quote(sockets), quote(str(place)))
        log = {"postgres": postgres, "store": location.store}
        options = PipelineOptions(source=Source.direct, log=log, topics=(topic,))
        told: list[str] = []

        def comes_back(text: str, _error: Exception) -> None:
            told.append(text)
            if not place.is_symlink():
                place.symlink_to(sockets)

        monkeypatch.setattr(kept_connection.log, "warning", comes_back)

        # When a job asks which topic it is, then it waits
        assert topic_ids(session, options).keys() == {topic}
        assert "trying again" in told[0]
