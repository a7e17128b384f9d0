"""What is exported once per cluster: by whom, how often Postgres is asked, and what it says."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, TopicPartition

from broker.broker_set import BrokerSet
from broker.http import cluster_metrics
from broker.http.cluster_metrics import FAILED_REST, REST, ClusterMetrics, Question
from broker.http.exposition import PIECE_LINES, Family, family_pieces, label_text
from broker.http.metrics_config import MetricsConfig
from protocol.records import Record, build_batch
from storage.errors import MetadataUnavailable
from storage.metadata.brokers import BrokerRecord, Membership
from storage.metadata.progress import TopicProgress
from tests.broker.test_http import get
from tests.support.broker import BrokerProcess, start_broker
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.postgres import create_empty_database
from tests.support.wire import WireClient

HANDED_OVER_S = 20.0
GLANCE_S = 0.1


def series(text: str) -> dict[str, float]:
    """Return the series that are exported once per cluster, without that prefix."""
    prefix = "streamhouse_cluster_"
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith(prefix)]
    return {where.removeprefix(prefix): float(value) for where, _, value in lines}


def brokers(node_id: int, *alive: int) -> BrokerSet:
    records = [BrokerRecord(node_id=one, addresses=("h:1",), rack=None) for one in alive]
    return BrokerSet(Membership(node_id=node_id, generation=1, brokers=records))


class Asked:
    """A question to Postgres that takes as long as the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.takes_s = 0.0
        self.fails = False
        self.bug: Exception | None = None
        self.times = 0
        self.turn = asyncio.Lock()
        self.question = Question(
            self.ask, interval_s=10.0, turn=self.turn, clock=lambda: self.now_s
        )

    async def ask(self) -> int:
        self.times += 1
        await asyncio.sleep(0)
        self.now_s += self.takes_s
        if self.fails:
            raise MetadataUnavailable("away")
        if self.bug is not None:
            raise self.bug
        return self.times


async def test_many_who_ask_at_once_share_an_answer() -> None:
    # Given a question
    asked = Asked()

    # When several ask it together, and again soon, then Postgres is asked once
    await asyncio.gather(*(asked.question.renew() for _ in range(5)))
    asked.now_s = 9.9
    await asked.question.renew()
    assert (asked.times, asked.question.answer) == (1, 1)

    # When the time is over, then it is asked again
    asked.now_s = 10.0
    await asked.question.renew()
    assert (asked.times, asked.question.answer) == (2, 2)


async def test_what_takes_long_is_asked_less_often() -> None:
    # Given a question whose answer takes two seconds
    asked = Asked()
    asked.takes_s = 2.0
    await asked.question.renew()

    # Then Postgres has its rest, longer than the interval
    asked.now_s = 2.0 * REST - 0.1
    await asked.question.renew()
    assert asked.times == 1
    asked.now_s = 2.0 * REST
    await asked.question.renew()
    assert asked.times == 2


async def test_an_outage_does_not_outlast_itself() -> None:
    # Given a question that Postgres did not answer in thirty seconds
    asked = Asked()
    asked.takes_s, asked.fails = 30.0, True
    await asked.question.renew()

    # When Postgres is back, then it is asked soon
    asked.fails = False
    asked.now_s = 30.0 * FAILED_REST
    await asked.question.renew()
    assert (asked.times, asked.question.answer) == (2, 2)


async def test_a_bug_in_a_question_is_raised_to_who_asks() -> None:
    # Given a question that fails in a way that nobody has thought of
    asked = Asked()
    asked.bug = RuntimeError("bug")

    # When it is asked by two, then both are told
    for raised in await asyncio.gather(
        *(asked.question.renew() for _ in range(2)), return_exceptions=True
    ):
        assert raised is asked.bug

    # And the next time it is asked again
    asked.bug = None
    await asked.question.renew()
    assert (asked.times, asked.question.answer) == (2, 2)


async def test_who_waits_when_a_question_is_given_up_goes_on() -> None:
    # Given a question whose turn it is not, and somebody who waits for its answer
    asked = Asked()
    async with asked.turn:
        asking = asyncio.create_task(asked.question.renew())
        await asyncio.sleep(0)

        # When it is given up, then nobody is cancelled
        await asked.question.close()
        await asking
    assert asked.times == 0


