"""What the parts of bench/versus send, against a broker: that it is all sent, seen and checked."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from bench.backfill_clients import in_process
from bench.closed_loop import Question, rate
from bench.cluster import Cluster
from bench.results import MeasurementFailed
from bench.versus.clients import java_produce, run_clients
from bench.versus.open_loop import Observed, OpenLoop, open_loop
from bench.versus.parts.starts import first_ack_at_s
from bench.versus.parts.wide import one_record_to_each
from bench.versus.parts.workers import fetch_questions, produce_questions
from bench.versus.payload import MB, payload
from bench.versus.senders import maximum, synchronous
from tests.support.broker import BrokerProcess, running_broker
from tests.support.tls import metric

PARTITIONS = 3
ANSWERED_S = 3.0  # in which an answer comes, whatever the disk has to do


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def cluster(broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap).tidied() as cluster:
        yield cluster


@pytest.mark.parametrize("records_per_s", [500, 1_000, 5_000])
def test_an_open_loop_watches_a_record_of_each_tick(cluster: Cluster, records_per_s: int) -> None:
    # Given a load at a rate, with a reader
    load = OpenLoop(
        bootstrap=cluster.bootstrap,
        topic=cluster.new_topic(PARTITIONS),
        partitions=PARTITIONS,
        records_per_s=records_per_s,
        warm_s=0.1,
        duration_s=0.2,
        reading=True,
    )

    # When it runs
    seen: Observed = in_process(open_loop, load).result()

    # Then all is sent, and of what counts the watched records are acknowledged and read
    watched = min(records_per_s, 1_000) * 0.2
    assert seen.sent == round(records_per_s * 0.3)
    assert len(seen.acknowledged_s) == len(seen.read_s) == len(seen.late_s)
    assert len(seen.late_s) == pytest.approx(watched, abs=1)
    assert min(seen.acknowledged_s + seen.read_s + seen.late_s) >= 0


def test_a_synchronous_producer_times_each_record(cluster: Cluster) -> None:
    took_s = in_process(synchronous, cluster.bootstrap, cluster.new_topic(1), 0.0, 0.3).result()
    assert took_s
    assert min(took_s) > 0


def test_the_maximum_counts_what_was_acknowledged(cluster: Cluster) -> None:
    topic = cluster.new_topic(PARTITIONS)
    found = in_process(maximum, cluster.bootstrap, topic, PARTITIONS, 100, 0.2).result()
    assert found > 0


def test_each_partition_gets_a_record_in_each_round(cluster: Cluster) -> None:
    topic = cluster.new_topic(PARTITIONS)
    took_s = in_process(one_record_to_each, cluster.bootstrap, topic, PARTITIONS, 2).result()
    assert len(took_s) == 2


def test_javas_producer_is_given_all_of_its_properties(
    broker: BrokerProcess, cluster: Cluster, tmp_path: Path
) -> None:
    # Given enough for 60 batches of the default size, and a producer that is to make few of it
    events = payload(tmp_path, 1_024, MB)
    properties = {"batch.size": "1000000", "buffer.memory": "134217728", "linger.ms": "60000"}
    place = (broker.bootstrap, cluster.new_topic(1), events.different, events.records)
    before = metric(broker, "streamhouse_request_seconds_count", api="produce")

    # When all of it is sent
    run_clients([java_produce(*place, properties)])

    # Then it has waited for large ones
    requests = metric(broker, "streamhouse_request_seconds_count", api="produce") - before
    assert 1 <= requests <= 5


async def test_the_first_ack_is_of_a_topic_that_asking_makes(broker: BrokerProcess) -> None:
    assert await first_ack_at_s(broker.bootstrap) > 0


def test_produce_and_fetch_go_on_as_long_as_they_are_fine(cluster: Cluster) -> None:
    # Given a topic
    topic = cluster.new_topic(PARTITIONS)
    leaders = cluster.leaders(topic)

    # When records are written and one batch is read again and again
    for questions in (produce_questions(topic, leaders), fetch_questions(topic, leaders)):
        # Then every answer is accepted
        assert uvloop.run(rate(questions, ANSWERED_S))["per_s"]


def test_a_refused_produce_is_seen_by_its_bytes(cluster: Cluster) -> None:
    # Given a partition that does not exist
    topic = cluster.new_topic(1)
    (leader,) = cluster.leaders(topic).values()
    questions: list[Question] = produce_questions(topic, {7: leader})

    # When records are written to it, then that is an error
    with pytest.raises(MeasurementFailed, match="refused"):
        uvloop.run(rate(questions, ANSWERED_S))
