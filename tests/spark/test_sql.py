"""SQL over topics: fields as columns, conditions that narrow what is read, results for all."""

import asyncio
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.testing import assertDataFrameEqual

from spark.jobs.options import JobFailed, WrongUsage
from spark.jobs.sql_output import Format, write
from spark.jobs.sql_tables import TableOptions, TopicTables
from spark.log_location import POSTGRES_VARIABLE, STORE_VARIABLE, LogLocation
from spark.session import register_source
from spark.sources.query_plan import NotAQuery
from spark.sources.registry import Registered, Registry
from storage.snapshots import Snapshots
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.topics import add_partitions, new_topic
from tests.streamctl.conftest import COMMAND, REPOSITORY
from tests.support.broker import running_broker

NOON_MS = 1_750_000_000_000
START_S = 300  # of Java, where the machine has other things to do
ORDER = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
    }
)

Ask = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def workers(session: SparkSession, location: LogLocation) -> Iterator[None]:
    """Tell the session's workers where the log is, as a session of a job's own does."""
    names = {POSTGRES_VARIABLE: location.postgres, STORE_VARIABLE: location.store}
    environment = session.sparkContext.environment
    before = {name: environment[name] for name in names if name in environment}
    environment.update(names)
    register_source(session)
    yield
    for name in names:
        del environment[name]
    environment.update(before)
    register_source(session)


@pytest.fixture
def ask(session: SparkSession, location: LogLocation, workers: None, orders: str) -> Ask:
    """Return a function that plans a query; columns of orders are told, which saves a sample."""
    city = StructType().add("city", "string")
    columns = StructType().add("amount", "double").add("id", "long").add("to", city)

    def plan(text: str, **options: object) -> DataFrame:
        told: dict[str, object] = {"columns": {orders: columns}, **options}
        tables = TableOptions(**told)  # type: ignore[arg-type]
        return TopicTables(session, location, tables).plan(text)

    return plan


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """Options of all reads, in the order in which they were made."""
    made: list[Mapping[str, str]] = []
    load = TopicTables._load

    def noted(tables: TopicTables, topic: str, options: Mapping[str, str]) -> DataFrame:
        made.append(options)
        return load(tables, topic, options)

    monkeypatch.setattr(TopicTables, "_load", noted)
    return made


@pytest.fixture(scope="module")
def orders(confluent: Confluent) -> str:
    """Orders 0 to 29, a second apart; and a value that is no JSON."""
    topic = new_topic(confluent, "sql_orders", partition_count=3).replace("-", "_")
    confluent.create_topic(topic, partition_count=3, configs={"retention.ms": "-1"})
    records = [
        SentRecord(
            key=f"customer-{number % 3}".encode(),
            value=json.dumps({"id": number, "amount": number / 2, "to": {"city": "Ulm"}}).encode(),
            timestamp_ms=NOON_MS + 1000 * number,
            headers=(("trace", b"x"),),
        )
        for number in range(30)
    ]
    confluent.produce(topic, records)
    confluent.produce(topic, [SentRecord(key=b"odd", value=b"not JSON", timestamp_ms=NOON_MS)])
    return topic


def test_fields_are_columns_beside_those_of_records(ask: Ask, orders: str) -> None:
    # When a topic is asked for everything
    result = ask(f"SELECT * FROM {orders} ORDER BY id", columns={})

    # Then fields come first, and each record is there, whether it has them or not
    assert result.columns == [
        *("amount", "id", "to", "_key", "_value", "_headers"),
        *("_partition", "_offset", "_timestamp"),
    ]
    rows = result.collect()
    assert len(rows) == 31
    assert (rows[0]["id"], rows[0]["_value"], rows[0]["_key"]) == (None, "not JSON", "odd")
    assert (rows[5]["amount"], rows[5]["to"]["city"], rows[5]["_key"]) == (2.0, "Ulm", "customer-1")
    assert rows[5]["_headers"][0]["key"] == "trace"


def test_a_query_may_be_any_query(ask: Ask, orders: str, session: SparkSession) -> None:
    # When topics are joined, grouped and named
    result = ask(
        f"WITH Paid AS (SELECT * FROM {orders} WHERE amount > 0)"
        f" SELECT a._key AS customer, sum(b.amount) AS total FROM {orders} a"
        f" JOIN paid b ON a.id = b.id WHERE a.id IN (SELECT id FROM {orders} WHERE id < 6)"
        " GROUP BY 1 ORDER BY 1"
    )

    # Then the result is that of SQL
    rows = [("customer-0", 1.5), ("customer-1", 2.5), ("customer-2", 3.5)]
    assertDataFrameEqual(result, session.createDataFrame(rows, "customer string, total double"))


