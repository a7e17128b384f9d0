"""SQL over topics: fields as columns, conditions that narrow what is read, one moment for all."""

import asyncio
import json
import struct
from collections.abc import Mapping
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from pyspark.testing import assertDataFrameEqual

from spark.jobs.options import JobFailed, WrongUsage
from spark.log_location import LogLocation
from spark.sources.query_plan import NotAQuery
from spark.sources.registry import Registered, Registry
from storage.snapshots import Snapshots
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.topics import add_partitions, new_topic
from tests.spark.sql.sql_orders import NOON_MS, Ask

ORDER = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
    }
)


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
