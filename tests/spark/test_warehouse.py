"""Topics into tables of three formats: each record once, drift and all."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.jobs.checked_query import CheckedBatches
from spark.jobs.loading import Loading
from spark.jobs.options import JobFailed, Source, WrongUsage
from spark.jobs.replay import backfill, swap_if_whole
from spark.jobs.topic_ids import DIRECTORY
from spark.jobs.topics import read_now, topic_ids
from spark.jobs.warehouse import load
from spark.sinks.lake_batches import TakenOver
from spark.sinks.warehouse import TableFormat, positions
from spark.tables.decoded import Values, decode
from tests.clients.confluent import Confluent
from tests.spark.warehouse_runs import FORMATS, LAKES, by_offset, contents, loader, make_again, send

PATIENCE_S = 240


@pytest.mark.parametrize("table_format", FORMATS)
def test_runs_go_on_where_they_were_and_drift_does_not_stall_them(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a topic whose columns nobody named, loaded once
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0,"amount":10}', b'{"id":1,"amount":25}', b"not json", None])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    assert load(run()) == 4

    # When values come with a new field, and with one that changed its type
    send(confluent, topic, [b'{"id":4,"note":"x"}', b'{"id":"five"}', b'{"id":6,"amount":5}'])
    loading = run()
    assert load(loading) == 3

    # Then each record is once in the table or among its dead letters
    warehouse = loading.warehouse
    grows = table_format is not TableFormat.parquet
    rows, letters = contents(warehouse)
    assert rows == ([0, 1, 3, 4, 6] if grows else [0, 1, 3, 6])
    assert letters == ([2, 5] if grows else [2, 4, 5])
    assert by_offset(warehouse.rows(1), "amount")[6] == 5
    if grows:
        assert by_offset(warehouse.rows(1), "note") == dict.fromkeys(rows) | {4: "x"}
    # And dead letters are the records as they were
    found = {row["offset"]: row for row in warehouse.dead_letters(1).collect()}
    assert found[2]["value"] == b"not json"
    assert found[2]["topic"] == topic
    assert [(one["key"], one["value"]) for one in found[2]["headers"]] == [("h", b"1")]
    assert found[5]["reason"] == "does not fit its column: id"
    # And the table tells where it is; a run without news reads nothing
    assert positions(warehouse, 1) == {(topic, 0): 6}
    assert load(run()) == 0


def test_brokers_are_asked_once_for_the_topics_of_a_run(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given what counts how often they are asked, and when batches are written
    asked: list[str] = []

    def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            asked.append(name)
            return original(*arguments)

        return counted

    asking = counting("ask", topic_ids)
    for module in ("topics", "loading"):
        monkeypatch.setattr(f"spark.jobs.{module}.topic_ids", asking)
    write = counting("write", CheckedBatches.__call__)
    monkeypatch.setattr(CheckedBatches, "__call__", write)
    confluent.create_topic(topic, partition_count=1)
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.delta)

    # When a table is made, then before that and before its query starts, and for each batch
    send(confluent, topic, [b'{"id":0}'])
    assert load(run()) == 1
    assert asked == ["ask", "ask", "write", "ask"]

    # When another run goes on, then before its query starts
    asked.clear()
    send(confluent, topic, [b'{"id":1}'])
    assert load(run()) == 1
    assert asked == ["ask", "write", "ask"]

    # When there is no such topic, then nothing is made
    monkeypatch.undo()
    missing = loader(
        session, confluent.bootstrap, f"no-{topic}", tmp_path / "no", TableFormat.delta
    )
    for schema in (None, "id bigint"):
        with pytest.raises(WrongUsage, match=f"there is no topic no-{topic}"):
            load(missing(schema=schema))
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("table_format", LAKES)
def test_a_record_is_decoded_once(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given what counts how many records are decoded
    count = session.sparkContext.accumulator(0)

    def counted(reason: str | None) -> str | None:
        count.add(1)
        return reason

    def counting(records: DataFrame, values: Values) -> DataFrame:
        return decode(records, values).withColumn("reason", F.udf(counted)("reason"))

    monkeypatch.setattr("spark.jobs.loading.decode", counting)
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b"bad", b'{"id":2}'])

    # When a batch has rows and dead letters
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run("id bigint"))

    # Then
    assert contents(run().warehouse) == ([0, 2], [1])
    assert count.value == 3


@pytest.mark.parametrize("source", Source)
def test_a_topic_that_was_made_again_is_refused(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    location_options: dict[str, str],
    source: Source,
) -> None:
    # Given a table of a topic, which is deleted and made again with more records
    make = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)

    def run() -> Loading:
        options = replace(make().options, source=source, log=location_options)
        return replace(make(), options=options)

    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}'])
    load(run())
    assert load(run()) == 0
    make_again(confluent, topic, [b'{"id":5}', b'{"id":6}'])

    # When it is loaded again, then it is refused: some would be taken for those that are there
    with pytest.raises(JobFailed, match=f"{topic} was made again"):
        load(run())

    # And the table is made anew
    swap_if_whole(run(), backfill(run()), force=True)
    load(run())
    assert by_offset(run().warehouse.rows(2), "id") == {0: 5, 1: 6}


@pytest.mark.parametrize("table_format", LAKES)
def test_a_topic_that_was_made_again_is_refused_without_the_checkpoint(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a table whose checkpoint is lost, and whose topic was made again with more records
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1}'])
    load(run())
    make_again(confluent, topic, [b'{"id":5}', b'{"id":6}', b'{"id":7}'])
    (tmp_path / "checkpoint").rename(tmp_path / "lost")

    # When it is loaded, then it is refused, and again: some would be taken for those there
    for _ in range(2):
        with pytest.raises(JobFailed, match=f"{topic} was made again"):
            load(run())
    assert by_offset(run().warehouse.rows(1), "id") == {0: 0, 1: 1}

    # When it is made anew, then the swap says what it loses
    generation = backfill(run())
    with pytest.raises(JobFailed, match="no longer has 2 records"):
        swap_if_whole(run(), generation)
    swap_if_whole(run(), generation, force=True)
    assert by_offset(run().warehouse.rows(generation), "id") == {0: 5, 1: 6, 2: 7}

    # And of the table that it is now, the next loader knows the topic, too
    (tmp_path / "checkpoint").rename(tmp_path / "lost too")
    assert load(run()) == 3
    assert contents(run().warehouse) == ([0, 1, 2], [])
    make_again(confluent, topic, [b'{"id":8}'])
    (tmp_path / "checkpoint").rename(tmp_path / "lost again")
    with pytest.raises(JobFailed, match=f"{topic} was made again"):
        load(run())


def test_the_other_source_makes_the_table_anew(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    location_options: dict[str, str],
) -> None:
    # Given a table that was loaded through brokers, by a version that kept ids as they write them
    make = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)

    def run(source: Source) -> Loading:
        options = replace(make().options, source=source, log=location_options)
        return replace(make(), options=options)

    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1}'])
    load(run(Source.kafka))
    kept = run(Source.kafka).kept_ids(1)
    ids = UUID(kept.all()[topic])
    kept.checkpoint.delete(DIRECTORY)
    kept.keep({topic: urlsafe_b64encode(ids.bytes).decode().rstrip("=")})

    # When it is loaded without brokers, then it says what its checkpoint is of
    with pytest.raises(JobFailed, match="was written with --source kafka"):
        load(run(Source.direct))
    assert load(run(Source.kafka)) == 0

    # And the table may be made anew so, for no record is missing; then it is the other's
    direct = run(Source.direct)
    swap_if_whole(direct, backfill(direct))
    assert load(direct) == 0
    with pytest.raises(JobFailed, match="was written with --source direct"):
        load(run(Source.kafka))
    assert contents(direct.warehouse)[0] == [0, 1]


@pytest.fixture(params=Source)
def streaming(
    request: pytest.FixtureRequest,
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    location_options: dict[str, str],
) -> Loading:
    """Loading five records with options that only a stream has."""
    made = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.delta)()
    reader = {"maxoffsetspertrigger": "2"}  # sources tell names apart without regard to case
    if request.param is Source.direct:
        reader["commitGroup"] = f"{topic}-loader"
    options = replace(made.options, source=request.param, log=location_options, reader=reader)
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":%d}' % number for number in range(5)])
    return replace(made, options=options)


def test_a_batch_leaves_out_what_only_a_stream_is_told(
    session: SparkSession, streaming: Loading
) -> None:
    assert read_now(session, streaming.options).count() == 5


def test_columns_are_found_out_of_a_stream_that_begins_at_the_latest_offset(
    session: SparkSession, streaming: Loading
) -> None:
    # Given a stream that begins at the end, of the topic or of its partition
    options = streaming.options
    of_partition = f'{{"{options.topics[0]}": {{"0": -1}}}}'
    for start in ("latest", "LATEST ", of_partition):
        options = replace(options, reader={**options.reader, "startingOffsets": start})

        # When columns are looked for, then records from the beginning tell them
        assert read_now(session, options).count() == 5
    loading = replace(streaming, options=options)
    loading.prepare(1)
    found = loading.warehouse.columns(1)
    assert found is not None
    assert "id" in found.names


def test_columns_are_found_out_whatever_a_stream_is_told(streaming: Loading) -> None:
    # When a table is made whose columns nobody named, then they are found, and the stream has them
    assert load(streaming) == 5
    assert contents(streaming.warehouse) == ([*range(5)], [])

    # And so it is when it is made anew
    swap_if_whole(streaming, backfill(streaming))
    assert contents(streaming.warehouse) == ([*range(5)], [])


@pytest.mark.parametrize("table_format", [TableFormat.delta, TableFormat.iceberg])
def test_a_loader_ends_when_another_one_takes_the_table(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a loader that follows a topic, and one that begins with a checkpoint of its own
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run("id bigint"))
    following = replace(run().options, follow=True)
    first = replace(run(), options=following, name="first").start(1, live_generation=1)
    other = replace(following, checkpoint=str(tmp_path / "other"))
    second = replace(run(), options=other, name="second").start(1, live_generation=1)

    # When records come
    send(confluent, topic, [b'{"id":%d}' % number for number in range(1, 10)])
    second.query.processAllAvailable()
    second.query.stop()

    # Then the first one ends without writing any of them
    with pytest.raises(TakenOver, match="another loader took"):
        first.wait()
    assert contents(run().warehouse) == ([*range(10)], [])


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("table_format", [TableFormat.parquet, TableFormat.delta])
def test_a_topic_that_is_made_again_while_it_is_loaded_is_refused(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    location_options: dict[str, str],
    source: Source,
    table_format: TableFormat,
) -> None:
    # Given a run that follows a topic
    made = loader(session, confluent.bootstrap, topic, tmp_path, table_format)("id bigint")
    reader = {"failOnDataLoss": "false"}
    options = replace(made.options, source=source, log=location_options, follow=True, reader=reader)
    loading = replace(made, options=options)
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1}'])
    loading.prepare(1)
    running = loading.start(1, live_generation=1)
    running.query.processAllAvailable()

    # When the topic is made again, with more records
    make_again(confluent, topic, [b'{"id":5}', b'{"id":6}', b'{"id":7}'])

    # Then the run ends, and none of them is in the table
    with pytest.raises(JobFailed, match=f"{topic} was made again"):
        assert not running.wait(PATIENCE_S), "it ended by itself"
    assert by_offset(loading.warehouse.rows(1), "id") == {0: 0, 1: 1}


def test_files_of_one_checkpoint_do_not_take_another(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given a table of files, whose checkpoint is lost
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)
    load(run())
    (tmp_path / "checkpoint").rename(tmp_path / "lost")

    # When it is loaded again, then it is refused: the file sink would drop new batches
    with pytest.raises(JobFailed, match="another checkpoint"):
        load(run())


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_column_in_other_capitals_is_refused(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a table
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":1}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run("id bigint"))

    # When a column is named in other capitals, then the table is left as it is
    with pytest.raises(WrongUsage, match="the column ID is id in the table"):
        load(run("ID bigint, name string"))
    send(confluent, topic, [b'{"id":2}'])
    assert load(run("id bigint")) == 1
    assert by_offset(run().warehouse.rows(1), "id") == {0: 1, 1: 2}