def test_conditions_narrow_what_is_read(
    ask: Ask, orders: str, loads: list[Mapping[str, str]], confluent: Confluent
) -> None:
    # When conditions are on where and when records are, in the words of people
    result = ask(
        f"SELECT t.id FROM (SELECT * FROM {orders}) t WHERE _partition IN (1, 2) AND _offset >= 2"
        f" AND 7 >= _offset AND _timestamp >= timestamp_millis({NOON_MS + 3000}) AND"
        f" (_timestamp < timestamp_millis({NOON_MS + 9000}) OR"
        f" _timestamp = timestamp_millis({NOON_MS + 20_000}))"
    )

    # Then no more is read than may be wanted, and no more is there than is wanted
    options = loads[-1]
    assert json.loads(options["assign"]) == {orders: [1, 2]}
    held = confluent.record_counts(orders)
    starts = {str(number): min(2, held[number]) for number in (1, 2)}
    assert json.loads(options["startingOffsets"])[orders] == starts
    ends = {str(number): min(8, held[number]) for number in (1, 2)}
    assert json.loads(options["endingOffsets"])[orders] == ends
    assert options["fromTimestamp"] == str(NOON_MS + 3000)
    assert options["untilTimestamp"] == str(NOON_MS + 20_001)
    assert options["includeHeaders"] == "false"
    everything = ask(f"SELECT id, _partition, _offset FROM {orders} WHERE id IS NOT NULL").collect()
    wanted = {
        row["id"]
        for row in everything
        if row["_partition"] in (1, 2)
        and 2 <= row["_offset"] <= 7
        and (3 <= row["id"] < 9 or row["id"] == 20)
    }
    assert {row["id"] for row in result.collect()} == wanted

    # and of what cannot be, nothing is read at all
    before = len(loads)
    assert ask(f"SELECT * FROM {orders} WHERE _partition = 7").collect() == []
    assert len(loads) == before


def test_two_tables_of_a_topic_are_read_as_far_as_either_needs(
    ask: Ask, orders: str, loads: list[Mapping[str, str]]
) -> None:
    # When a topic stands there twice, with other conditions
    result = ask(
        f"SELECT count(*) FROM {orders} a, {orders} b WHERE a.id = b.id AND"
        " a._offset < 3 AND b._offset < 5"
    )

    # Then both are right
    assert result.collect()[0][0] > 0
    assert all(end <= 5 for end in json.loads(loads[-1]["endingOffsets"])[orders].values())


def test_a_name_of_the_query_is_no_column_of_the_topic(ask: Ask, orders: str) -> None:
    # When a query calls something else by the name of a column, then that narrows nothing
    rows = ask(
        f"SELECT id FROM (SELECT id, rand() AS r, _offset + 100 AS offset FROM {orders})"
        " WHERE offset >= 100 AND r >= 0 AND id IS NOT NULL"
    )
    assert len(rows.collect()) == 30


def test_a_query_sees_one_moment(ask: Ask, orders: str, confluent: Confluent) -> None:
    # Given a query that is planned
    topic = new_topic(confluent, "moment")
    confluent.produce(topic, [SentRecord(key=None, value=b'{"a": 1}')])
    result = ask(f"SELECT sum(a) FROM `{topic}`")

    # When another record comes before it runs, then it is not in it
    confluent.produce(topic, [SentRecord(key=None, value=b'{"a": 1}')])
    assert result.collect()[0][0] == 1
    assert ask(f"SELECT sum(a) FROM `{topic}`").collect()[0][0] == 2


def test_a_query_may_be_as_of_a_time(ask: Ask, orders: str) -> None:
    # When it is asked as of a time, then later records are not there
    rows = ask(f"SELECT max(id) FROM {orders} WHERE _partition >= 0", as_of=str(NOON_MS + 4000))
    assert rows.collect()[0][0] <= 4


