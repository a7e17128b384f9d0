"""Two loaders of one table: what the first one has under way is committed late, or not at all."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark.jobs.checked_query import CheckedQuery
from spark.jobs.logic import UnknownFields
from spark.jobs.warehouse import load
from spark.sinks.delta_tables import DeltaTable
from spark.sinks.iceberg_tables import IcebergTable
from spark.sinks.lake_batches import TakenOver
from spark.sinks.tables import Batch
from spark.sinks.warehouse import LakeWarehouse, TableFormat
from tests.clients.confluent import Confluent
from tests.spark.warehouse_runs import LAKES, Load, contents, loader, send

PATIENCE_S: Final = 240


class Gate:
    """What passes it waits until it is open."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.reached, self.opened = directory / "reached", directory / "opened"

    def pass_rows(self, rows: DataFrame) -> DataFrame:
        """Be the --logic of a loader: a worker waits while it writes."""
        return rows.withColumn("id", F.udf(self.pass_number, "bigint")("id"))

    def pass_number(self, number: int) -> int:
        self.reached.touch()
        until(self.opened.exists)
        return number

    def open(self) -> None:
        self.opened.touch()


def until(is_so: Callable[[], bool]) -> None:
    """Wait, but not for ever: a worker that does so is not ended with its test."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert is_so()


def follower(run: Load, name: str, checkpoint: Path, gate: Gate) -> CheckedQuery:
    """Start a loader with a checkpoint of its own, whose rows have to pass a gate."""
    made = run(unknown_fields=UnknownFields.ignore)
    options = replace(made.options, follow=True, checkpoint=str(checkpoint))
    logic = replace(made.logic, change=gate.pass_rows)
    return replace(made, options=options, logic=logic, name=name).start(1, live_generation=1)


@pytest.mark.parametrize("late", ["before the other's first commit", "after it"])
@pytest.mark.parametrize("table_format", LAKES)
def test_rows_that_a_loader_commits_after_another_took_the_table(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
    late: str,
) -> None:
    # Given a loader that is writing a batch, and one that takes the table and writes the same
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run("id bigint"))
    gates = Gate(tmp_path / "first gate"), Gate(tmp_path / "second gate")
    first = follower(run, "first", tmp_path / "checkpoint", gates[0])
    send(confluent, topic, [*(b'{"id":%d}' % number for number in range(1, 9)), b"bad"])
    until(gates[0].reached.exists)
    second = follower(run, "second", tmp_path / "other", gates[1])
    until(gates[1].reached.exists)

    # When both of them go on, one after the other
    try:
        if late == "after it":
            gates[1].open()
            second.query.processAllAvailable()
        gates[0].open()
        send(confluent, topic, [b'{"id":10}'])
        with pytest.raises(TakenOver):
            assert not first.wait(PATIENCE_S), "it ended by itself"
    finally:
        for gate in gates:
            gate.open()
    second.query.processAllAvailable()
    second.query.stop()

    # Then each record is once in the table or among its dead letters
    assert contents(run().warehouse) == ([*range(9), 10], [9])


@pytest.mark.parametrize("table_format", LAKES)
def test_two_loaders_that_take_a_table_at_the_same_moment(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
) -> None:
    # Given a loader that took the rows last, and another one that took the dead letters last
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run("id bigint"))
    open_gate = Gate(tmp_path / "open gate")
    open_gate.open()
    last = follower(run, "last", tmp_path / "other", open_gate)
    last.query.processAllAvailable()
    warehouse = run().warehouse
    assert isinstance(warehouse, LakeWarehouse)
    warehouse.letters_table(1).take(session, "of another loader", {})

    # When there is a dead letter
    send(confluent, topic, [b"bad", b'{"id":2}'])
    last.query.processAllAvailable()
    last.query.stop()

    # Then the one that has the rows goes on
    assert contents(warehouse) == ([0, 2], [1])


@pytest.mark.parametrize("table_format", LAKES)
def test_dead_letters_that_a_loader_commits_after_another_took_the_table(
    session: SparkSession,
    confluent: Confluent,
    topic: str,
    tmp_path: Path,
    table_format: TableFormat,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a loader that has committed the rows of a batch, and is about to write dead letters
    confluent.create_topic(topic, partition_count=1)
    send(confluent, topic, [b'{"id":0}'])
    run = loader(session, confluent.bootstrap, topic, tmp_path, table_format)
    load(run("id bigint"))
    kind = DeltaTable if table_format is TableFormat.delta else IcebergTable
    append, gate = kind.append, Gate(tmp_path / "gate")
    gates = [gate]

    def waits(self: Any, rows: DataFrame, batch: Batch, *, after: int | None) -> int | None:
        if "dead_letters" in self.name and gates:
            gates.pop().pass_number(0)
        return append(self, rows, batch, after=after)

    monkeypatch.setattr(kind, "append", waits)
    open_gate = Gate(tmp_path / "open gate")
    open_gate.open()
    first = follower(run, "first", tmp_path / "checkpoint", open_gate)
    send(confluent, topic, [b'{"id":1}', b"bad"])
    until(gate.reached.exists)

    # When another loader takes the table and loads everything, and the first one goes on then
    try:
        second = follower(run, "second", tmp_path / "other", open_gate)
        second.query.processAllAvailable()
    finally:
        gate.open()
    send(confluent, topic, [b'{"id":3}'])
    with pytest.raises(TakenOver):
        assert not first.wait(PATIENCE_S), "it ended by itself"
    second.query.processAllAvailable()
    second.query.stop()

    # Then each record is once in the table or among its dead letters
    assert contents(run().warehouse) == ([0, 1, 3], [2])
