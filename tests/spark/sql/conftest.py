"""Orders to ask for, and who plans queries of them."""

import json
from collections.abc import Iterator, Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark.jobs.sql_tables import TableOptions, TopicTables
from spark.log_location import POSTGRES_VARIABLE, STORE_VARIABLE, LogLocation
from spark.session import register_source
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.topics import new_topic
from tests.spark.sql.sql_orders import NOON_MS, Ask


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

    def noted(tables: TopicTables, options: Mapping[str, str]) -> DataFrame:
        made.append(options)
        return load(tables, options)

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