def test_a_query_may_be_as_of_a_snapshot_of_fewer_partitions(
    ask: Ask, confluent: Confluent, location: LogLocation
) -> None:
    # Given a snapshot of a topic that got a partition since
    topic = new_topic(confluent, "fewer")
    confluent.produce(topic, [SentRecord(key=None, value=b'{"a": 1}') for _ in range(3)])
    snapshot = f"s-{uuid4().hex[:12]}"

    async def make() -> None:
        async with Snapshots.open(location.postgres) as snapshots:
            await snapshots.create(snapshot, [topic], retention_ms=None)

    asyncio.run(make())
    add_partitions(confluent, topic, 2)

    # When it is asked as of that, then it has what was there, of whichever partitions
    def count(where: str) -> int:
        text = f"SELECT count(*) FROM `{topic}` WHERE {where}"
        return int(ask(text, as_of=snapshot).collect()[0][0])

    assert count("a = 1") == 3
    assert count("_partition >= 0") == 3
    assert count("_partition = 1") == 0

    # and what is no snapshot, or not of the topic, is said
    other = new_topic(confluent, "other")
    with pytest.raises(PySparkException, match=f"is not of {other}"):
        ask(f"SELECT * FROM `{other}`", as_of=snapshot).collect()
    with pytest.raises(JobFailed, match="there is no snapshot"):
        ask(f"SELECT * FROM `{topic}`", as_of="missing")


def test_columns_may_be_told(ask: Ask, orders: str) -> None:
    # When types are told, then they are those, and what does not fit is null
    columns = StructType().add("id", "string").add("amount", "integer").add("missing", "date")
    result = ask(
        f"SELECT id, amount, missing FROM {orders} WHERE id = '4'", columns={orders: columns}
    )
    assert result.dtypes == [("id", "string"), ("amount", "int"), ("missing", "date")]
    assert [tuple(row) for row in result.collect()] == [("4", None, None)]


def test_schemas_of_a_registry_name_columns(ask: Ask, confluent: Confluent) -> None:
    # Given Avro of a schema that a registry has, and JSON of another one
    class Known(Registry):
        def ids_of(self, subject: str) -> list[int]:
            return [7, 8] if subject == f"{topic}-value" else []

    topic = new_topic(confluent, "registered").replace("-", "_")
    confluent.create_topic(topic, partition_count=1)
    columns = StructType().add("id", "long").add("item", "string")
    registry = Known(
        url="http://127.0.0.1:1",
        known={
            7: Registered(kind="AVRO", text=ORDER, columns=columns),
            8: Registered(kind="JSON", text="{}", columns=None),
        },
    )
    avro = struct.pack(">bI", 0, 7) + bytes([2 * 21, 2 * 3]) + b"cup"
    plain = struct.pack(">bI", 0, 8) + b'{"id": 22, "note": "as JSON"}'
    confluent.produce(topic, [SentRecord(key=None, value=value) for value in (avro, plain)])

    # When it is asked, then both have their columns
    rows = ask(f"SELECT id, item, note FROM {topic} ORDER BY id", registry=registry).collect()
    assert [tuple(row) for row in rows] == [(21, "cup", None), (22, None, "as JSON")]

    # and a topic that the registry does not know is named
    other = new_topic(confluent, "unregistered")
    with pytest.raises(JobFailed, match=f"no subject {other}-value"):
        ask(f"SELECT * FROM `{other}`", registry=registry)


def test_what_cannot_be_asked_is_said(ask: Ask, orders: str, confluent: Confluent) -> None:
    # When topics are misspelt, columns are missing, or something is to be changed
    with pytest.raises(JobFailed, match="there is no topic") as failed:
        ask(f"SELECT * FROM {orders}x")
    assert orders in failed.value.fix
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        ask(f"SELECT amuont FROM {orders}")
    for statement in (f"DROP TABLE {orders}", f"INSERT INTO {orders} VALUES (1)", "SET a = 1"):
        with pytest.raises(NotAQuery):
            ask(statement)
    dotted = f"{orders}.dotted"
    confluent.create_topic(dotted, partition_count=1)
    with pytest.raises(WrongUsage, match="has dots"):
        ask(f"SELECT * FROM {dotted}")
    assert ask(f"SELECT * FROM `{dotted}`").collect() == []


