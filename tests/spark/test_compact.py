"""Logs that Spark compacts, against those that a broker's cleaner compacts."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.jobs.options import JobFailed
from spark.upkeep.building import build_partitions, plan_builds
from spark.upkeep.compacting import compact_partitions, plan_compactions
from spark.upkeep.partition_work import Outcome, PartitionDone, PartitionOrder
from spark.upkeep.spread import spread
from spark.upkeep.topic_policies import CLUSTER_WIDE
from storage.metadata.entity_configs import EntityChange
from storage.metadata.metadata_postgres import PostgresMetadata
from tests.clients.confluent import Confluent
from tests.clients.records import ConsumedRecord, SentRecord, by_partition
from tests.spark.upkeep_clusters import (
    SOON,
    Cluster,
    new_cluster,
    rounds_of,
    send_rounds,
    send_transactions,
)

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
NOT_DUE = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}


def build_all(session: SparkSession, cluster: Cluster) -> None:
    order = PartitionOrder(upkeep=cluster.upkeep, everything=True)
    works = asyncio.run(plan_builds(order))
    work = partial(build_partitions, order)
    spread(session, works, work, name="build", tell=lambda *_: None)


def compact(
    session: SparkSession, cluster: Cluster, *topics: str, everything: bool = False
) -> list[PartitionDone]:
    """Compact as the job does."""
    order = PartitionOrder(upkeep=cluster.upkeep, topics=topics, everything=everything)
    works = asyncio.run(plan_compactions(order))
    work = partial(compact_partitions, order)
    return spread(session, works, work, name="compact", tell=lambda *_: None)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return new_cluster(tmp_path / "spark", "log.cleaner.backoff.ms=200")


def latest(sent: list[SentRecord]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in sent}


def test_what_is_left_is_what_a_brokers_cleaner_leaves(
    session: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    # Given compacted topics of built segments, with tombstones and aborted transactions
    sent = {topic: rounds_of(12, 60, keyless=False) for topic in ("keys", "later")}
    with cluster.broker() as broker:
        confluent = Confluent(bootstrap=broker.bootstrap)
        for topic, configs in (("keys", COMPACTED), ("later", NOT_DUE)):
            confluent.create_topic(topic, partition_count=3, configs=configs)
            send_rounds(broker.bootstrap, topic, sent[topic], **{"compression.type": "lz4"})
        confluent.create_topic("ends", partition_count=2, configs=COMPACTED)
        send_transactions(broker.bootstrap, "ends", [True, False, True, False, True])
    build_all(session, cluster)
    twin = cluster.copy(tmp_path / "broker")

    # When Spark compacts what is due in one of two clusters, and a broker in the other
    results = compact(session, cluster)
    with twin.broker(SOON) as broker:
        twin.until_like(cluster)
        theirs = Confluent(bootstrap=broker.bootstrap)
        assert (
            cluster.batches() == twin.batches()
        )  # byte for byte; indexes have times of tombstones
        read_by_them = {topic: theirs.consume(topic) for topic in ("keys", "later", "ends")}

    # Then each has the latest of each key, at the offsets that they always had
    with cluster.broker() as broker:
        ours = Confluent(bootstrap=broker.bootstrap)
        for topic, records in read_by_them.items():
            assert by_partition(ours.consume(topic)) == by_partition(records)
    flat = [record for records in sent["keys"] for record in records]
    assert _latest_read(read_by_them["keys"]) == latest(flat)
    assert len(read_by_them["keys"]) < len(flat) == len(read_by_them["later"])
    assert {each.topic for each in results} == {"keys", "ends"}
    assert {each.outcome for each in results} == {Outcome.DONE}
    assert cluster.fsck().damaged is False

    # And what is not due is compacted where it is wanted, and only what can be
    assert compact(session, cluster) == []
    (*more,) = compact(session, cluster, "later", everything=True)
    assert sum(each.counts["records_kept"] for each in more) < len(flat)
    with pytest.raises(LookupError, match="there is no topic nope"):
        compact(session, cluster, "nope")


def _latest_read(records: list[ConsumedRecord]) -> dict[bytes | None, bytes | None]:
    ascending = sorted(records, key=lambda record: record.timestamp_ms)
    return {record.key: record.value for record in ascending}


def test_nothing_is_compacted_while_the_clusters_configs_cannot_be_read(
    session: SparkSession, cluster: Cluster
) -> None:
    # Given a topic to compact, and a lag of the cluster that only a later version can read
    sent = rounds_of(2, 20, keyless=False)
    with cluster.broker() as broker:
        Confluent(bootstrap=broker.bootstrap).create_topic(
            "keys", partition_count=1, configs=COMPACTED
        )
        send_rounds(broker.bootstrap, "keys", sent)
    build_all(session, cluster)
    lag = {"log.cleaner.min.compaction.lag.ms": "30d"}
    set_cluster_wide(cluster, lag)

    # When the job runs, then it fails and says why, until that can be read again
    for everything in (True, False):
        with pytest.raises(JobFailed, match="not all configs of the cluster can be read") as failed:
            compact(session, cluster, everything=everything)
        assert "log.cleaner.min.compaction.lag.ms" in failed.value.message
    set_cluster_wide(cluster, dict.fromkeys(lag))
    (done,) = compact(session, cluster, "keys", everything=True)
    assert done.outcome is Outcome.DONE


def set_cluster_wide(cluster: Cluster, configs: Mapping[str, str | None]) -> None:
    async def alter() -> None:
        metadata = await PostgresMetadata.open(cluster.dsn)
        await metadata.alter_entity_configs([EntityChange(entity=CLUSTER_WIDE, changes=configs)])
        await metadata.close()

    asyncio.run(alter())
