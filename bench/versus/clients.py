"""Stock clients as processes: kcat (librdkafka) and the Java performance tools; what they took."""

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from bench.results import MeasurementFailed
from tests.clients.java_tools import java_tools
from tests.clients.kcat import kcat

CLIENT_S: Final = 180.0
SAID_CHARACTERS: Final = 2_000
JAVA_SENT: Final = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .*99\.9th")
JAVA_COLUMNS: Final = 10
FETCH_MS: Final = 7
FEWEST_CHUNKS: Final = 2
LEAST_SHARE: Final = 0.1
JAVA_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
JAVA_CONSUMER: Final = "org.apache.kafka.tools.ConsumerPerformance"
JAVA_OPTIONS: Final = (  # what Kafka's scripts give a tool
    "-Xmx512m",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Clients that ran at the same time and ended well.

    Attributes:
        took_s: from the start of the first to the end of the last.
        cpu_s: of all of them.
        output: standard output of the first.
    """

    took_s: float
    cpu_s: float
    output: str

    def without(self, start: "Ran") -> "Ran":
        """Return the rest, where `start` is what starting and ending alone take.

        Raises:
            MeasurementFailed: there is hardly a rest, so it tells nothing.
        """
        took_s = self.took_s - start.took_s
        if took_s < LEAST_SHARE * self.took_s:
            said = f"{self.took_s:.2f} s, of which {start.took_s:.2f} are a start"
            raise MeasurementFailed(f"too little for such a busy machine: {said}")
        return Ran(took_s=took_s, cpu_s=max(self.cpu_s - start.cpu_s, 0.0), output=self.output)


def run_clients(commands: Sequence[Sequence[str]], timeout_s: float = CLIENT_S) -> Ran:
    """Start all commands at once and wait for all of them.

    Raises:
        MeasurementFailed: one did not end well, or not in time; the message has what it said.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        processes: list[subprocess.Popen[bytes]] = []
        began_s = time.monotonic()
        late = threading.Timer(timeout_s, _kill, [processes])
        late.start()
        try:
            for command in commands:
                processes.append(  # noqa: PERF401 (those that run are killed if one cannot start)
                    subprocess.Popen(  # noqa: S603 (our own arguments)
                        command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
                    )
                )
            cpu_s = sum(_wait(process) for process in processes)
            took_s = time.monotonic() - began_s
        finally:
            late.cancel()
            _kill(processes)
        if any(process.returncode for process in processes):
            codes = [process.returncode for process in processes]
            in_time = "" if late.is_alive() or took_s < timeout_s else f", after {timeout_s} s"
            raise MeasurementFailed(f"{commands[0][0]}: {codes}{in_time}: {_text(errors)}")
        return Ran(took_s=took_s, cpu_s=cpu_s, output=_text(output))


def run_reader(command: Sequence[str], records: int, timeout_s: float = CLIENT_S) -> Ran:
    """Run a client that writes a byte for each of `records`; return how it went on, once it read.

    What counts is the time from the first bytes that come to the last ones before its end: neither
    connecting, where librdkafka may pause for half a second, nor closing. CPU is that of all of it.

    Raises:
        MeasurementFailed: it did not end well, or not in time, or read too little.
    """
    seen: list[tuple[float, int]] = []  # when, and how many until then
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 (our own arguments)
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        )
        late = threading.Timer(timeout_s, _kill, [[process]])
        late.start()
        try:
            assert process.stdout is not None
            count = 0
            while chunk := os.read(process.stdout.fileno(), 1 << 16):
                count += len(chunk)
                seen.append((time.monotonic(), count))
            cpu_s = _wait(process)
        finally:
            late.cancel()
            _kill([process])
            process.stdout.close()  # type: ignore[union-attr] # it is there, as asserted
        if process.returncode or count != records:
            read = f"{count} of {records} records"
            raise MeasurementFailed(f"{command[0]}: {process.returncode}, {read}: {_text(errors)}")
    if len(seen) <= FEWEST_CHUNKS:
        raise MeasurementFailed(f"{records} records come too fast to be timed")
    (began_s, first), (ended_s, last) = seen[0], seen[-2]  # the end comes with its exit
    return Ran(took_s=(ended_s - began_s) / (last - first) * records, cpu_s=cpu_s, output="")


def _wait(process: "subprocess.Popen[bytes]") -> float:
    """Wait for its end; return its CPU seconds."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def _kill(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Kill those that run, and leave it to who waits for them to take note."""
    for process in processes:
        if process.returncode is None:
            process.kill()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")[-SAID_CHARACTERS:].strip()


def kcat_produce(
    bootstrap: str, topic: str, file: Path, count: int, properties: Mapping[str, str]
) -> list[str]:
    """Return the command that sends the first `count` lines of a file."""
    options = [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
    # the default queue of 100,000 messages is a tenth of a second of small ones
    queue = ["-X", "queue.buffering.max.messages=1000000"]
    place = ["-P", "-q", "-b", bootstrap, "-t", topic, "-l", "-c", str(count)]
    return [kcat(bootstrap).path, *place, *queue, *options, str(file)]


def kcat_consume(bootstrap: str, topic: str, count: int) -> list[str]:
    """Return the command that reads `count` records of all partitions from offset 0.

    It writes a byte for each record, 4 KiB at once.
    """
    place = ["-C", "-q", "-b", bootstrap, "-t", topic, "-o", "0", "-c", str(count), "-f", "."]
    return [kcat(bootstrap).path, *place]


def java_produce(
    bootstrap: str, topic: str, file: Path, count: int, properties: Mapping[str, str]
) -> list[str]:
    """Return the command that sends `count` lines of a file, chosen at random."""
    # given twice, the option counts once: the last one
    settings = ["--command-property", *(f"{name}={value}" for name, value in properties.items())]
    place = ["--topic", topic, "--payload-file", str(file), "--num-records", str(count)]
    return [*_java(JAVA_PRODUCER, bootstrap), *place, "--throughput", "-1", *settings]


def java_consume(bootstrap: str, topic: str, count: int) -> list[str]:
    """Return the command that reads `count` records in a new group."""
    place = ["--topic", topic, "--num-records", str(count), "--hide-header"]
    return [*_java(JAVA_CONSUMER, bootstrap), *place]


def _java(main_class: str, bootstrap: str) -> list[str]:
    tools = java_tools(bootstrap)
    java = [tools.java, *JAVA_OPTIONS, "-cp", f"{tools.jars}/*", main_class]
    return [*java, "--bootstrap-server", bootstrap]


def java_produced_s(output: str) -> float:
    """Return the seconds that the producer tool says it took, without those of its JVM's start.

    Raises:
        MeasurementFailed: it has not said so.
    """
    said = JAVA_SENT.findall(output)
    if not said:
        raise MeasurementFailed(f"no summary of the producer: {output}")
    records, per_s = said[-1]
    return int(records) / float(per_s)


def java_consumed_s(output: str) -> float:
    """Return the seconds that the consumer tool says it fetched, without those of its joining.

    Raises:
        MeasurementFailed: it has not said so.
    """
    columns = output.splitlines()[-1].split(", ") if output else []
    if len(columns) != JAVA_COLUMNS:
        raise MeasurementFailed(f"no summary of the consumer: {output}")
    return float(columns[FETCH_MS]) / 1000
