"""The Java tools that look after a cluster: directories, placement, quorum and features."""

import json
import re
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.clients.confluent import Confluent
from tests.clients.java_tools import JavaTools
from tests.clients.records import SentRecord
from tests.clients.topics import new_topic


def test_log_directories_tell_how_large_a_partition_is(
    java_tools: JavaTools, confluent: Confluent
) -> None:
    topic = new_topic(confluent, "log-dirs")
    confluent.produce(topic, [SentRecord(key=None, value=b"x" * 10_000)], codec="none")

    output = java_tools.run("kafka-log-dirs", "--describe", "--topic-list", topic).stdout

    (broker,) = json.loads(output.splitlines()[-1])["brokers"]
    (log_dir,) = broker["logDirs"]
    assert log_dir["error"] is None
    (partition,) = log_dir["partitions"]
    assert partition.pop("size") > 10_000
    assert partition == {"partition": f"{topic}-0", "offsetLag": 0, "isFuture": False}


def test_a_partition_is_reassigned_to_where_it_is(
    java_tools: JavaTools, confluent: Confluent, tmp_path: Path
) -> None:
    # Given where a partition is, as the tool has it
    topic = new_topic(confluent, "reassigned")
    (tmp_path / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    described = AdminClient({"bootstrap.servers": confluent.bootstrap}).list_topics(topic)
    leader = described.topics[topic].partitions[0].leader
    moved = ("--topics-to-move-json-file", str(tmp_path / "topics.json"))
    generated = java_tools.run(
        "kafka-reassign-partitions", "--generate", *moved, "--broker-list", str(leader)
    ).stdout
    current = generated.splitlines()[1]
    assert json.loads(current)["partitions"][0]["replicas"] == [leader]
    (tmp_path / "plan.json").write_text(current)
    plan = ("--reassignment-json-file", str(tmp_path / "plan.json"))

    # When that is executed, then it is complete at once
    executed = java_tools.run("kafka-reassign-partitions", "--execute", *plan).stdout
    assert f"Successfully started partition reassignment for {topic}-0" in executed
    verified = java_tools.run("kafka-reassign-partitions", "--verify", *plan).stdout
    assert f"Reassignment of partition {topic}-0 is completed." in verified

    # And nothing is left to list, or to elect
    listed = java_tools.run("kafka-reassign-partitions", "--list").stdout
    assert listed == "No partition reassignments found.\n"
    election = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    elected = java_tools.run("kafka-leader-election", *election).stdout
    assert elected == f"Valid replica already elected for partitions {topic}-0\n"


def test_the_quorum_is_described(java_tools: JavaTools) -> None:
    output = java_tools.run("kafka-metadata-quorum", "describe", "--status").stdout
    status = dict(re.split(r":\s+", line, maxsplit=1) for line in output.splitlines())
    (voter,) = json.loads(status["CurrentVoters"])
    assert str(voter["id"]) == status["LeaderId"]
    assert int(status["HighWatermark"]) >= 0
    assert (status["MaxFollowerLag"], status["CurrentObservers"]) == ("0", "[]")


def test_features_have_the_levels_of_the_release(java_tools: JavaTools) -> None:
    output = java_tools.run("kafka-features", "describe").stdout
    level = re.compile(r"^Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", re.MULTILINE)
    levels = dict(level.findall(output))
    wanted = {"group.version": "1", "metadata.version": "4.3-IV0", "transaction.version": "2"}
    assert {name: levels[name] for name in wanted} == wanted
