"""Kafka Connect runs on this broker: a file, a topic, a file again."""

import uuid
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from tests.clients.confluent import Confluent
from tests.clients.connect import Config, Connect

TAKEOVER = {
    "scheduled.rebalance.max.delay.ms": "0",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
}
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


def numbered(numbers: Iterable[int]) -> str:
    return "".join(f"line {number}\n" for number in numbers)


def append(path: Path, numbers: Iterable[int]) -> None:
    with path.open("a") as file:
        file.write(numbered(numbers))


def source(topic: str, path: Path) -> Config:
    kind = {"name": "source", "connector.class": "FileStreamSource", "tasks.max": "1"}
    return kind | {"file": str(path), "topic": topic}


def sink(topic: str, path: Path) -> Config:
    kind = {"name": "sink", "connector.class": "FileStreamSink", "tasks.max": "1"}
    committed = {"consumer.override.isolation.level": "read_committed"}
    return kind | {"file": str(path), "topics": topic} | committed


def committed_lines(bootstrap: str, topic: str, count: int) -> list[str]:
    """Return what a reader of committed records sees of a topic's only partition, to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    lines: list[str] = []
    try:
        while (message := consumer.poll(30)) is not None and not message.error():
            lines.append((message.value() or b"").decode())
    finally:
        consumer.close()
    assert len(lines) == count
    return lines


def cleanup_policies(bootstrap: str, topics: Iterable[str]) -> set[str]:
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_configs(resources)  # the futures are cancelled without their client
    return {one.result(30)["cleanup.policy"].value for one in described.values()}


def test_a_standalone_worker_copies_a_file_through_a_topic(
    bootstrap: str, confluent: Confluent, tmp_path: Path
) -> None:
    # Given a file
    topic = f"connect-{uuid.uuid4().hex[:8]}"
    read, written = tmp_path / "read", tmp_path / "written"
    append(read, range(1000))

    # When a worker with a source and a sink runs, and the file grows
    connect = Connect(directory=tmp_path, bootstrap=bootstrap)
    with connect.standalone(source(topic, read), sink(topic, written)) as worker:
        worker.wait_until("the file is copied", lambda: text_of(written) == numbered(range(1000)))
        append(read, range(1000, 1500))

        # Then the other file grows, too
        worker.wait_until("the rest is", lambda: text_of(written) == numbered(range(1500)))
    assert sum(confluent.record_counts(topic).values()) == 1500


def test_a_worker_takes_over_from_another_and_copies_exactly_once(
    bootstrap: str, confluent: Confluent, tmp_path: Path
) -> None:
    # Given two workers that share connectors, with transactions for the source
    group = f"connect-{uuid.uuid4().hex[:8]}"
    topic, read, written = f"{group}-lines", tmp_path / "read", tmp_path / "written"
    append(read, range(1000))
    connect = Connect(directory=tmp_path, bootstrap=bootstrap)
    with connect.distributed(group, 2, TAKEOVER | EXACTLY_ONCE) as workers:
        workers[0].put_connector("source", source(topic, read))
        workers[1].put_connector("sink", sink(topic, written))
        workers[0].wait_until("the file is copied", lambda: line_count(written) == 1000)
        topics = {f"{group}-configs": 1, f"{group}-offsets": 3, f"{group}-status": 2}
        assert {name: len(confluent.partitions(name)) for name in topics} == topics
        assert cleanup_policies(bootstrap, topics) == {"compact"}

        # When the one that reads is killed while the file grows
        named = {worker.address: worker for worker in workers}
        reader = named.pop(workers[0].task_worker("source"))
        ((address, other),) = named.items()
        append(read, range(1000, 20_000))
        reader.kill()
        append(read, range(20_000, 21_000))

        # Then the other goes on where it stopped
        other.wait_until("it took over", lambda: other.task_worker("source") == address)
        wanted = set(numbered(range(21_000)).splitlines())
        other.wait_until("all is copied", lambda: set(text_of(written).splitlines()) == wanted)

    # And the topic has each line once, in order, for readers of what is committed
    lines = numbered(range(21_000)).splitlines()
    assert committed_lines(bootstrap, topic, len(lines)) == lines


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def line_count(path: Path) -> int:
    return text_of(path).count("\n")
