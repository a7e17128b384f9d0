"""A table made anew from offset 0, and dead letters taken through fixed logic."""

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.jobs.deadletter import Redone, redo
from spark.jobs.loading import Loading
from spark.jobs.logic import UnknownFields
from spark.jobs.options import JobFailed
from spark.jobs.replay import backfill, compare, swap_if_whole
from spark.jobs.warehouse import load
from spark.sinks.warehouse import LakeWarehouse, TableFormat
from tests.clients.confluent import Confluent
from tests.spark.warehouse_runs import FORMATS, LAKES, by_offset, contents, loader, make_again, send

BIGINT = "id bigint, amount bigint"
DOUBLE = "id bigint, amount double"


def cents(rows: DataFrame) -> DataFrame:
    """Return amounts in cents: logic that was fixed."""
    return rows.withColumn("amount", F.col("amount") * 100)


@pytest.mark.parametrize("table_format", FORMATS)
def test_replay_swaps_and_the_loader_goes_on(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a table whose type of a column was wrong
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0,"amount":10}', b'{"id":1,"amount":2.5}', b"bad"])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run(BIGINT))
    warehouse = run().warehouse
    assert contents(warehouse) == ([0], [1, 2])

    # When it is made anew, and records come before the swap
    fixed = run(DOUBLE, logic="tests.spark.test_replay:cents")
    generation = backfill(fixed)
    send(confluent, topic, [b'{"id":3,"amount":60}'])

    # Then the table is as it was, both have all records, and a run that died goes on
    assert contents(warehouse) == ([0], [1, 2])
    (both,) = compare(run(), generation)
    assert (both.table, both.made, both.last_offset) == (3, 3, 2)
    assert backfill(fixed) == generation

    # When it is swapped, and loaded
    swap_if_whole(run(), generation)
    assert warehouse.generation() == generation == 2
    assert contents(warehouse) == ([0, 1, 3], [2])
    send(confluent, topic, [b'{"id":4,"amount":1}'])
    assert load(fixed) == 1

    # Then what comes after the swap is there once
    assert contents(warehouse) == ([0, 1, 3, 4], [2])
    amounts = by_offset(warehouse.rows(generation), "amount")
    assert amounts == {0: 1000.0, 1: 250.0, 3: 6000.0, 4: 100.0}


def test_a_swap_while_a_loader_starts(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a table of the second generation
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.delta)
    load(run("id bigint"))
    warehouse = run().warehouse
    swap_if_whole(run(), backfill(run("id double")))

    # When it is swapped again after a loader has looked which generation that is
    loading = run()
    prepare = Loading.prepare

    def swapped_behind(self: Loading, generation: int) -> None:
        prepare(self, generation)
        if self is loading and generation == 2:
            swap_if_whole(run(), backfill(run("id string")))
            send(confluent, topic, [b'{"id":2}'])

    monkeypatch.setattr(Loading, "prepare", swapped_behind)
    load(loading)

    # Then what comes is in the table of the third one
    assert warehouse.generation() == 3
    assert contents(warehouse) == ([0, 1, 2], [])


@pytest.mark.parametrize("table_format", LAKES)
def test_a_swap_before_a_loader_is_prepared(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a table, and one made anew beside it
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1}', b"bad"])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run("id bigint"))
    made = backfill(run("id double"))

    # When it is swapped after a loader has looked which generation the table is
    prepare = Loading.prepare

    def swapped_before(self: Loading, generation: int) -> None:
        if generation == 1:
            swap_if_whole(run(), made)
            send(confluent, topic, [b'{"id":2}'])
        prepare(self, generation)

    monkeypatch.setattr(Loading, "prepare", swapped_before)
    load(run())

    # Then it goes on with the one that was made
    assert run().warehouse.generation() == made
    assert contents(run().warehouse) == ([0, 1, 3], [2])


