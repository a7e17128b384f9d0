"""The fraud job, live beside a loader that replays: each at its own pace, neither in the way."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from spark.jobs.fraud import FraudFold, run_fraud
from spark.jobs.group_commits import GroupCommits
from spark.jobs.options import PipelineOptions, Source
from spark.log_location import POSTGRES, POSTGRES_VARIABLE, STORE, STORE_VARIABLE, LogLocation
from spark.session import register_source
from spark.sinks.batch_tables import BatchTables
from spark.tables.fraud import ALERTS, Rules
from tests.clients.confluent import Confluent
from tests.spark.shopflow import START, Event, produce

FOLD: Final = FraudFold(decisions=Rules(large_amount=Decimal(500), rapid_count=2))
DEADLINE_S: Final = 120


def payment(offset: int, minutes: int, amount: int) -> Event:
    return Event(
        partition=0,
        offset=offset,
        key="customer-1",
        event_id=f"e-{offset}",
        order_id=offset,
        event_time=START + timedelta(minutes=minutes),
        amount=Decimal(amount),
    )


@contextmanager
def in_background(session: SparkSession, work: Callable[[], None], query: str) -> Iterator[None]:
    """Run a job that goes on for the length of a block."""
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(work)
        try:
            yield
        finally:
            for each in session.streams.active:
                if each.name == query:
                    each.stop()
            running.result(DEADLINE_S)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def committed(bootstrap: str, group: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = [ConsumerGroupTopicPartitions(group)]
    answer = admin.list_consumer_group_offsets(asked)[group].result(30)
    return {each.partition: each.offset for each in answer.topic_partitions}


def test_a_live_consumer_goes_on_while_a_loader_replays(
    session: SparkSession, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    # Given a topic with payments, and the fraud job at its end
    confluent.create_topic(topic, partition_count=1)
    confluent.create_topic(f"{topic}-alerts", partition_count=1)
    produce(confluent.bootstrap, topic, [payment(0, 0, 10), payment(1, 60, 900)])
    options = PipelineOptions(
        bootstrap=confluent.bootstrap,
        topics=(topic,),
        output=str(tmp_path / "fraud"),
        checkpoint=str(tmp_path / "fraud.checkpoint"),
        report=tmp_path / "report",
        follow=True,
    )
    alerts = BatchTables(session=session, path=options.output)

    def raised() -> set[str]:
        rows = alerts.table("alerts", ALERTS).collect()
        assert len(rows) == len({row["alert_id"] for row in rows})
        return {row["alert_id"] for row in rows}

    def watch() -> None:
        run_fraud(session, options, FOLD, group=f"{topic}-fraud", alerts_topic=f"{topic}-alerts")

    with in_background(session, watch, "fraud"):
        eventually(lambda: raised() == {"large:e-1"})
        eventually(lambda: committed(confluent.bootstrap, f"{topic}-fraud") == {0: 2})

        # When a loader replays the topic from offset 0, at its own pace
        stream = session.readStream.format("kafka").option("subscribe", topic)
        stream = stream.option("kafka.bootstrap.servers", confluent.bootstrap)
        stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "1")
        loader = stream.load().writeStream.format("parquet").trigger(availableNow=True)
        loader = loader.option("checkpointLocation", str(tmp_path / "loader.checkpoint"))
        loading = loader.start(str(tmp_path / "loaded"))

        # And payments come meanwhile, two close together
        produce(confluent.bootstrap, topic, [payment(2, 61, 20), payment(3, 61, 30)])

        # Then the live consumer reports them, and its group shows where it is
        eventually(lambda: raised() == {"large:e-1", "rapid:e-3"})
        eventually(lambda: committed(confluent.bootstrap, f"{topic}-fraud") == {0: 4})

        # And the loader has what was there when it began
        assert loading.awaitTermination(DEADLINE_S)
        loaded = session.read.parquet(str(tmp_path / "loaded")).select("offset").collect()
        assert {0, 1} <= {row["offset"] for row in loaded}

    # And alerts are in their topic, and the lag in the report
    sent = [record.value for record in confluent.consume(f"{topic}-alerts")]
    assert [b'"large:e-1"' in (value or b"") for value in sent] == [True, False]
    assert (tmp_path / "report" / "lag.png").exists()
    assert "rapid" in (tmp_path / "report" / "index.html").read_text()


def test_a_group_with_members_does_not_end_the_job(
    session: SparkSession, confluent: Confluent, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a group that a consumer is in
    confluent.create_topic(topic, partition_count=1)
    consumer = Consumer({"bootstrap.servers": confluent.bootstrap, "group.id": topic})
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()))
    commits = GroupCommits(session, topic, {"bootstrap.servers": confluent.bootstrap})
    progress = {"sources": [{"endOffset": {topic: {"0": 5}}}]}

    # When a batch is told to it, then that it was refused is said, and no more
    commits.commit(progress)
    assert "progress not reported to the group" in caplog.text

    # And when the group has no members, it is told
    consumer.close()
    commits.commit(progress)
    commits.close()
    assert committed(confluent.bootstrap, topic) == {0: 5}


def test_without_brokers_alerts_are_in_their_topic_once(
    session: SparkSession,
    confluent: Confluent,
    location: LogLocation,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a topic with a payment that is too large, read from the store itself
    confluent.create_topic(topic, partition_count=1)
    confluent.create_topic(f"{topic}-alerts", partition_count=1)
    produce(confluent.bootstrap, topic, [payment(0, 0, 900)])
    workers = session.sparkContext.environment
    monkeypatch.setitem(workers, POSTGRES_VARIABLE, location.postgres)
    monkeypatch.setitem(workers, STORE_VARIABLE, location.store)
    register_source(session)
    options = PipelineOptions(
        source=Source.direct,
        log={POSTGRES: location.postgres, STORE: location.store},
        topics=(topic,),
        output=str(tmp_path / "fraud"),
        checkpoint=str(tmp_path / "fraud.checkpoint"),
    )

    # When the driver dies after a batch, before it has noted that, and the job runs again
    run_fraud(session, options, FOLD, group=f"{topic}-fraud", alerts_topic=f"{topic}-alerts")
    commits = tmp_path / "fraud.checkpoint" / "commits"
    for name in ("0", ".0.crc"):
        (commits / name).unlink()
    run_fraud(session, options, FOLD, group=f"{topic}-fraud", alerts_topic=f"{topic}-alerts")

    # Then the alert is there once
    sent = [record.value for record in confluent.consume(f"{topic}-alerts")]
    assert [b'"large:e-0"' in (value or b"") for value in sent] == [True]