async def test_one_question_is_asked_at_a_time() -> None:
    # Given a question whose turn it is not
    asked = Asked()
    async with asked.turn:
        asking = asyncio.create_task(asked.question.renew())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asked.times == 0

    # When it is, then it is asked
    await asking
    assert (asked.times, asked.question.answer) == (1, 1)


async def test_the_last_answer_is_good_while_postgres_is_away() -> None:
    # Given an answer
    asked = Asked()
    await asked.question.renew()

    # When Postgres does not answer any more, then it stays, and so does its age
    asked.fails = True
    asked.now_s = 60.0
    await asked.question.renew()
    assert asked.times == 2
    assert (asked.question.answer, asked.question.answered_s) == (1, 0.0)


async def test_only_the_controller_exports_and_hands_over() -> None:
    # Given two brokers of one cluster
    store = MemoryMetadata(Random(1))
    await store.create_topic("orders", partition_count=1, replication_factor=1, configs={})
    known = {node_id: brokers(node_id, 0, 1) for node_id in (0, 1)}

    def metrics_of(node_id: int) -> ClusterMetrics:
        return ClusterMetrics(
            store,
            lambda: known[node_id],
            MetricsConfig(),
            now_ms=lambda: 0,
            clock=time.monotonic,
        )

    metrics = {node_id: metrics_of(node_id) for node_id in (0, 1)}

    async def exported(node_id: int) -> dict[str, float]:
        text = b"".join(family_pieces(await metrics[node_id].families())).decode()
        return series(text)

    # Then the one with the lowest id does it
    assert 'partition_high_watermark{topic="orders",partition="0"}' in await exported(0)
    assert await exported(1) == {}

    # When it has left, then the other one does
    known[0] = known[1] = brokers(1, 1)
    known[0] = brokers(0, 1)
    assert await exported(0) == {}
    assert (await exported(1))["brokers"] == 1

    # And before a broker has joined, it exports nothing
    known[1] = brokers(-1)
    assert await exported(1) == {}


class HungMetadata(MemoryMetadata):
    """Never says how far topics have come."""

    async def topic_progress(self, limit: int) -> list[TopicProgress]:
        await asyncio.Event().wait()
        raise AssertionError(limit)


async def test_what_the_broker_knows_is_exported_while_postgres_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_metrics, "PATIENCE_S", 0.01)
    metrics = ClusterMetrics(
        HungMetadata(Random(1)),
        lambda: brokers(0, 0),
        MetricsConfig(),
        now_ms=lambda: 0,
        clock=time.monotonic,
    )
    for _ in range(2):
        found = series(b"".join(family_pieces(await metrics.families())).decode())
        assert found["brokers"] == 1
        assert 'metrics_age_seconds{of="topics"}' not in found
    await metrics.close()


async def test_what_is_beyond_the_limit_is_said_to_be_left_out() -> None:
    store = MemoryMetadata(Random(1))
    await store.create_topic("orders", partition_count=3, replication_factor=1, configs={})
    config = MetricsConfig(cluster_max_partitions=2)
    metrics = ClusterMetrics(
        store, lambda: brokers(0, 0), config, now_ms=lambda: 0, clock=time.monotonic
    )
    found = series(b"".join(family_pieces(await metrics.families())).decode())
    assert found['metrics_limited{of="topics"}'] == 1
    assert found['metrics_limited{of="group_offsets"}'] == 0
    assert found['metrics_limited{of="groups"}'] == 0
    assert sum(name.startswith("partition_high_watermark") for name in found) == 2


async def test_groups_beyond_the_limit_are_left_out_too() -> None:
    store = MemoryMetadata(Random(1))
    await store.take_groups(["c", "a", "b"], create=True)
    config = MetricsConfig(cluster_max_partitions=2)
    metrics = ClusterMetrics(
        store, lambda: brokers(0, 0), config, now_ms=lambda: 0, clock=time.monotonic
    )
    found = series(b"".join(family_pieces(await metrics.families())).decode())
    assert found['metrics_limited{of="groups"}'] == 1
    named = [name for name in found if name.startswith("group_members")]
    assert named == ['group_members{group="a"}', 'group_members{group="b"}']