def test_results_are_tables_json_and_parquet(
    ask: Ask, orders: str, session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a result
    text = f"SELECT id, _timestamp AS at, amount, to FROM {orders} WHERE id < 2 ORDER BY id"
    result = ask(text)

    # When it is printed as JSON, then each line is an object with what is null, too
    write(result, Format.json, output=None, limit=1)
    line = json.loads(capsys.readouterr().out)
    at = "2025-06-15T15:06:40.000Z"
    assert line == {"id": 0, "at": at, "amount": 0.0, "to": {"city": "Ulm"}}

    # When it is a table, then it fits people, and says what it leaves out
    write(result, Format.table, output=None, limit=1)
    shown = capsys.readouterr()
    assert shown.out.split() == [
        *("id", "at", "amount", "to"),
        *("0", "2025-06-15", "15:06:40", "0.0", "{Ulm}"),
    ]
    assert "more than these 1 rows" in shown.err

    # When it is written as Parquet, then it can be read
    write(result, Format.parquet, output=str(tmp_path / "result"), limit=None)
    assertDataFrameEqual(session.read.parquet(str(tmp_path / "result")), result)

    # and two columns of a name are refused there, but shown
    twice = ask(f"SELECT a.id, b.id FROM {orders} a JOIN {orders} b ON a.id = b.id WHERE a.id = 3")
    with pytest.raises(WrongUsage, match="two columns"):
        write(twice, Format.json, output=None, limit=None)
    write(twice, Format.table, output=None, limit=None)
    assert capsys.readouterr().out.split() == ["id", "id", "3", "3"]


def test_json_of_any_size_passes_through_the_driver(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given 800 MB of lines that one task makes, more than the driver has memory
    body = "repeat('lorem ipsum ', 340)"
    result = session.range(0, 200_000, 1, 1).selectExpr("id", f"{body} AS body")

    # When they are printed
    out = tmp_path / "lines"
    with out.open("w") as lines, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", lines)
        write(result, Format.json, output=None, limit=None)

    # Then they are all there, in their order
    with out.open() as lines:
        assert all(line.startswith(f'{{"id":{number},') for number, line in enumerate(lines))
    assert out.stat().st_size > 800_000_000


def test_the_command_line_asks_in_a_process_of_its_own(
    orders: str, location_options: dict[str, str], tmp_path: Path
) -> None:
    place = Path("/proc")  # where nobody can write

    def streamctl(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            (*COMMAND, "sql", "--data", location_options["data"], *arguments),
            capture_output=True,
            text=True,
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            timeout=START_S,
            check=False,
        )

    # When people ask, from wherever they are
    text = f"-- of all\nSELECT sum(amount) AS total, count(*) AS records FROM {orders}"
    ended = streamctl("--format", "json", "--", text)

    # Then they get what they asked for, and nothing else
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"total": 217.5, "records": 31}
    assert ended.stderr == ""

    # and what they write is where they are, alone
    place = tmp_path
    written = streamctl("SELECT 1 AS a", "--format", "parquet", "--output", "results")
    assert written.returncode == 0, written.stderr
    assert [one.name for one in place.iterdir()] == ["results"]

    # and of a mistake they are told that alone, without what Java says of itself
    mistaken = streamctl("SELEC 1")
    assert mistaken.returncode == 2
    assert mistaken.stderr.startswith("error: [PARSE_SYNTAX_ERROR]")

    # and what makes no sense is said at once, before Java starts
    refused = streamctl("SELECT 1", "--format", "parquet")
    assert refused.returncode == 2
    assert "--output" in refused.stderr


def test_a_database_that_does_not_run_is_said_to(tmp_path: Path) -> None:
    # Given the directory of a broker that was stopped
    with running_broker(tmp_path):
        pass

    # When its topics are asked, then it says what has to run
    ended = subprocess.run(
        (*COMMAND, "sql", "SELECT * FROM orders", "--data", str(tmp_path)),
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=START_S,
        check=False,
    )
    assert ended.returncode == 1
    error, fix = ended.stderr.splitlines()
    assert "cannot connect" in error
    assert "as long as its broker does" in fix


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ((sys.executable, "-m", "spark.jobs.sql", "SELECT 1"), "--postgres"),
        ((sys.executable, "-m", "spark.jobs.sql", "SELECT 1", "--limit", f"{2**31}"), "--limit"),
        ((*COMMAND, "sql", "SELECT 1", "--limit", f"{2**31}"), "--limit"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_said(command: tuple[str, ...], word: str) -> None:
    # When there is no log, or a number that Spark does not take, then it names the option
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert ended.returncode == 2
    assert word in ended.stderr