@pytest.mark.parametrize("table_format", FORMATS)
def test_dead_letters_become_rows_once(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given dead letters: a column is missing, a value is broken
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1,"note":"x"}', b"bad"])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run("id bigint", unknown_fields=UnknownFields.reject))
    fixed = run("id bigint, note string", unknown_fields=UnknownFields.reject)

    # When they are taken through logic that has the column, then what fits becomes a row
    broken = {"the value is not a JSON object": 1}
    assert redo(fixed, dry_run=True) == Redone(settled=1, left=broken)
    assert redo(fixed) == Redone(settled=1, left=broken)
    assert contents(fixed.warehouse)[0] == [0, 1]
    assert by_offset(fixed.warehouse.rows(1), "note") == {0: None, 1: "x"}

    # And a second time nothing is left of it, nor of what the loader writes beside it
    assert redo(fixed) == Redone(settled=0, left=broken)
    send(confluent, topic, [b'{"id":3,"note":"y"}'])
    assert load(fixed) == 1
    assert contents(fixed.warehouse) == ([0, 1, 3], [1, 2])


def test_a_swap_that_would_lose_records_is_refused(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given a table with records that the log no longer has
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1}', b'{"id":2}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)
    load(run())
    delete_before(confluent, topic, 2)

    # When
    generation = backfill(run("id double"))

    # Then
    with pytest.raises(JobFailed, match="no longer has 2 records"):
        swap_if_whole(run(), generation)
    assert contents(run().warehouse)[0] == [0, 1, 2]
    swap_if_whole(run(), generation, force=True)
    assert contents(run().warehouse)[0] == [2]


def test_a_swap_does_not_take_other_records_for_those_of_the_table(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given a table that was begun in the middle of a topic
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":%d}' % number for number in range(4)])
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.delta)
    start = {"startingOffsets": f'{{"{topic}": {{"0": 2}}}}'}
    load(replace(run(), options=replace(run().options, reader=start)))
    assert contents(run().warehouse) == ([2, 3], [])

    # When it is made anew from offset 0, of a log that compaction took one of its records from
    generation = backfill(run())
    made = run().warehouse
    assert isinstance(made, LakeWarehouse)
    name = made.rows_table(generation).name
    session.sql(f"DELETE FROM {name} WHERE _kafka_offset = 2")

    # Then that one is missed, though there are more than the table has
    (both,) = compare(run(), generation)
    assert (both.table, both.made, both.lacking) == (2, 3, 1)
    with pytest.raises(JobFailed, match="no longer has 1 records"):
        swap_if_whole(run(), generation)
    assert contents(run().warehouse) == ([2, 3], [])


@pytest.mark.parametrize("count", [1, 2])
def test_a_swap_to_a_topic_that_was_made_again_is_refused(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path, count: int
) -> None:
    # Given a table of a topic that was made again, with fewer records or as many
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}', b'{"id":1}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)
    load(run())
    make_again(confluent, topic, [b'{"id":5}', b'{"id":6}'][:count])

    # When the table is made anew, then none of its records is in what was made
    generation = backfill(run())
    (both,) = compare(run(), generation)
    assert (both.table, both.made, both.last_offset) == (2, 0, 1)
    with pytest.raises(JobFailed, match="no longer has 2 records"):
        swap_if_whole(run(), generation)
    assert by_offset(run().warehouse.rows(1), "id") == {0: 0, 1: 1}

    # And when it was made once more meanwhile, then a run begins another generation
    make_again(confluent, topic, [b'{"id":7}'])
    assert backfill(run()) == generation + 1
    swap_if_whole(run(), generation + 1, force=True)
    assert load(run()) == 0
    assert by_offset(run().warehouse.rows(generation + 1), "id") == {0: 7}


def test_what_a_replay_of_more_topics_has_left_is_passed_over(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given what a replay has left that was of another topic, too
    other = f"{topic}-other"
    for name in (topic, other):
        confluent.create_topic(name, partition_count=1)
        send(confluent, name, [b'{"id":0}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, TableFormat.parquet)
    load(run())
    generation = backfill(replace(run(), options=replace(run().options, topics=(topic, other))))

    # When the table is made anew without that topic, then not of what was left
    assert backfill(run()) == generation + 1
    swap_if_whole(run(), generation + 1)
    assert contents(run().warehouse) == ([0], [])


def delete_before(confluent: Confluent, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": confluent.bootstrap})
    deleting = admin.delete_records([TopicPartition(topic, 0, offset)])
    for future in deleting.values():
        future.result(timeout=30)