def test_a_hundred_thousand_series_come_in_small_pieces() -> None:
    # Given a family with very many series
    labels = label_text(group="g", topic="t")
    samples = ((f'{labels},partition="{at}"', at) for at in range(100_000))
    family = Family(name="x", text="What it is.", samples=samples)

    # When its text is made, then no piece takes long: clients have their turn between two of them
    pieces = list(family_pieces([family]))
    assert max(piece.count(b"\n") for piece in pieces) <= PIECE_LINES + 2
    text = b"".join(pieces).decode()
    assert text.startswith("# HELP x What it is.\n# TYPE x gauge\nx{")
    assert text.count("# TYPE") == 1
    assert text.count("\nx{") == 100_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """Two brokers of one cluster that ask Postgres with nearly every scrape."""
    home: Path = tmp_path_factory.mktemp("pair")
    dsn = asyncio.run(create_empty_database())
    arguments = ("--postgres", dsn, "--store", f"file://{home / 'objects'}")
    environment = {**os.environ, "STREAMHOUSE_METRICS__CLUSTER_INTERVAL_MS": "100"}
    started = [
        start_broker(home / f"b{at}", *arguments, environment=environment) for at in range(2)
    ]
    yield started
    codes = [broker.stop() for broker in started]
    assert not any(codes)


async def test_lag_is_exported_by_one_broker_and_by_the_next_when_it_is_gone(
    pair: list[BrokerProcess],
) -> None:
    # Given a group that has read three of five records
    async with await WireClient.connect(pair[0].bootstrap) as wire, asyncio.timeout(30):
        await wire.create_topic("orders")
        while len((described := await wire.describe("orders")).brokers) < 2:
            await asyncio.sleep(0.01)  # until then it leads all there is
    (leader,) = (
        one
        for one in described.brokers
        if one.node_id == described.topics[0].partitions[0].leader_id
    )
    async with await WireClient.connect(f"{leader.host}:{leader.port}") as wire:
        records = [Record(offset_delta=at, value=b"v") for at in range(5)]
        now_ms = time.time_ns() // 1_000_000
        produced = await wire.produce("orders", build_batch(records, base_timestamp_ms=now_ms))
        assert produced.error_code == 0
    consumer = Consumer({"bootstrap.servers": pair[0].bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    consumer.close()

    # When both are scraped, then one of them has all of it, and the other nothing
    where = 'group="billing",topic="orders",partition="0"'
    exporting = await who_exports(pair, f"group_lag{{{where}}}")
    (other,) = (broker for broker in pair if broker is not exporting)
    assert series(get(other, "/metrics")) == {}
    found = series(get(exporting, "/metrics"))
    assert found[f"group_committed_offset{{{where}}}"] == 3
    assert found[f"group_lag{{{where}}}"] == 2
    assert 0 <= found[f"group_lag_seconds{{{where}}}"] < 60
    assert found['group_members{group="billing"}'] == 0
    assert found['group_state{group="billing",state="Empty"}'] == 1
    assert found['partition_log_start_offset{topic="orders",partition="0"}'] == 0
    assert found['partition_high_watermark{topic="orders",partition="0"}'] == 5
    assert found['topic_bytes{topic="orders"}'] > 0
    assert found["brokers"] == 2

    # When that broker stops, then the other one goes on
    assert exporting.stop() == 0
    assert await who_exports([other], f"group_lag{{{where}}}") is other
    assert series(get(other, "/metrics"))["brokers"] == 1


async def who_exports(candidates: list[BrokerProcess], name: str) -> BrokerProcess:
    """Wait until one of them exports a series."""
    async with asyncio.timeout(HANDED_OVER_S):
        while True:
            for broker in candidates:
                if name in series(get(broker, "/metrics")):
                    return broker
            await asyncio.sleep(GLANCE_S)
