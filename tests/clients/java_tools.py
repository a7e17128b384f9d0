"""The stock Kafka command-line tools of Apache Kafka 4.3.1, run from Maven's jars."""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.cache import filled_once
from tests.clients.class_archive import archive_options
from tests.clients.maven import copy_dependencies
from tests.clients.processes import Output, program, run
from tests.clients.records import ConsumedRecord, Headers

POM: Final = Path(__file__).with_name("pom.xml")
MAIN_CLASSES: Final = {  # by the names of the scripts in a Kafka distribution
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
JVM_OPTIONS: Final = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # a tool lives a second: compiling better than C1 never pays
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
NULL: Final = "<null>"


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaTools:
    """The tools, pointed at one cluster.

    Attributes:
        jars: directory of all jars.
        bootstrap: HOST:PORT.
    """

    java: str
    jars: Path
    bootstrap: str

    def command(self, main_class: str, *, classes: Path | None = None) -> list[str]:
        """Return what starts a class of the jars, or of `classes`, a directory."""
        class_path = f"{self.jars}/*" if classes is None else f"{self.jars}/*:{classes}"
        java = (self.java, *JVM_OPTIONS)
        archive = archive_options(java, self.jars, tuple(MAIN_CLASSES.values()))
        return [*java, *archive, "-cp", class_path, main_class]

    def run(
        self, tool: str, *arguments: str, stdin: bytes | Path = b"", timeout_s: float = 240
    ) -> Output:
        """Run a tool as its script would, with --bootstrap-server added.

        Raises:
            ProgramFailed: it ended with another code than 0, or not in time.
        """
        java = self.command(MAIN_CLASSES[tool])
        command = [*java, "--bootstrap-server", self.bootstrap, *arguments]
        return run(command, stdin=stdin, timeout_s=timeout_s)

    def consume(self, topic: str, record_counts: Mapping[int, int]) -> list[ConsumedRecord]:
        """Read every partition from offset 0 with the console consumer, without a group.

        Args:
            topic: its records hold neither tabs nor line feeds.
            record_counts: for each partition, how many records it has; the tool would wait for
                more, so that more than these are not seen.
        """
        printed = ("timestamp", "partition", "offset", "headers", "key")
        formatting = _repeated("--formatter-property", [f"print.{name}=true" for name in printed])
        formatting += _repeated(
            "--formatter-property", ["key.separator=\t", f"null.literal={NULL}"]
        )

        def consume_partition(partition: int) -> list[ConsumedRecord]:
            place = ("--topic", topic, "--partition", str(partition), "--offset", "earliest")
            limits = ("--max-messages", str(record_counts[partition]), "--timeout-ms", "90000")
            output = self.run("kafka-console-consumer", *place, *limits, *formatting)
            return [_record(line) for line in output.stdout.splitlines()]

        filled = [partition for partition, count in record_counts.items() if count > 0]
        with ThreadPoolExecutor(max_workers=2) as pool:  # the tool takes one partition per process
            return [record for part in pool.map(consume_partition, filled) for record in part]

    def produce(
        self, topic: str, lines: bytes | Path, *, codec: str, headers: bool = False
    ) -> None:
        """Send lines with the console producer, which is idempotent and asks for all acks.

        Args:
            topic: to which the tool's own partitioner sends.
            lines: [headers, a tab,] key, a tab, value; NULL stands for null everywhere.
            codec: none, gzip, snappy, lz4 or zstd.
            headers: the lines begin with them: name:value, separated by commas.
        """
        properties = ["parse.key=true", f"null.marker={NULL}"]
        properties += ["parse.headers=true"] if headers else []
        reading = _repeated("--reader-property", properties)
        arguments = ("--topic", topic, "--compression-codec", codec, *reading)
        self.run("kafka-console-producer", *arguments, stdin=lines)


def java_tools(bootstrap: str) -> JavaTools:
    """Return the tools; the first call on a machine resolves their jars (some 60 MB).

    Raises:
        ProgramMissing: there is no Java or Maven, and Debian's cannot be installed.
    """
    version = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    java = program("java", debian_package="openjdk-17-jre-headless")
    jars = filled_once(f"kafka-tools-{version}", partial(copy_dependencies, POM))
    return JavaTools(java=java, jars=jars, bootstrap=bootstrap)


def _repeated(flag: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


def _record(line: str) -> ConsumedRecord:
    """Parse one line of the console consumer as `consume` has it printed."""
    timestamp, partition, offset, headers, key, value = line.split("\t", 5)
    timestamp_type, timestamp_ms = timestamp.split(":")
    assert timestamp_type == "CreateTime", line
    return ConsumedRecord(
        partition=int(partition.removeprefix("Partition:")),
        offset=int(offset.removeprefix("Offset:")),
        timestamp_ms=int(timestamp_ms),
        key=_bytes(key),
        value=_bytes(value),
        headers=_headers(headers),
    )


def _headers(text: str) -> Headers:
    if text == "NO_HEADERS":
        return ()
    pairs = (pair.split(":", 1) for pair in text.split(","))
    return tuple((name, _bytes(value)) for name, value in pairs)


def _bytes(text: str) -> bytes | None:
    return None if text == NULL else text.encode()
