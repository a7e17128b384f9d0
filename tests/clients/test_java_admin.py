"""The Java administration tools of Apache Kafka, with what they print."""

import re
import uuid

import pytest

from tests.clients.confluent import Confluent
from tests.clients.java_tools import JavaTools
from tests.clients.processes import ProgramFailed
from tests.clients.topics import new_topic


def test_topics_are_created_described_listed_grown_and_deleted(java_tools: JavaTools) -> None:
    topic = f"admin-{uuid.uuid4().hex[:8]}"
    named = ("--topic", topic)

    # When it is created
    settings = (
        "--partitions",
        "3",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=3600000",
    )
    created = java_tools.run("kafka-topics", "--create", *named, *settings)
    # Then the tool says so, and describes what was asked for
    assert created.stdout == f"Created topic {topic}.\n"
    described = java_tools.run("kafka-topics", "--describe", *named).stdout
    header, *partitions = described.splitlines()
    assert re.search(r"PartitionCount: 3\tReplicationFactor: 1\t", header), header
    assert re.search(r"\tConfigs: \S*retention\.ms=3600000", header), header
    assert re.search(rf"^Topic: {topic}\tTopicId: [\w-]{{22}}\t", header), header
    for index, line in enumerate(partitions):
        node = r"(\d+)"
        shape = (
            rf"\tTopic: {topic}\tPartition: {index}\tLeader: {node}\tReplicas: \1\tIsr: \1(\t|$)"
        )
        assert re.search(shape, line), line
    assert len(partitions) == 3
    assert topic in java_tools.run("kafka-topics", "--list").stdout.splitlines()

    # When it is created again
    with pytest.raises(ProgramFailed, match=f"Topic '{topic}' already exists"):
        java_tools.run("kafka-topics", "--create", *named, *settings)

    # When it grows
    java_tools.run("kafka-topics", "--alter", *named, "--partitions", "5")
    # Then it has that many partitions, and shrinking is refused
    assert "PartitionCount: 5\t" in java_tools.run("kafka-topics", "--describe", *named).stdout
    with pytest.raises(ProgramFailed, match="InvalidPartitionsException"):
        java_tools.run("kafka-topics", "--alter", *named, "--partitions", "4")

    # When it is deleted
    java_tools.run("kafka-topics", "--delete", *named)
    # Then it is gone
    assert topic not in java_tools.run("kafka-topics", "--list").stdout.splitlines()
    with pytest.raises(ProgramFailed, match=f"Topic '{topic}' does not exist"):
        java_tools.run("kafka-topics", "--describe", *named)


def test_topic_configs_are_set_described_and_unset(
    java_tools: JavaTools, confluent: Confluent
) -> None:
    topic = new_topic(confluent, "configs")
    entity = ("--entity-type", "topics", "--entity-name", topic)

    # When a config is set
    added = "retention.ms=86400000,cleanup.policy=[compact,delete]"
    altered = java_tools.run("kafka-configs", "--alter", *entity, "--add-config", added)
    # Then it is described with its new value, and as set on the topic itself
    assert altered.stdout == f"Completed updating config for topic {topic}.\n"
    described = java_tools.run("kafka-configs", "--describe", *entity).stdout
    assert "  retention.ms=86400000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:" in described
    assert "  cleanup.policy=compact,delete sensitive=false" in described

    # When it is unset
    java_tools.run("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms")
    # Then only the default is left
    described = java_tools.run("kafka-configs", "--describe", *entity).stdout
    assert "retention.ms" not in described
    everything = java_tools.run("kafka-configs", "--describe", "--all", *entity).stdout
    assert "  retention.ms=604800000 sensitive=false" in everything


def test_a_config_that_kafka_does_not_know_is_refused(
    java_tools: JavaTools, confluent: Confluent
) -> None:
    entity = ("--entity-type", "topics", "--entity-name", new_topic(confluent, "configs"))

    with pytest.raises(ProgramFailed, match="InvalidConfigurationException"):
        java_tools.run("kafka-configs", "--alter", *entity, "--add-config", "no.such.config=1")
    with pytest.raises(ProgramFailed, match="InvalidConfigurationException"):
        java_tools.run("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=soon")


def test_api_versions_are_listed(java_tools: JavaTools) -> None:
    output = java_tools.run("kafka-broker-api-versions")

    assert re.search(r"^127\.0\.0\.1:\d+ \(id: \d+ rack: \S+", output.stdout), output.stdout
    for api in ("Produce(0)", "Fetch(1)", "ListOffsets(2)", "Metadata(3)", "ApiVersions(18)"):
        assert re.search(
            rf"^\t{re.escape(api)}: \d+ to \d+ \[usable: \d+\],?$", output.stdout, re.MULTILINE
        )


def test_the_performance_tool_produces_with_its_default_of_idempotence(
    java_tools: JavaTools, confluent: Confluent
) -> None:
    topic = new_topic(confluent, "performance", partition_count=3)
    load = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")

    output = java_tools.run("kafka-producer-perf-test", "--topic", topic, *load)

    assert re.search(r"^20000 records sent, ", output.stdout, re.MULTILINE), output.stdout
    assert output.stderr == ""
    assert sum(confluent.record_counts(topic).values()) == 20_000
