"""Segments that Spark builds, against those that a broker builds of the same log."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.jobs.options import JobFailed
from spark.upkeep.building import build_partitions, plan_builds
from spark.upkeep.job import show_partitions
from spark.upkeep.partition_work import Outcome, PartitionDone, PartitionOrder
from spark.upkeep.spread import spread
from storage.errors import MetadataWentBack
from tests.clients.confluent import Confluent
from tests.spark.upkeep_clusters import (
    SOON,
    Cluster,
    check_received,
    new_cluster,
    rounds_of,
    send_rounds,
    send_transactions,
)

BUILT = "SELECT DISTINCT topic FROM streamhouse.segments WHERE built"


def build(
    session: SparkSession, cluster: Cluster, *topics: str, everything: bool = False
) -> list[PartitionDone]:
    """Build as the job does."""
    order = PartitionOrder(upkeep=cluster.upkeep, topics=topics, everything=everything)
    works = asyncio.run(plan_builds(order))
    return spread(
        session, works, partial(build_partitions, order), name="build", tell=lambda *_: None
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return new_cluster(
        tmp_path / "spark",
        "compression.type=zstd",
        "log.cleaner.enable=false",
    )


def test_segments_are_a_brokers_own_byte_for_byte(
    session: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    # Given topics of all kinds, and two clusters that are the same
    with cluster.broker() as broker:
        confluent = Confluent(bootstrap=broker.bootstrap)
        for topic, configs in {
            "plain": {"compression.type": "producer"},
            "packed": {"compression.type": "lz4", "compression.lz4.level": "3"},
            "followed": {},
            "compacted": {"cleanup.policy": "compact"},
        }.items():
            confluent.create_topic(topic, partition_count=2, configs=configs)
            send_rounds(
                broker.bootstrap,
                topic,
                rounds_of(9, 60, keyless=topic != "compacted"),
                **{"compression.type": "snappy"},
            )
        confluent.create_topic("transactions", partition_count=2)
        send_transactions(broker.bootstrap, "transactions", [True, False, True, False, True])
        confluent.create_topic("small", partition_count=1)
        send_rounds(broker.bootstrap, "small", rounds_of(1, 5))
    twin = cluster.copy(tmp_path / "broker")

    # When Spark builds what is due in one, and a broker's upkeep in the other
    results = build(session, cluster)
    with twin.broker(SOON):
        twin.until_like(cluster)

        # Then index and segments are the same, byte for byte
        assert twin.rows() == cluster.rows()
        assert twin.segments() == cluster.segments()
    assert {each.outcome for each in results} == {Outcome.DONE}
    assert len(results) == 10
    assert sum(each.counts["segments"] for each in results) == len(cluster.segments()) > 12
    assert "small" not in {each.topic for each in results}


def test_everything_is_built_where_it_is_wanted(session: SparkSession, cluster: Cluster) -> None:
    # Given two topics with a little each
    with cluster.broker() as broker:
        for topic in ("one", "other"):
            send_rounds(broker.bootstrap, topic, rounds_of(1, 5))

    # When nothing is due, then nothing is done
    assert build(session, cluster) == []
    with pytest.raises(LookupError, match="there is no topic nope"):
        build(session, cluster, "nope")

    # When all of one is built, then nothing of it is left, and the other one is as it was
    (done,) = build(session, cluster, "one", everything=True)
    assert (done.topic, done.partition, done.outcome) == ("one", 0, Outcome.DONE)
    assert cluster.fetch(BUILT) == [("one",)]
    assert build(session, cluster, "one", everything=True) == []


def test_a_database_that_brokers_have_marked_is_not_looked_after(cluster: Cluster) -> None:
    # Given a database that was set back, as a broker has seen before it ended
    cluster.mark()

    # When its log is to be built, then that is refused as brokers refuse it
    with pytest.raises(MetadataWentBack, match="it ends at 1"):
        asyncio.run(plan_builds(PartitionOrder(upkeep=cluster.upkeep)))


def test_a_bug_in_the_work_on_one_partition_fails_the_job_when_all_others_are_done() -> None:
    results = [
        PartitionDone(topic="one", partition=0, outcome=outcome, counts={})
        for outcome in (Outcome.DONE, Outcome.FAILED)
    ]
    with pytest.raises(JobFailed, match="1 partition cannot be worked on"):
        show_partitions(results, {}, as_json=False)


def test_a_broker_and_spark_build_the_same_log_while_producers_write(
    session: SparkSession, cluster: Cluster
) -> None:
    # Given a broker whose upkeep builds again and again, and a producer that goes on writing
    rounds = rounds_of(40, 50)
    sent = [record for records in rounds for record in records]
    rests = {"STREAMHOUSE_UPKEEP__BUILD_INTERVAL_MS": "5000"}  # and leaves Spark something
    with cluster.broker(SOON | rests) as broker, ThreadPoolExecutor(1) as thread:
        confluent = Confluent(bootstrap=broker.bootstrap)
        confluent.create_topic("busy", partition_count=3)
        producing = thread.submit(send_rounds, broker.bootstrap, "busy", rounds)

        # When Spark builds all that there is, again and again
        results = build(session, cluster, everything=True)
        while not producing.done():
            results += build(session, cluster, everything=True)
        producing.result()
        results += build(session, cluster, everything=True)

        # Then a stock client reads what was sent, everything is built, and nothing is damaged
        check_received(confluent.consume("busy"), sent)
        assert cluster.fetch("SELECT 1 FROM streamhouse.segments WHERE NOT built") == []
        assert cluster.fsck().damaged is False
    assert Outcome.DONE in {each.outcome for each in results}
    assert {each.outcome for each in results} <= {Outcome.DONE, Outcome.NOTHING}
