"""Health and metrics, as a probe and Prometheus see them."""

import http.client
import json
from functools import partial
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.tls import metric
from tests.support.wire import WireClient, fetch_request


def get(broker: BrokerProcess, path: str) -> str:
    with urlopen(f"http://{broker.http}{path}", timeout=30) as response:
        assert response.status == 200
        text: str = response.read().decode()
        return text


def test_a_serving_broker_is_live_and_ready(broker: BrokerProcess) -> None:
    assert json.loads(get(broker, "/health/live")) == {"status": "live"}
    ready = json.loads(get(broker, "/health/ready"))
    assert ready["status"] == "ready"
    assert ready["checks"] == {"broker": "ok", "postgres": "ok", "object store": "ok"}


def test_who_comes_without_a_path_is_told_which_there_are(broker: BrokerProcess) -> None:
    assert get(broker, "/") == "StreamHouse: /health/live /health/ready /metrics /usage\n"


def test_a_probe_may_ask_for_no_more_than_the_head(broker: BrokerProcess) -> None:
    connection = http.client.HTTPConnection(broker.http, timeout=30)
    for method, path in (("HEAD", "/metrics"), ("GET", "/health/live")):
        connection.request(method, path)
        response = connection.getresponse()
        assert response.status == 200
        assert (response.read() == b"") is (method == "HEAD")
    connection.close()


async def test_metrics_count_what_was_done(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    # Given three records in a partition
    await wire.create_topic(topic)
    records = [Record(offset_delta=at, value=b"v") for at in range(3)]
    await wire.produce(topic, build_batch(records))
    await wire.fetch(topic, 0)

    # When the metrics are scraped
    families = {
        family.name: family for family in text_string_to_metric_families(get(broker, "/metrics"))
    }

    # Then the partition's offsets, the write path and each request are among them
    def value(family: str, **labels: str) -> float:
        (found,) = (
            sample.value
            for sample in families[family].samples
            if sample.labels == labels
            and not sample.name.endswith(("_created", "_bucket"))
            and not sample.name.endswith("_sum")
        )
        return found

    where = {"topic": topic, "partition": "0"}
    assert value("streamhouse_partition_log_start_offset", **where) == 0
    assert value("streamhouse_partition_high_watermark", **where) == 3
    assert value("streamhouse_partition_last_stable_offset", **where) == 3
    assert value("streamhouse_partition_log_end_offset", **where) == 3
    assert value("streamhouse_object_put_seconds") >= 1
    assert value("streamhouse_commit_seconds") >= 1
    assert value("streamhouse_records_committed") >= 3
    assert value("streamhouse_request_seconds", api="produce") >= 1
    assert value("streamhouse_partition_reads", source="tail") >= 1
    assert value("streamhouse_connections", listener=f"PLAINTEXT://{broker.bootstrap}") >= 1


async def test_error_codes_within_an_answer_are_counted(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    # Given a topic of one partition
    await wire.create_topic(topic)
    batch = build_batch([Record(offset_delta=0, value=b"v")])
    errors = partial(metric, broker, "streamhouse_errors_total")
    wrong = {"api": "produce", "error": "unknown_topic_or_partition"}
    beyond = {"api": "fetch", "error": "offset_out_of_range"}
    nowhere = {"api": "fetch", "error": "unknown_topic_or_partition"}
    kinds = (wrong, beyond, nowhere)
    before = [errors(**kind) for kind in kinds]

    # When partitions are refused, and others are not
    await wire.produce(topic, batch)
    await wire.produce(topic, batch, partition=1)
    await wire.ask(fetch_request([(topic, 0, 99), (topic, 1, 0), (topic, 2, 0)]))
    await wire.fetch(topic, 0)

    # Then each of them is counted
    counted = [errors(**kind) - was for kind, was in zip(kinds, before, strict=True)]
    assert counted == [1, 1, 2]
