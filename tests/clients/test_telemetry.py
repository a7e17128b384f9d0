"""Stock clients that push their own metrics (KIP-714), and where they can be seen."""

import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.clients.confluent import Confluent
from tests.clients.java_tools import MAIN_CLASSES, JavaTools
from tests.clients.shared_java_tools import shared_java_tools
from tests.oracle.tool_runner import ToolRunner
from tests.support.broker import BrokerProcess

SEEN_S = 240.0
GLANCE_S = 0.1


@pytest.fixture(scope="module")
def tools(broker: BrokerProcess, tool_runner: ToolRunner) -> JavaTools:
    return shared_java_tools(broker.bootstrap, tool_runner)


@pytest.fixture(scope="module")
def prefix(tools: JavaTools) -> Iterator[str]:
    """What ids of clients begin with that push all their metrics every 100 ms."""
    name = f"telemetry-{uuid.uuid4().hex[:8]}"
    subscription = ("--metrics", "*", "--interval", "100", "--match", f"client_id={name}-.*")
    tools.run("kafka-client-metrics", "--alter", "--name", name, *subscription)
    yield name
    tools.run("kafka-client-metrics", "--delete", "--name", name)


def pushed_by(broker: BrokerProcess, client_id: str) -> dict[str, tuple[str, float]]:
    """Return what a client has pushed: its software and the largest value, by name."""
    with urlopen(f"http://{broker.http}/metrics", timeout=60) as response:
        text = response.read().decode()
    found: dict[str, tuple[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("client_id") == client_id:
                before = found.get(sample.name, ("", 0.0))[1]
                software = sample.labels["client_software"]
                found[sample.name] = (software, max(sample.value, before))
    return found


def wait_for(broker: BrokerProcess, client_id: str, name: str, work: Callable[[], object]) -> str:
    """Do some work until a client has pushed a value of a metric; return its software."""
    deadline = time.monotonic() + SEEN_S
    while pushed_by(broker, client_id).get(name, ("", 0.0))[1] <= 0:
        assert time.monotonic() < deadline, pushed_by(broker, client_id)
        work()
        time.sleep(GLANCE_S)
    return pushed_by(broker, client_id)[name][0]


def test_librdkafka_pushes(broker: BrokerProcess, prefix: str) -> None:
    # Given a producer
    Confluent(bootstrap=broker.bootstrap).create_topic(prefix, partition_count=1)
    client_id = f"{prefix}-librdkafka"
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": client_id})

    def send() -> None:
        producer.produce(prefix, b"value")
        producer.flush()

    # When it sends something, then its metrics can be seen while it runs
    name = "org_apache_kafka_producer_node_request_latency_max"
    software = wait_for(broker, client_id, name, send)
    assert software.startswith("confluent-kafka-python ")


def test_a_java_producer_pushes(broker: BrokerProcess, prefix: str, tools: JavaTools) -> None:
    # Given a producer that sends for longer than anybody waits
    client_id = f"{prefix}-java"
    command = tools.command(MAIN_CLASSES["kafka-producer-perf-test"])
    command += ["--bootstrap-server", broker.bootstrap]
    command += ["--topic", f"{prefix}-java", "--num-records", "1000000", "--record-size", "10"]
    command += ["--throughput", "100", "--command-property", f"client.id={client_id}"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # Then what it has sent can be seen while it runs
        name = "org_apache_kafka_producer_record_send_total"
        software = wait_for(broker, client_id, name, lambda: None)
        assert running.poll() is None
    finally:
        running.kill()
        running.wait()
    assert software.startswith("apache-kafka-java ")
