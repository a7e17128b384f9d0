"""A whole store checked on Spark, against `storage.fsck` in one process."""

import asyncio
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from protocol.ids import Partition
from spark.upkeep.building import build_partitions, plan_builds
from spark.upkeep.checking import check_pieces, cut, plan_check
from spark.upkeep.found import SCHEMA, CheckReport
from spark.upkeep.partition_work import PartitionOrder
from spark.upkeep.spread import deal, spread
from storage.fsck.fsck_findings import Kind
from tests.clients.confluent import Confluent
from tests.spark.upkeep_clusters import Cluster, new_cluster, rounds_of, send_rounds
from tests.storage.segments_made import TOPIC_ID

HOUR_S = 3600
PIECE_BYTES = 10_000


def check(session: SparkSession, cluster: Cluster, *topics: str, deep: bool = True) -> CheckReport:
    """Check as the job does, in many small pieces."""
    location = cluster.location
    pieces = asyncio.run(plan_check(location, deep=deep, topics=topics, piece_bytes=PIECE_BYTES))
    work = partial(check_pieces, location)
    return CheckReport.of(spread(session, pieces, work, name="fsck", tell=lambda *_: None))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two topics, one of them built."""
    cluster = new_cluster(tmp_path)
    with cluster.broker() as broker:
        confluent = Confluent(bootstrap=broker.bootstrap)
        for topic in ("built", "written"):
            confluent.create_topic(topic, partition_count=2)
            send_rounds(broker.bootstrap, topic, rounds_of(8, 50))
        order = PartitionOrder(upkeep=cluster.upkeep, topics=("built",), everything=True)
        list(build_partitions(order, asyncio.run(plan_builds(order))))
        yield cluster


def spoil(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_sound_store_is_clean(session: SparkSession, cluster: Cluster) -> None:
    # When all of it is read, in pieces that cut through segments
    report = check(session, cluster)

    # Then nothing is found, and everything was looked at
    assert report.found == []
    assert not report.damaged
    rows = cluster.rows()
    assert (report.checked.partitions, report.checked.rows) == (4, len(rows))
    assert report.checked.read_bytes >= sum(length for *_, length in rows)
    assert report.checked.objects == sum(len(files) for _, _, files in os.walk(cluster.store)) - 1
    assert report.frame(session).count() == 0


def test_what_is_damaged_missing_or_foreign_is_found(
    session: SparkSession, cluster: Cluster
) -> None:
    # Given a flipped bit in each kind of object, one that is gone, a row that is, and a stranger
    rows = cluster.rows()
    built = [row for row in rows if row[0] == "built" and row[1] == 0]
    written = [row for row in rows if row[0] == "written" and row[1] == 1]
    spoil(cluster.store / built[0][4], 700)
    spoil(cluster.store / built[-1][4], (cluster.store / built[-1][4]).stat().st_size - 20)
    spoil(cluster.store / written[1][4], written[1][5] + 65)
    (cluster.store / written[-1][4]).unlink()
    cluster.fetch(
        "DELETE FROM streamhouse_internal.segments AS s USING streamhouse_internal.topics AS t"
        " WHERE s.topic_id = t.topic_id AND t.name = 'written' AND s.partition = 0"
        " AND s.start_offset = 0"
    )
    stranger = cluster.store / "wal" / "7f" / "stranger"
    stranger.parent.mkdir(parents=True, exist_ok=True)
    stranger.write_bytes(b"not of this log")
    os.utime(stranger, (time.time() - 5 * HOUR_S,) * 2)

    # When Spark checks it
    report = check(session, cluster)

    # Then it finds what one process finds, and each once
    alone = cluster.fsck()
    assert {each.kind for each in report.found} == {kind.name for kind in alone.counts}
    for kind, examples in alone.examples.items():
        assert sorted(each.place for each in report.of_kind(kind)) == sorted(examples), kind
    damaged = len(report.of_kind(Kind.DAMAGED))
    assert damaged >= 4  # an object that is gone is one, for each partition that it has rows of
    assert [each.place for each in report.of_kind(Kind.ORPHANS)] == ["wal/7f/stranger"]
    assert report.damaged

    # And programs get it as JSON, and as a table
    kinds = {each["kind"]: each for each in report.as_json()["findings"]}
    assert kinds["damaged bytes"]["count"] == damaged
    assert kinds["object missing"]["advice"] == Kind.OBJECT_MISSING.advice
    missing = report.of_kind(Kind.OBJECT_MISSING)[0].place
    expected = session.createDataFrame(
        [("object missing", True, missing, 1, Kind.OBJECT_MISSING.advice)], SCHEMA
    )
    assertDataFrameEqual(report.frame(session).where("kind = 'object missing'"), expected)

    # And a topic alone can be looked at
    assert {each.kind for each in check(session, cluster, "built").found} == {"DAMAGED"}
    assert not check(session, cluster, "built", deep=False).damaged


def test_pieces_cover_every_offset_once() -> None:
    one = Partition(TOPIC_ID, 3)
    for start, end, size, piece in ((0, 10, 100, 30), (5, 6, 100, 1), (7, 900, 0, 8), (3, 3, 0, 1)):
        pieces = cut(one, start, end, size, piece)
        offsets = [offset for each in pieces for offset in range(each.start, each.end)]
        assert offsets == list(range(start, end))
        assert all(each.partition == one and each.start < each.end for each in pieces)
    assert len(cut(one, 0, 10, 100, 30)) == 4


def test_items_are_dealt_to_all() -> None:
    assert deal([1, 2, 3, 4, 5], 2) == [[1, 3, 5], [2, 4]]
    assert deal([1], 8) == [[1]]
    assert deal([], 8) == []
